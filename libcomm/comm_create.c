/* SPDX-License-Identifier: Apache-2.0 */
/* How comms are made: members meet under a name, compare what they ask for, and connect. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weft/version.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/reserved.h"
#include "base/sized.h"
#include "base/verdict.h"
#include "comm.h"

#define WORKS        64
#define WORKS_MOST   4096
#define P2P_CHANNELS 2

/* ------------------------------------------------------------------------------------------- what is asked for */

static weft_result check_members(const weft_world *world, const char *name, const int *ranks, int count, int *self_out)
{
    if (!name || !*name || strlen(name) > WEFT_COMM_NAME_MAX)
        return weft__fail(WEFT_E_INVALID, "a comm needs a name of 1 to %d bytes, not '%s'", WEFT_COMM_NAME_MAX,
                          name ? name : "");
    if (!ranks && count == 0) {
        *self_out = world->rank;
        return WEFT_OK;
    }
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
    if (config->flags & ~(WEFT_COMM_EXACT | WEFT_COMM_NO_P2P | WEFT__COMM_OWN))
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.flags has unknown bits: %#x", config->flags);
    if (config->works > WORKS_MOST)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.works is %u, more than %d", config->works, WORKS_MOST);
    config->works = (uint32_t)weft__round_up(config->works ? config->works : WORKS, 64);
    bool no_p2p = config->flags & WEFT_COMM_NO_P2P;
    if (no_p2p && config->p2p_channels)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_channels is %u, but its flags say that there is no p2p",
                          config->p2p_channels);
    config->p2p_channels = config->p2p_channels || no_p2p ? config->p2p_channels : P2P_CHANNELS;
    if (config->p2p_channels > 64)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_channels is %u, more than 64", config->p2p_channels);
    config->timeout_ms = config->timeout_ms ? config->timeout_ms : world->config.timeout_ms;
    if (!config->backend)
        config->backend = world->config.backend;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the first half */

/* How often this rank has come to make a comm of that key, if want of memory left no use of its name: its cards
 * tell. */
static uint32_t count_on_board(const weft_world *world, weft__card_key key)
{
    const weft__card *latest = world->own ? weft__board_find(world->own->header->cards, key, UINT32_MAX) : NULL;
    return latest ? atomic_load(&latest->incarnation) : 0;
}

/* The use of a name; it stays when the comm goes, so that the next comm of these ranks is told from this one. */
static weft_result use_name(weft_comm *comm)
{
    weft_world *world = comm->world;
    weft__name_use *use = NULL;
    for (weft__name_use *u = world->names; u; u = u->next) {
        if (strcmp(u->name, comm->name) != 0)
            continue;
        if (u->in_use)
            return weft__fail(WEFT_E_INVALID, "there is a comm named %s already", comm->name);
        if (u->ranks_hash == comm->key.ranks)
            use = u;
    }
    if (!use) {
        use = weft__alloc(sizeof *use);
        if (!use)
            return WEFT_E_NO_MEMORY;
        snprintf(use->name, sizeof use->name, "%s", comm->name);
        use->ranks_hash = comm->key.ranks;
        use->count = count_on_board(world, comm->key);
        use->next = world->names;
        world->names = use;
    }
    use->in_use = true;
    comm->use = use;
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
    size_t most = comm->config.flags & WEFT_COMM_NO_P2P ? 0 : WEFT_P2P_BATCH_MAX;
    comm->messages_at = weft__round_up(comm->facts.op_bytes + most * comm->facts.message_bytes, WEFT__LINE);
    size_t memory = comm->messages_at + most * sizeof(weft_p2p);
    WEFT_TRY(weft__work_pool_take(world, comm->config.works, memory, &comm->slots));
    weft_backend_comm description = {.size = sizeof description,
                                     .comm = comm,
                                     .name = comm->name,
                                     .rank = comm->rank,
                                     .count = comm->size,
                                     .ranks = comm->ranks,
                                     .p2p_channels = comm->config.p2p_channels};
    weft__progress_enter(world);
    weft__comms_bury(world, false); /* their cards and memory may be wanted */
    comm->next = world->comms;
    world->comms = comm;
    weft_result result = comm->backend->comm_create(instance->state, &description, &comm->backend_comm, card);
    weft__progress_leave(world);
    return result == WEFT_E_UNSUPPORTED ? cannot_make(comm) : result;
}

/* What the others are told if this rank gives up. */
__attribute__((format(printf, 3, 4))) static void note_giving_up(weft_comm *comm, weft_result result,
                                                                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(comm->terms.verdict_text, sizeof comm->terms.verdict_text, format, arguments);
    va_end(arguments);
    comm->terms.verdict = (int32_t)result;
    comm->terms.given_up_ns = weft__now_ns();
}

static weft_result post_card(weft_comm *comm, const unsigned char *backend_card)
{
    weft_world *world = comm->world;
    if (comm->size == 1)
        return WEFT_OK;
    comm->card = weft__board_take(world->own->header->cards);
    if (!comm->card)
        return weft__fail(WEFT_E_BUSY, "comm %s: a rank can have %d comms", comm->name, WEFT__CARDS);
    weft__card_terms *terms = &comm->terms;
    *terms = (weft__card_terms){.weft_version = WEFT_VERSION_NUMBER,
                                .works = comm->config.works,
                                .p2p_channels = comm->config.p2p_channels,
                                .timeout_ms = comm->config.timeout_ms,
                                .flags = comm->config.flags};
    for (int i = 0; i < comm->size; i++)
        weft__card_add_member(terms, comm->ranks[i]);
    weft__name_ranks(comm->ranks, comm->size, terms->ranks, sizeof terms->ranks);
    snprintf(terms->backend, sizeof terms->backend, "%s", comm->backend->name);
    memcpy(terms->backend_card, backend_card, WEFT_BACKEND_CARD_BYTES);
    note_giving_up(comm, WEFT_E_ABORTED, "comm %s: rank %d gave up making it", comm->name, world->rank);
    weft__board_post(comm->card, comm->key, ++comm->use->count, terms);
    return WEFT_OK;
}

static weft__card_key key_of(const weft_world *world, const char *name, const int *ranks, int count)
{
    weft__card_key key = {weft__hash(WEFT__HASH_START, name, strlen(name)), WEFT__HASH_START};
    for (int i = 0; i < (ranks ? count : world->size); i++)
        key.ranks = weft__hash(key.ranks, ranks ? &ranks[i] : &i, sizeof i);
    return key;
}

static weft_result list_members(weft_comm *comm, const int *ranks, int count)
{
    comm->size = ranks ? count : comm->world->size;
    comm->ranks = weft__alloc((size_t)comm->size * sizeof *ranks);
    comm->seen = weft__alloc((size_t)comm->size * sizeof *comm->seen);
    comm->cards = weft__alloc((size_t)comm->size * WEFT_BACKEND_CARD_BYTES);
    if (!comm->ranks || !comm->seen || !comm->cards)
        return WEFT_E_NO_MEMORY;
    for (int i = 0; i < comm->size; i++)
        comm->ranks[i] = ranks ? ranks[i] : i;
    comm->key = key_of(comm->world, comm->name, ranks, count);
    return WEFT_OK;
}

static weft_result fill_comm(weft_comm *comm, const char *name, const int *ranks, int count,
                             const weft_comm_config *config)
{
    weft_world *world = comm->world;
    WEFT_TRY(complete_config(world, config, &comm->config));
    WEFT_TRY(weft__reserved_check(name, comm->config.flags));
    snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->timeout_ns = (uint64_t)comm->config.timeout_ms * 1000000u;
    comm->label = weft_trace_label(world, name);
    comm->held_end = &comm->held;
    comm->began_ns = weft__now_ns();
    WEFT_TRY(list_members(comm, ranks, count));
    WEFT_TRY(use_name(comm));
    unsigned char card[WEFT_BACKEND_CARD_BYTES] = {0};
    WEFT_TRY(create_behind(comm, card));
    return post_card(comm, card);
}

/* This rank cannot make the comm: the members that wait for it, or will, are told why. Takes no memory. */
static void post_refusal(weft_world *world, const char *name, weft__card_key key, const weft__verdict *verdict)
{
    weft__name_use *use = world->names;
    while (use && (strcmp(use->name, name) != 0 || use->ranks_hash != key.ranks))
        use = use->next;
    weft__card *card = use && use->in_use ? NULL : weft__board_take(world->own->header->cards);
    if (!card)
        return; /* it has that comm already, or too many */
    weft__card_terms terms = {.given_up_ns = weft__now_ns(), .verdict = verdict->result};
    snprintf(terms.verdict_text, sizeof terms.verdict_text, "comm %s: %.100s", name, verdict->text);
    weft__board_give_up(card, &terms);
    weft__board_post(card, key, use ? ++use->count : count_on_board(world, key) + 1, &terms);
    weft__board_remove(card, terms.given_up_ns);
}

weft_result weft_comm_create_start(weft_world *world, const char *name, const int *ranks, int count,
                                   const weft_comm_config *config, weft_comm **comm_out)
{
    int self = -1;
    if (!world || !comm_out)
        return weft__fail(WEFT_E_INVALID, "comm %s: no world, or no place for it", name ? name : "");
    *comm_out = NULL;
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(check_members(world, name, ranks, count, &self));
    weft_comm *comm = weft__alloc(sizeof *comm);
    weft_result result = WEFT_E_NO_MEMORY;
    if (comm) {
        comm->world = world;
        comm->rank = self;
        pthread_mutex_init(&comm->verdict_lock, NULL);
        result = fill_comm(comm, name, ranks, count, config);
    }
    if (result == WEFT_OK) {
        *comm_out = comm;
        return WEFT_OK;
    }
    weft__verdict verdict = {0};
    weft__verdict_add(&verdict, result);
    weft_comm_destroy(comm);
    if (world->size > 1)
        post_refusal(world, name, key_of(world, name, ranks, count), &verdict);
    return weft__verdict_result(&verdict);
}

/* ------------------------------------------------------------------------------------------- meeting under a name */

static weft_result compare_terms(const weft_comm *comm, const weft__card_terms *theirs, int their_rank)
{
    const weft__card_terms *mine = &comm->terms;
    const char *name = comm->name;
    int self = comm->world->rank;
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

/* A member that has not made the comm may have ended, or given up all it did. */
static weft_result look_for_end(const weft_comm *comm, int rank, bool ended)
{
    const weft_world *world = comm->world;
    const weft__segment_header *header = world->segments[rank]->header;
    char text[sizeof header->aborted_text + 32];
    weft_result aborted = (weft_result)atomic_load(&header->aborted);
    if (aborted != WEFT_OK && header->aborted_ns > comm->began_ns)
        return weft__fail(aborted, "%s", weft__verdict_told(header->aborted_text, rank, text, sizeof text));
    if (ended)
        return weft__fail(WEFT_E_PEER_LOST, "comm %s: rank %d has ended", comm->name, rank);
    return WEFT_OK;
}

/* A member that has not come may make another comm of that name: with this rank, which makes this one. */
static weft_result look_for_rival(const weft_comm *comm, int rank)
{
    weft_world *world = comm->world;
    const weft__segment_header *header = world->segments[rank]->header;
    weft__card_key key;
    weft__card_terms terms;
    const weft__card *other =
        weft__board_find_rival(header->cards, comm->key, world->rank, comm->began_ns, &key, &terms);
    if (!other)
        return WEFT_OK;
    const weft__name_use *use = world->names;
    while (use && (strcmp(use->name, comm->name) != 0 || use->ranks_hash != key.ranks))
        use = use->next;
    if (use && use->count >= atomic_load(&other->incarnation))
        return WEFT_OK; /* one that this rank has had with it: the other is late in destroying it */
    return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d lists ranks %s, rank %d lists %s", comm->name, rank,
                      terms.ranks, world->rank, comm->terms.ranks);
}

static bool has_card(const weft__segment_header *header, weft__card_key key, uint32_t incarnation)
{
    const weft__card *card = weft__board_find(header->cards, key, incarnation);
    return card && atomic_load(&card->incarnation) == incarnation;
}

/* Look for the cards of all; who was seen may have ended or given up since. WEFT_PENDING: some are missing. */
static weft_result look_for_cards(weft_comm *comm, unsigned char *cards, bool *seen)
{
    weft_world *world = comm->world;
    weft_result result = WEFT_OK;
    for (int i = 0; i < comm->size; i++) {
        int rank = comm->ranks[i];
        const weft__segment_header *header = world->segments[rank]->header;
        /* Asked before its cards are looked at: it may come, go and end in between. */
        bool ended = atomic_load(&header->state) == WEFT__RANK_CLOSED || atomic_load(&world->lost[rank]);
        uint32_t mine = comm->use->count;
        const weft__card *card = weft__board_find(header->cards, comm->key, mine);
        uint32_t theirs = card ? atomic_load(&card->incarnation) : 0;
        uint32_t left = card ? atomic_load(&card->left) : WEFT__CARD_STAYS;
        if (theirs > mine && left == WEFT__CARD_STAYS && has_card(header, comm->key, mine)) {
            result = WEFT_PENDING; /* posted behind the first look: the member is a comm ahead */
            continue;
        }
        if (theirs > mine && left == WEFT__CARD_STAYS) { /* attempts have failed that this rank knows nothing of */
            comm->use->count = theirs;
            atomic_store(&comm->card->incarnation, theirs);
            memset(seen, 0, (size_t)comm->size * sizeof *seen);
            return WEFT_PENDING;
        }
        if (left == WEFT__CARD_STAYS)
            WEFT_TRY(look_for_end(comm, rank, ended));
        weft__card_terms terms;
        char text[sizeof terms.verdict_text + 32];
        if (theirs >= mine && weft__board_read(card, comm->key, &terms)) {
            if (left == WEFT__CARD_GAVE_UP)
                return weft__fail((weft_result)terms.verdict, "%s",
                                  weft__verdict_told(terms.verdict_text, rank, text, sizeof text));
            WEFT_TRY(compare_terms(comm, &terms, rank));
            memcpy(cards + (size_t)i * WEFT_BACKEND_CARD_BYTES, terms.backend_card, WEFT_BACKEND_CARD_BYTES);
            seen[i] = true;
            continue;
        }
        WEFT_TRY(look_for_rival(comm, rank));
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

static weft_result rest(const weft_comm *comm, long *pause_ns)
{
    nanosleep(&(struct timespec){.tv_nsec = *pause_ns}, NULL);
    *pause_ns = *pause_ns < 1000000 ? *pause_ns * 2 : *pause_ns;
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    return verdict == WEFT_OK ? WEFT_OK : weft__fail_quietly(verdict, comm->verdict_text);
}

static weft_result meet(weft_comm *comm, uint64_t deadline_ns, unsigned char *cards, bool *seen)
{
    long pause_ns = 20000;
    weft_result result;
    while ((result = look_for_cards(comm, cards, seen)) == WEFT_PENDING) {
        if (weft__now_ns() > deadline_ns)
            return name_absent(comm, seen);
        WEFT_TRY(rest(comm, &pause_ns));
    }
    return result;
}

/* In the seat, so that a verdict finds it connected or not. */
static weft_result try_to_connect(weft_comm *comm, const unsigned char *cards)
{
    weft__progress_enter(comm->world);
    weft_result result = (weft_result)atomic_load(&comm->verdict);
    if (result != WEFT_OK)
        result = weft__fail_quietly(result, comm->verdict_text);
    else
        result = comm->backend->comm_connect(comm->backend_comm, cards);
    comm->connected = result == WEFT_OK;
    weft__progress_leave(comm->world);
    return result == WEFT_E_UNSUPPORTED ? cannot_make(comm) : result;
}

static weft_result connect_members(weft_comm *comm, uint64_t deadline_ns, const unsigned char *cards)
{
    long pause_ns = 20000;
    weft_result result;
    while ((result = try_to_connect(comm, cards)) == WEFT_PENDING) {
        if (weft__now_ns() > deadline_ns)
            return weft__fail(WEFT_E_TIMEOUT, "comm %s: backend %s did not connect its %d members", comm->name,
                              comm->backend->name, comm->size);
        WEFT_TRY(rest(comm, &pause_ns));
    }
    return result;
}

void weft__comm_give_up(weft_comm *comm)
{
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    if (verdict != WEFT_OK)
        note_giving_up(comm, verdict, "%s", comm->verdict_text);
    comm->terms.given_up_ns = weft__now_ns();
    weft__board_give_up(comm->card, &comm->terms);
}

weft_result weft_comm_create_finish(weft_comm *comm)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "no comm to make");
    WEFT_TRY(weft__world_alive(comm->world));
    if (comm->connected)
        return weft__fail(WEFT_E_STATE, "comm %s is made already", comm->name);
    uint64_t deadline_ns = weft__now_ns() + (uint64_t)comm->world->config.rendezvous_timeout_ms * 1000000u;
    weft_result result = comm->size > 1 ? meet(comm, deadline_ns, comm->cards, comm->seen) : WEFT_OK;
    if (result == WEFT_OK)
        result = connect_members(comm, deadline_ns, comm->cards);
    if (result == WEFT_OK)
        return WEFT_OK;
    weft__progress_enter(comm->world); /* where an abort would write */
    note_giving_up(comm, result, "%s", weft_last_error());
    weft__progress_leave(comm->world);
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
