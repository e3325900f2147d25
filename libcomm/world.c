/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a world: who am I, who else is there, whose memory can I see; and closing it. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sized.h"
#include "bootstrap/team.h"
#include "comm.h"
#include "control.h"
#include "device/gpu.h"
#include "world_open.h"

#define TIMEOUT_MS            600000
#define RENDEZVOUS_TIMEOUT_MS 120000

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

weft_result weft__world_forked(void)
{
    return weft__fail(WEFT_E_FORKED, "this world was opened by the parent of this process; a child opens its own");
}

int weft__name_ranks(const int *ranks, int count, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (used + 16 > bytes)
            return snprintf(text + used, bytes - used, ",...");
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i ? ", " : "", ranks[i]);
    }
    return (int)used;
}

/* ------------------------------------------------------------------------------------------- configuration */

static weft_result copy_text(const char *given, const char *fallback, const char **copy)
{
    const char *text = given ? given : fallback;
    *copy = weft__copy_text(text);
    return text && !*copy ? WEFT_E_NO_MEMORY : WEFT_OK;
}

/* What tells where and how long to meet is there even if the rest fails. */
static weft_result complete_config(const weft_world_config *given, const weft__env *env, weft_world_config *config)
{
    *config = *given;
    config->timeout_ms = given->timeout_ms ? given->timeout_ms : env->timeout_ms ? env->timeout_ms : TIMEOUT_MS;
    config->rendezvous_timeout_ms = given->rendezvous_timeout_ms ? given->rendezvous_timeout_ms
                                    : env->rendezvous_timeout_ms ? env->rendezvous_timeout_ms
                                                                 : RENDEZVOUS_TIMEOUT_MS;
    config->heap_bytes = given->heap_bytes ? given->heap_bytes : (uint64_t)env->heap_mib << 20;
    config->rendezvous = config->host_id = config->backend = config->trace = config->device = NULL;
    if (given->flags)
        return weft__fail(WEFT_E_INVALID, "weft_world_config.flags has unknown bits: %#x", given->flags);
    WEFT_TRY(copy_text(given->rendezvous, env->rendezvous, &config->rendezvous));
    WEFT_TRY(copy_text(given->host_id, env->host_id, &config->host_id));
    WEFT_TRY(copy_text(given->backend, env->backend, &config->backend));
    WEFT_TRY(copy_text(given->trace, env->trace, &config->trace));
    WEFT_TRY(copy_text(given->device, env->device, &config->device));
    int index;
    return weft__gpu_read_name(given->device ? "weft_world_config.device" : "WEFT_DEVICE", config->device, &index);
}

/* This rank's number and where it meets the others. */
static weft_result who_am_i(weft_world *world, const weft_world_config *given, const weft__env *env,
                            weft__launch *launch)
{
    const weft_world_config *config = &world->config;
    if (config->team) {
        *launch = (weft__launch){.size = weft__team_size(config->team), .source = "the team"};
        launch->rank = config->ranks > 0 ? config->rank : weft__team_next_rank(config->team);
        if (config->ranks > 0 && config->ranks != launch->size)
            return weft__fail(WEFT_E_INVALID, "a world of %d ranks in a team of %d", config->ranks, launch->size);
        if (launch->rank < 0 || launch->rank >= launch->size)
            return weft__fail(WEFT_E_RANGE, "rank %d of a team of %d", launch->rank, launch->size);
    } else {
        WEFT_TRY(weft__launch_find(given, env, environ, launch));
    }
    world->rank = launch->rank;
    world->size = launch->size;
    return WEFT_OK;
}

/* This rank cannot come to the meeting. Threads of its team are told; processes will name it as missing. */
static weft_result stay_away(const weft_world_config *given, weft_result result)
{
    bool has_team = given && given->size >= offsetof(weft_world_config, team) + sizeof given->team && given->team;
    if (has_team)
        weft__team_break(given->team, given->ranks > 0 ? given->rank : -1, result);
    return result;
}

/* ------------------------------------------------------------------------------------------- opening and closing */

static weft_result make_guard(weft_world *world)
{
    uint64_t *guard = weft__map_pages(WEFT__PAGE);
    if (!guard)
        return WEFT_E_NO_MEMORY;
    madvise(guard, WEFT__PAGE, MADV_WIPEONFORK);
    *guard = WEFT__GUARD;
    world->guard = guard;
    return WEFT_OK;
}

static weft_result make_own_segment(weft_world *world)
{
    world->own =
        world->config.team ? weft__team_segment(world->config.team, world->rank) : weft__alloc(sizeof *world->own);
    if (!world->own)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(weft__segment_create(world->rank, (size_t)world->config.heap_bytes, world->own));
    world->identities[world->rank].heap_reserve_bytes = world->own->reserved;
    return WEFT_OK;
}

/* What this rank is and has, before it meets anybody. */
static weft_result make_own_parts(weft_world *world)
{
    world->identities = weft__alloc((size_t)world->size * sizeof *world->identities);
    world->host_of = weft__alloc((size_t)world->size * sizeof *world->host_of);
    if (!world->identities || !world->host_of)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(make_guard(world));
    WEFT_TRY(weft__identity_find(world->rank, world->size, &world->config, &world->identities[world->rank]));
    return world->size > 1 ? make_own_segment(world) : WEFT_OK;
}

weft_result weft__world_open_services(weft_world *world)
{
    const weft__identity *own = &world->identities[world->rank];
    bool crowded = weft__identity_crowded(world->identities, world->size, own->machine);
    const weft__trace_owner owner = {world->rank, world->size, own->host_name, own->machine, crowded};
    WEFT_TRY(weft__trace_open(world->config.trace, &owner, world->config.trace_records, &world->trace));
    WEFT_TRY(weft__backends_open(world));
    return weft__progress_open(world, crowded);
}

static weft_result open_parts(weft_world *world, const weft_world_config *given)
{
    weft__env env;
    weft__launch launch;
    weft__verdict mine = {0};
    weft__verdict_add(&mine, weft__env_read(&env));
    weft__verdict_add(&mine, complete_config(given, &env, &world->config));
    if (weft__verdict_add(&mine, who_am_i(world, given, &env, &launch)) < 0)
        return stay_away(given, weft__verdict_result(&mine));
    if (world->size > 1)
        weft__log_rank(world->rank);
    weft__verdict_add(&mine, make_own_parts(world));
    if (world->size > 1)
        return weft__world_meet(world, &launch, &mine);
    WEFT_TRY(weft__verdict_result(&mine));
    return weft__world_open_services(world);
}

weft_result weft_world_open(const weft_world_config *config, weft_world **world_out)
{
    if (!world_out)
        return weft__fail(WEFT_E_INVALID, "a world is opened without a place for it");
    *world_out = NULL;
    weft_world_config given = {0};
    WEFT_TRY(weft__take_sized(&given, sizeof given, config, "weft_world_config"));
    weft_world *world = weft__alloc(sizeof *world);
    if (!world)
        return stay_away(&given, WEFT_E_NO_MEMORY);
    pthread_mutex_init(&world->error_lock, NULL);
    pthread_mutex_init(&world->gpu_lock, NULL);
    weft_result result = open_parts(world, &given);
    if (result != WEFT_OK) {
        weft_world_close(world);
        return result;
    }
    weft__log(WEFT_LOG_INFO, "world of %d ranks, %s", world->size,
              world->config.team ? "threads of one process"
              : world->size == 1 ? "one process"
              : world->control   ? "processes of several machines"
                                 : "processes of one machine");
    *world_out = world;
    return WEFT_OK;
}

static void unmap_segments(weft_world *world)
{
    if (world->segments) {
        size_t in_use = weft__heap_close(&world->heap);
        if (in_use)
            weft__log(WEFT_LOG_WARN, "the world is closed with %zu buffers in use", in_use);
    }
    for (int r = 0; world->segments_owned && r < world->size; r++)
        if (r != world->rank && world->segments[r])
            weft__segment_unmap(world->segments[r]);
    free(world->segments_owned);
    if (world->own && !world->config.team) {
        weft__segment_unmap(world->own);
        free(world->own);
    }
    free(world->segments);
    free(world->boards);
    free((void *)world->lost);
    free(world->said);
}

void weft_world_close(weft_world *world)
{
    if (!world)
        return;
    if (world->guard && weft__world_alive(world) != WEFT_OK)
        return; /* a child must not disturb its parent's peers */
    weft__last_error said = weft__error_keep();
    while (world->comms) {
        weft__log(WEFT_LOG_ERROR, "comm %s was not destroyed before its world", world->comms->name);
        weft_comm_destroy(world->comms);
    }
    weft__control_say_closed(world);
    weft__progress_close(world);
    weft__comms_bury(world, true);
    weft__backends_close(world);
    if (world->own && world->own->header)
        atomic_store(&world->own->header->board.state, WEFT__RANK_CLOSED);
    weft__control_close(world);
    weft__gpu_close(world);
    unmap_segments(world);
    weft__work_pool_close(&world->works);
    weft__trace_close(world->trace);
    for (weft__name_use *use = world->names, *next; use; use = next) {
        next = use->next;
        free(use);
    }
    const char *const texts[] = {world->config.rendezvous, world->config.host_id, world->config.backend,
                                 world->config.trace, world->config.device};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free((void *)(uintptr_t)texts[i]);
    free(world->identities);
    free(world->host_of);
    weft__unmap_pages((void *)(uintptr_t)world->guard, WEFT__PAGE);
    pthread_mutex_destroy(&world->error_lock);
    free(world);
    weft__error_restore(&said);
}

weft_result weft_world_abort(weft_world *world, weft_result result, const char *why)
{
    if (!world || !why || !weft__is_failure((int)result))
        return weft__fail(WEFT_E_INVALID, "a world is aborted with a failure and a reason, not with %s",
                          weft_result_string(result));
    WEFT_TRY(weft__world_alive(world));
    weft__log(WEFT_LOG_ERROR, "rank %d gives up: %s (%s)", world->rank, why, weft_result_string(result));
    weft__progress_enter(world);
    if (world->own && atomic_load(&world->own->header->board.aborted) == WEFT_OK) { /* for those who make comms */
        weft__board_abort(&world->own->header->board, result, why);
        weft__control_tell_abort(world);
    }
    for (weft_comm *comm = world->comms; comm; comm = comm->next)
        (void)weft__comm_fail(comm, result, why);
    atomic_store(&world->progress.verdicts, 1);
    weft__progress_leave(world);
    return WEFT_OK;
}

bool weft__world_populate(weft_world *world)
{
    bool more = false;
    for (int r = 0; world->segments_owned && r < world->size; r++)
        if (r != world->rank && world->segments[r])
            more |= weft__segment_populate(world->segments[r]);
    return more;
}

/* ------------------------------------------------------------------------------------------- questions */

int weft_world_rank(const weft_world *world)
{
    return world->rank;
}

int weft_world_size(const weft_world *world)
{
    return world->size;
}

int weft_world_host(const weft_world *world, int rank)
{
    return rank >= 0 && rank < world->size ? world->host_of[rank] : -1;
}

int weft_world_local_rank(const weft_world *world)
{
    int before = 0;
    for (int r = 0; r < world->rank; r++)
        before += world->host_of[r] == world->host_of[world->rank];
    return before;
}

weft_result weft_world_check(weft_world *world, weft_stream stream)
{
    WEFT_TRY(weft__world_alive(world));
    if (stream.kind != WEFT_DEVICE_HOST)
        WEFT_TRY(weft__gpu_synchronize(world, stream));
    pthread_mutex_lock(&world->error_lock);
    weft_result first = world->first_error;
    if (first != WEFT_OK)
        (void)weft__fail_quietly(first, world->first_error_text);
    pthread_mutex_unlock(&world->error_lock);
    return first;
}
