/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: members meet under a name, compare what they ask for, and connect; the first verdict on a comm is its last. */
#include "comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/version.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sized.h"

#define WORKS        64
#define P2P_CHANNELS 2

/* ------------------------------------------------------------------------------------------- verdicts */

bool weft__comm_fail(weft_comm *comm, weft_result result, const char *text)
{
    weft_world *world = comm->world;
    pthread_mutex_lock(&comm->verdict_lock);
    bool first = atomic_load(&comm->verdict) == WEFT_OK;
    if (first) {
        snprintf(comm->verdict_text, sizeof comm->verdict_text, "%s", text);
        atomic_store(&comm->verdict, (int32_t)result);
    }
    pthread_mutex_unlock(&comm->verdict_lock);
    if (!first)
        return false;
    pthread_mutex_lock(&world->error_lock);
    if (world->first_error == WEFT_OK) {
        world->first_error = result;
        snprintf(world->first_error_text, sizeof world->first_error_text, "%s", text);
    }
    pthread_mutex_unlock(&world->error_lock);
    return true;
}

void weft_backend_fail(weft_comm *comm, weft_result result, const char *format, ...)
{
    char text[sizeof comm->verdict_text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!weft__comm_fail(comm, result, text))
        return;
    weft__log(WEFT_LOG_ERROR, "%s (%s)", text, weft_result_string(result));
    weft__progress_alarm(comm->world);
}

void weft__comm_carry_out_verdict(weft_comm *comm)
{
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    comm->aborted = true;
    if (comm->connected)
        comm->backend->comm_abort(comm->backend_comm, verdict, comm->verdict_text);
    /* Held works end as they are looked at: see begin() in progress.c. */
}

weft_result weft__comm_usable(weft_comm *comm, uint64_t cap)
{
    WEFT_TRY(weft__world_alive(comm->world));
    weft_result verdict = (weft_result)atomic_load_explicit(&comm->verdict, memory_order_acquire);
    if (verdict != WEFT_OK)
        return weft__fail_quietly(verdict, comm->verdict_text);
    if (!comm->connected)
        return weft__fail(WEFT_E_STATE, "comm %s is not made yet: weft_comm_create_finish() comes first", comm->name);
    if (!(comm->facts.caps & cap))
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: backend %s carries no %s", comm->name, comm->backend->name,
                          cap == WEFT_CAP_P2P ? "p2p messages" : "collectives");
    return WEFT_OK;
}

weft_result weft_comm_error(const weft_comm *comm, char *text, size_t text_bytes)
{
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    if (text && text_bytes)
        snprintf(text, text_bytes, "%s", verdict == WEFT_OK ? "" : comm->verdict_text);
    return verdict;
}

weft_result weft_comm_abort(weft_comm *comm)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "no comm to abort");
    WEFT_TRY(weft__world_alive(comm->world));
    weft_backend_fail(comm, WEFT_E_ABORTED, "comm %s was aborted by rank %d", comm->name, comm->world->rank);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- creation */

static weft_result check_members(const weft_world *world, const char *name, const int *ranks, int count, int *self_out)
{
    if (!name || !*name || strlen(name) > WEFT_COMM_NAME_MAX)
        return weft__fail(WEFT_E_INVALID, "a comm needs a name of 1 to %d bytes, not '%s'", WEFT_COMM_NAME_MAX,
                          name ? name : "");
    if (!ranks || count < 1 || count > world->size)
        return weft__fail(WEFT_E_INVALID, "comm %s of %d ranks in a world of %d", name, count, world->size);
    *self_out = -1;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= world->size)
            return weft__fail(WEFT_E_RANGE, "comm %s names rank %d of %d", name, ranks[i], world->size);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return weft__fail(WEFT_E_INVALID, "comm %s names rank %d twice", name, ranks[i]);
        if (ranks[i] == world->rank)
            *self_out = i;
    }
    if (*self_out < 0)
        return weft__fail(WEFT_E_INVALID, "comm %s does not name rank %d, which makes it", name, world->rank);
    return WEFT_OK;
}

static weft_result complete_config(const weft_world *world, const weft_comm_config *given, weft_comm_config *config)
{
    *config = (weft_comm_config){0};
    WEFT_TRY(weft__take_sized(config, sizeof *config, given, "weft_comm_config"));
    if (config->flags & ~(uint32_t)WEFT_COMM_EXACT)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.flags has unknown bits: %#x", config->flags);
    config->works = (uint32_t)weft__round_up(config->works ? config->works : WORKS, 64);
    if (config->works > 4096)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.works is %u, more than 4096", config->works);
    config->p2p_channels = config->p2p_channels ? config->p2p_channels : P2P_CHANNELS;
    if (config->p2p_channels > 64)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_channels is %u, more than 64", config->p2p_channels);
    config->timeout_ms = config->timeout_ms ? config->timeout_ms : world->config.timeout_ms;
    if (!config->backend)
        config->backend = world->config.backend;
    return WEFT_OK;
}

/* The entry for a name; it stays when the comm goes, so that the next one of that name is told from this one. */
static weft_result use_name(weft_world *world, const char *name, weft__name_use **use_out)
{
    weft__name_use *use = world->names;
    while (use && strcmp(use->name, name) != 0)
        use = use->next;
    if (use && use->in_use)
        return weft__fail(WEFT_E_INVALID, "there is a comm named %s already", name);
    if (!use) {
        use = weft__alloc(sizeof *use);
        if (!use)
            return WEFT_E_NO_MEMORY;
        snprintf(use->name, sizeof use->name, "%s", name);
        use->next = world->names;
        world->names = use;
    }
    use->in_use = true;
    use->count++;
    *use_out = use;
    return WEFT_OK;
}

static weft_result cannot_make(const weft_comm *comm)
{
    return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: backend %s cannot make it", comm->name, comm->backend->name);
}

static weft_result create_behind(weft_comm *comm, unsigned char card[WEFT_BACKEND_CARD_BYTES])
{
    weft_world *world = comm->world;
    const weft__backend_instance *instance;
    comm->facts.size = sizeof comm->facts;
    WEFT_TRY(weft__backends_choose(world, comm->config.backend, comm->config.flags, comm->ranks, comm->size, &instance,
                                   &comm->facts));
    comm->backend = instance->table;
    size_t memory = comm->facts.op_bytes + WEFT_P2P_BATCH_MAX * comm->facts.message_bytes;
    WEFT_TRY(weft__work_pool_take(&world->works, comm->config.works, memory, &comm->slots));
    weft_backend_comm description = {.size = sizeof description,
                                     .comm = comm,
                                     .name = comm->name,
                                     .rank = comm->rank,
                                     .count = comm->size,
                                     .ranks = comm->ranks,
                                     .p2p_channels = comm->config.p2p_channels};
    weft__progress_enter(world);
    comm->next = world->comms;
    world->comms = comm;
    weft_result result = comm->backend->comm_create(instance->state, &description, &comm->backend_comm, card);
    weft__progress_leave(world);
    return result == WEFT_E_UNSUPPORTED ? cannot_make(comm) : result;
}

static weft_result post_card(weft_comm *comm, const unsigned char *backend_card)
{
    weft_world *world = comm->world;
    if (comm->size == 1)
        return WEFT_OK;
    comm->card = weft__board_take(world->own->header->cards, comm->name, comm->incarnation);
    if (!comm->card)
        return weft__fail(WEFT_E_BUSY, "comm %s: a rank can have %d comms", comm->name, WEFT__CARDS);
    weft__card_terms *terms = &comm->card->terms;
    *terms = (weft__card_terms){.weft_version = WEFT_VERSION_NUMBER,
                                .count = comm->size,
                                .ranks_hash =
                                    weft__hash(WEFT__HASH_START, comm->ranks, (size_t)comm->size * sizeof *comm->ranks),
                                .works = comm->config.works,
                                .p2p_channels = comm->config.p2p_channels,
                                .timeout_ms = comm->config.timeout_ms,
                                .flags = comm->config.flags};
    weft__name_ranks(comm->ranks, comm->size, terms->ranks, sizeof terms->ranks);
    snprintf(terms->backend, sizeof terms->backend, "%s", comm->backend->name);
    memcpy(comm->card->backend_card, backend_card, WEFT_BACKEND_CARD_BYTES);
    weft__board_post(comm->card);
    return WEFT_OK;
}

static weft_result fill_comm(weft_comm *comm, const char *name, const int *ranks, int count,
                             const weft_comm_config *config)
{
    weft_world *world = comm->world;
    WEFT_TRY(check_members(world, name, ranks, count, &comm->rank));
    WEFT_TRY(complete_config(world, config, &comm->config));
    snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->size = count;
    comm->timeout_ns = (uint64_t)comm->config.timeout_ms * 1000000u;
    comm->label = weft_trace_label(world, name);
    comm->held_end = &comm->held;
    comm->ranks = weft__alloc((size_t)count * sizeof *ranks);
    if (!comm->ranks)
        return WEFT_E_NO_MEMORY;
    memcpy(comm->ranks, ranks, (size_t)count * sizeof *ranks);
    WEFT_TRY(use_name(world, name, &comm->use));
    comm->incarnation = comm->use->count;
    unsigned char card[WEFT_BACKEND_CARD_BYTES] = {0};
    WEFT_TRY(create_behind(comm, card));
    return post_card(comm, card);
}

weft_result weft_comm_create_start(weft_world *world, const char *name, const int *ranks, int count,
                                   const weft_comm_config *config, weft_comm **comm_out)
{
    *comm_out = NULL;
    WEFT_TRY(weft__world_alive(world));
    weft_comm *comm = weft__alloc(sizeof *comm);
    if (!comm)
        return WEFT_E_NO_MEMORY;
    comm->world = world;
    pthread_mutex_init(&comm->verdict_lock, NULL);
    weft_result result = fill_comm(comm, name, ranks, count, config);
    if (result != WEFT_OK) {
        weft_comm_destroy(comm);
        return result;
    }
    *comm_out = comm;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- meeting under a name */

static weft_result compare_terms(const weft_comm *comm, const weft__card_terms *mine, const weft__card_terms *theirs,
                                 int their_rank)
{
    const char *name = comm->name;
    int self = comm->world->rank;
    if (theirs->count != mine->count || theirs->ranks_hash != mine->ranks_hash)
        return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d lists ranks %s, rank %d lists %s", name, their_rank,
                          theirs->ranks, self, mine->ranks);
    if (strcmp(theirs->backend, mine->backend) != 0)
        return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d has backend %s, rank %d %s", name, their_rank,
                          theirs->backend, self, mine->backend);
    const struct {
        const char *what;
        uint32_t theirs, mine;
    } numbers[] = {
        {"version", theirs->weft_version, mine->weft_version},
        {"works", theirs->works, mine->works},
        {"p2p_channels", theirs->p2p_channels, mine->p2p_channels},
        {"timeout_ms", theirs->timeout_ms, mine->timeout_ms},
        {"flags", theirs->flags, mine->flags},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].theirs != numbers[i].mine)
            return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d has %s %u, rank %d %u", name, their_rank,
                              numbers[i].what, numbers[i].theirs, self, numbers[i].mine);
    return WEFT_OK;
}

/* Look for the cards that are still missing. WEFT_PENDING: some are. */
static weft_result look_for_cards(const weft_comm *comm, unsigned char *cards, bool *seen)
{
    weft_world *world = comm->world;
    weft_result result = WEFT_OK;
    for (int i = 0; i < comm->size; i++) {
        if (seen[i])
            continue;
        int rank = comm->ranks[i];
        /* Before its card: it may have come, done all it had to do and ended since the last look. */
        bool ended =
            atomic_load(&world->segments[rank]->header->state) == WEFT__RANK_CLOSED || atomic_load(&world->lost[rank]);
        const weft__card *card = weft__board_find(world->segments[rank]->header->cards, comm->name, comm->incarnation);
        if (card) {
            WEFT_TRY(compare_terms(comm, &comm->card->terms, &card->terms, rank));
            memcpy(cards + (size_t)i * WEFT_BACKEND_CARD_BYTES, card->backend_card, WEFT_BACKEND_CARD_BYTES);
            seen[i] = true;
            continue;
        }
        if (ended)
            return weft__fail(WEFT_E_PEER_LOST, "comm %s: rank %d has ended", comm->name, rank);
        result = WEFT_PENDING;
    }
    return result;
}

static weft_result name_absent(const weft_comm *comm, const bool *seen)
{
    int absent[64], count = 0;
    for (int i = 0; i < comm->size && count < 64; i++)
        if (!seen[i])
            absent[count++] = comm->ranks[i];
    char text[128];
    weft__name_ranks(absent, count, text, sizeof text);
    return weft__fail(WEFT_E_TIMEOUT, "comm %s: not all members came to make it; missing: %s", comm->name, text);
}

static weft_result meet(const weft_comm *comm, unsigned char *cards, bool *seen)
{
    uint64_t deadline = weft__now_ns() + (uint64_t)comm->world->config.rendezvous_timeout_ms * 1000000u;
    long pause_ns = 20000;
    weft_result result;
    while ((result = look_for_cards(comm, cards, seen)) == WEFT_PENDING) {
        if (weft__now_ns() > deadline)
            return name_absent(comm, seen);
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns < 1000000 ? pause_ns * 2 : pause_ns;
    }
    return result;
}

static weft_result connect_members(weft_comm *comm, const unsigned char *cards)
{
    weft__progress_enter(comm->world);
    weft_result result;
    do {
        result = comm->backend->comm_connect(comm->backend_comm, cards);
    } while (result == WEFT_PENDING);
    weft__progress_leave(comm->world);
    return result == WEFT_E_UNSUPPORTED ? cannot_make(comm) : result;
}

weft_result weft_comm_create_finish(weft_comm *comm)
{
    WEFT_TRY(weft__world_alive(comm->world));
    if (comm->connected)
        return weft__fail(WEFT_E_STATE, "comm %s is made already", comm->name);
    unsigned char *cards = weft__alloc((size_t)comm->size * WEFT_BACKEND_CARD_BYTES);
    bool *seen = weft__alloc((size_t)comm->size * sizeof *seen);
    weft_result result = cards && seen ? WEFT_OK : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK && comm->size > 1)
        result = meet(comm, cards, seen);
    if (result == WEFT_OK)
        result = connect_members(comm, cards);
    free(cards);
    free(seen);
    comm->connected = result == WEFT_OK;
    return result;
}

weft_result weft_comm_create(weft_world *world, const char *name, const int *ranks, int count,
                             const weft_comm_config *config, weft_comm **comm_out)
{
    WEFT_TRY(weft_comm_create_start(world, name, ranks, count, config, comm_out));
    weft_result result = weft_comm_create_finish(*comm_out);
    if (result != WEFT_OK) {
        weft_comm_destroy(*comm_out);
        *comm_out = NULL;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------- the end */

/* Works that nobody will finish: say so, and forget them. In the seat, with no fresh ones left. */
static void drop_works(weft_comm *comm)
{
    weft_world *world = comm->world;
    uint32_t count = 0;
    for (uint32_t i = 0; i < comm->slots->count; i++) {
        if (atomic_load(&comm->slots->free[i / 64]) >> (i % 64) & 1)
            continue;
        weft__work *work = weft__work_at(comm->slots, i);
        count++;
        world->progress.in_flight -= atomic_load(&work->taken_up) && !weft__work_ended(work);
        if (work->after)
            weft__work_release(work->after);
    }
    if (count)
        weft__log(WEFT_LOG_ERROR, "comm %s is destroyed with %u works that were not finished", comm->name, count);
    comm->held = NULL;
    for (weft_comm **link = &world->progress.held; *link; link = &(*link)->next_held)
        if (*link == comm) {
            *link = comm->next_held;
            break;
        }
}

static bool all_have_left(const weft_comm *comm)
{
    weft_world *world = comm->world;
    for (int i = 0; comm->card && i < comm->size; i++) { /* without a card nobody has heard of it */
        const weft__segment_header *header = world->segments[comm->ranks[i]]->header;
        bool gone = comm->ranks[i] == world->rank || atomic_load(&world->lost[comm->ranks[i]]) ||
                    atomic_load(&header->state) == WEFT__RANK_CLOSED ||
                    (comm->connected && weft__board_has_left(header->cards, comm->name, comm->incarnation));
        if (!gone)
            return false;
    }
    return true;
}

/* Give up what others may still look at, if they have all gone. In the seat. */
static bool bury(weft_comm *comm, bool force)
{
    if (!force && !all_have_left(comm))
        return false;
    if (comm->backend_comm)
        comm->backend->comm_destroy(comm->backend_comm);
    if (!force) /* else a member that is late must still find out that this rank was here */
        weft__board_remove(comm->card);
    pthread_mutex_destroy(&comm->verdict_lock);
    free(comm->ranks);
    free(comm);
    return true;
}

void weft__comms_bury(weft_world *world, bool force)
{
    for (weft_comm **link = &world->destroyed; *link;) {
        weft_comm *comm = *link, *next = comm->next;
        if (bury(comm, force))
            *link = next;
        else
            link = &comm->next;
    }
}

void weft_comm_destroy(weft_comm *comm)
{
    if (!comm || weft__world_alive(comm->world) != WEFT_OK)
        return;
    weft_world *world = comm->world;
    weft__progress_enter(world);
    for (weft_comm **link = &world->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
    if (comm->slots) {
        drop_works(comm);
        weft__work_pool_give(comm->slots);
    }
    if (comm->use)
        comm->use->in_use = false;
    if (comm->backend_comm)
        comm->backend->comm_leave(comm->backend_comm);
    weft__board_leave(comm->card);
    comm->next = world->destroyed;
    world->destroyed = comm;
    weft__comms_bury(world, false);
    weft__progress_leave(world);
}

/* ------------------------------------------------------------------------------------------- questions */

int weft_comm_rank(const weft_comm *comm)
{
    return comm->rank;
}

int weft_comm_size(const weft_comm *comm)
{
    return comm->size;
}

int weft_comm_world_rank(const weft_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size ? comm->ranks[rank] : -1;
}

const char *weft_comm_name(const weft_comm *comm)
{
    return comm->name;
}

const char *weft_comm_backend(const weft_comm *comm)
{
    return comm->backend->name;
}

weft_result weft_comm_config_get(const weft_comm *comm, weft_comm_config *config_out)
{
    weft_comm_config config = comm->config;
    config.backend = comm->backend->name;
    return weft__give_sized(config_out, &config, sizeof config, "weft_comm_config");
}

weft_queues weft_comm_queues(const weft_comm *comm)
{
    return comm->facts.queues;
}

weft_world *weft_comm_world(const weft_comm *comm)
{
    return comm->world;
}
