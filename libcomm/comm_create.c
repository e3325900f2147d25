/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of making a comm: what is asked for is checked and posted; the second is in comm_meet.c. */
#include <stdio.h>
#include <string.h>
#include <weft/version.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/reserved.h"
#include "base/sized.h"
#include "base/verdict.h"
#include "comm.h"
#include "control.h"
#include "device/gpu.h"

#define WORKS        64
#define WORKS_OF_GPU 256
#define WORKS_MOST   4096
#define P2P_CHANNELS 2
#define CTAS_MOST    1024

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

/* A choice of the environment stands where the config has none. */
static weft_result complete_ctas(weft_comm_config *config, const weft__env *env)
{
    config->most_ctas = config->most_ctas ? config->most_ctas : (uint32_t)env->most_ctas;
    config->least_ctas = config->least_ctas ? config->least_ctas : (uint32_t)env->least_ctas;
    if (config->most_ctas > CTAS_MOST || config->least_ctas > CTAS_MOST)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.least_ctas is %u and most_ctas %u: there are %d",
                          config->least_ctas, config->most_ctas, CTAS_MOST);
    if (config->most_ctas && config->least_ctas > config->most_ctas)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.least_ctas is %u, more than most_ctas, which is %u",
                          config->least_ctas, config->most_ctas);
    return WEFT_OK;
}

static weft_result complete_config(const weft_world *world, const weft_comm_config *given, weft_comm_config *config)
{
    weft__env env;
    (void)weft__env_read(&env);
    *config = (weft_comm_config){0};
    WEFT_TRY(weft__take_sized(config, sizeof *config, given, "weft_comm_config"));
    if (config->flags & ~(WEFT_COMM_EXACT | WEFT_COMM_NO_P2P | WEFT__COMM_OWN))
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.flags has unknown bits: %#x", config->flags);
    if (config->works > WORKS_MOST)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.works is %u, more than %d", config->works, WORKS_MOST);
    uint32_t works = config->device == WEFT_DEVICE_HOST ? WORKS : WORKS_OF_GPU; /* the host runs ahead of a GPU */
    config->works = (uint32_t)weft__round_up(config->works ? config->works : works, 64);
    bool no_p2p = config->flags & WEFT_COMM_NO_P2P;
    if (no_p2p && config->p2p_channels)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_channels is %u, but its flags say that there is no p2p",
                          config->p2p_channels);
    config->p2p_channels = config->p2p_channels || no_p2p ? config->p2p_channels : P2P_CHANNELS;
    if (config->p2p_channels > 64)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_channels is %u, more than 64", config->p2p_channels);
    if (config->device != WEFT_DEVICE_HOST && config->device != WEFT_DEVICE_CUDA)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.device is %d, which is none", (int)config->device);
    WEFT_TRY(complete_ctas(config, &env));
    if (no_p2p && config->p2p_peers)
        return weft__fail(WEFT_E_INVALID, "weft_comm_config.p2p_peers is set, but its flags say that there is no p2p");
    if (config->native)
        config->flags |= WEFT__COMM_NATIVE;
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
    return world->own ? weft__board_latest(world->boards[world->rank], key) : 0;
}

weft__name_use *weft__name_use_of(const weft_world *world, const char *name, uint64_t ranks_hash)
{
    weft__name_use *use = world->names;
    while (use && (strcmp(use->name, name) != 0 || use->ranks_hash != ranks_hash))
        use = use->next;
    return use;
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

weft_result weft__comm_cannot_make(const weft_comm *comm)
{
    return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: backend %s cannot make it", comm->name, comm->backend->name);
}

/* Of one batch: of a caller's, or an exchange with every member. Works are pages that cost nothing before they are
 * used, so a comm of a thousand ranks pays for the exchanges that it has in flight at once, about 0.4 MB each. */
static size_t most_messages(const weft_comm *comm)
{
    size_t exchange = 2 * (size_t)comm->size;
    if (comm->config.flags & WEFT_COMM_NO_P2P)
        return 0;
    return exchange > WEFT_P2P_BATCH_MAX ? exchange : WEFT_P2P_BATCH_MAX;
}

static weft_result take_gpu(weft_comm *comm)
{
    WEFT_TRY(weft__gpu_of(comm->world, comm->config.device, &comm->gpu));
    return weft__gpu_word_take(comm->world, comm->gpu, &comm->gpu_word);
}

static weft_result create_behind(weft_comm *comm)
{
    weft_world *world = comm->world;
    weft__backend_instance *instance;
    comm->facts.size = sizeof comm->facts;
    if (comm->config.device != WEFT_DEVICE_HOST)
        WEFT_TRY(take_gpu(comm));
    WEFT_TRY(weft__backends_choose(world, &comm->config, comm->ranks, comm->size, &instance, &comm->facts));
    comm->instance = instance;
    comm->backend = instance->table;
    comm->cards = weft__alloc((size_t)comm->size * comm->facts.card_bytes);
    if (!comm->cards)
        return WEFT_E_NO_MEMORY;
    size_t most = most_messages(comm);
    comm->messages_at = weft__round_up(comm->facts.op_bytes + most * comm->facts.message_bytes, WEFT__LINE);
    size_t memory = comm->messages_at + most * sizeof(weft_p2p);
    WEFT_TRY(weft__work_pool_take(world, comm->config.works, memory, &comm->slots));
    weft__env env;
    (void)weft__env_read(&env);
    weft_backend_comm description = {.size = sizeof description,
                                     .comm = comm,
                                     .name = comm->name,
                                     .rank = comm->rank,
                                     .count = comm->size,
                                     .ranks = comm->ranks,
                                     .p2p_channels = comm->config.p2p_channels,
                                     .check = env.check,
                                     .config = &comm->config};
    weft__progress_enter(world);
    weft__comms_bury(world, false); /* their cards and memory may be wanted */
    comm->next = world->comms;
    world->comms = comm;
    weft_result result = weft__wire_call(instance)->comm_create(instance->state, &description, &comm->backend_comm,
                                                                comm->terms.backend_card);
    weft__progress_leave(world);
    return result == WEFT_E_UNSUPPORTED ? weft__comm_cannot_make(comm) : result;
}

static weft_result post_card(weft_comm *comm)
{
    weft_world *world = comm->world;
    if (comm->size == 1)
        return WEFT_OK;
    comm->card = weft__board_take(world->boards[world->rank]);
    if (!comm->card)
        return weft__fail(WEFT_E_BUSY, "comm %s: a rank can have %d comms", comm->name, WEFT__CARDS);
    weft__card_terms *terms = &comm->terms;
    terms->weft_version = WEFT_VERSION_NUMBER;
    terms->works = comm->config.works;
    terms->p2p_channels = comm->config.p2p_channels;
    terms->timeout_ms = comm->config.timeout_ms;
    terms->least_ctas = comm->config.least_ctas;
    terms->most_ctas = comm->config.most_ctas;
    terms->flags = comm->config.flags;
    terms->backend_card_bytes = (uint32_t)comm->facts.card_bytes;
    weft__card_name_members(terms, comm->ranks, comm->size);
    snprintf(terms->backend, sizeof terms->backend, "%s", comm->backend->name);
    weft__board_post(comm->card, comm->key, ++comm->use->count, terms);
    weft__control_tell_card(world, comm->card, terms, comm->ranks, comm->size);
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
    if (!comm->ranks || !comm->seen)
        return WEFT_E_NO_MEMORY;
    for (int i = 0; i < comm->size; i++)
        comm->ranks[i] = ranks ? ranks[i] : i;
    comm->key = key_of(comm->world, comm->name, ranks, count);
    return WEFT_OK;
}

/* An own copy of p2p_peers, and who is one of them. */
static weft_result list_peers(weft_comm *comm)
{
    weft_comm_config *config = &comm->config;
    const int *given = config->p2p_peers;
    config->p2p_peers = NULL;
    if (!given)
        return config->p2p_peer_count ? weft__fail(WEFT_E_INVALID, "comm %s: p2p_peer_count is %u without p2p_peers",
                                                   comm->name, config->p2p_peer_count)
                                      : WEFT_OK;
    comm->peers = weft__alloc(((size_t)config->p2p_peer_count + 1) * sizeof *comm->peers);
    comm->is_peer = weft__alloc((size_t)comm->size * sizeof *comm->is_peer);
    if (!comm->peers || !comm->is_peer)
        return WEFT_E_NO_MEMORY;
    for (uint32_t i = 0; i < config->p2p_peer_count; i++) {
        if (given[i] < 0 || given[i] >= comm->size || comm->is_peer[given[i]])
            return weft__fail(WEFT_E_INVALID, "comm %s: p2p_peers names member %d %s", comm->name, given[i],
                              given[i] < 0 || given[i] >= comm->size ? "which there is none of" : "twice");
        comm->peers[i] = given[i];
        comm->is_peer[given[i]] = true;
    }
    comm->is_peer[comm->rank] = true; /* itself always */
    config->p2p_peers = comm->peers;
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
    WEFT_TRY(list_peers(comm));
    WEFT_TRY(use_name(comm));
    WEFT_TRY(create_behind(comm));
    WEFT_TRY(weft__trace_comm(world->trace, comm));
    return post_card(comm);
}

/* ------------------------------------------------------------------------------------------- giving up */

void weft__comm_give_up(weft_comm *comm)
{
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    char text[sizeof comm->verdict_text];
    snprintf(text, sizeof text, "comm %s: rank %d gave up making it", comm->name, comm->world->rank);
    if (verdict != WEFT_OK)
        weft__card_say_why(&comm->terms, verdict, comm->verdict_text);
    else if (comm->unmade.result != WEFT_OK)
        weft__card_say_why(&comm->terms, (weft_result)comm->unmade.result, comm->unmade.text);
    else
        weft__card_say_why(&comm->terms, WEFT_E_ABORTED, text);
    weft__board_give_up(comm->card, &comm->terms);
}

/* This rank cannot make the comm: the members that wait for it, or will, are told why. Takes no memory. */
static void post_refusal(weft_world *world, const char *name, const int *ranks, int count, const weft__verdict *verdict)
{
    weft__card_key key = key_of(world, name, ranks, count);
    weft__name_use *use = weft__name_use_of(world, name, key.ranks);
    weft__card *card = use && use->in_use ? NULL : weft__board_take(world->boards[world->rank]);
    if (!card)
        return; /* it has that comm already, or too many */
    weft__card_terms terms = {0};
    char text[sizeof terms.verdict_text];
    snprintf(text, sizeof text, "comm %s: %.100s", name, verdict->text);
    weft__card_say_why(&terms, (weft_result)verdict->result, text);
    weft__board_give_up(card, &terms);
    weft__board_post(card, key, use ? ++use->count : count_on_board(world, key) + 1, &terms);
    weft__control_tell_card(world, card, &terms, ranks, count);
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
        post_refusal(world, name, ranks, count, &verdict);
    return weft__verdict_result(&verdict);
}
