/* SPDX-License-Identifier: Apache-2.0 */
/* Running one function as the ranks of this process, however many they are meant to be. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weft/world.h>

#include "base/env.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "bootstrap/team.h"

typedef struct rank_thread {
    pthread_t thread;
    weft_world_config config;
    weft_rank_function function;
    void *argument;
    weft_result result;
    char error[512];
} rank_thread;

static weft_result run_rank(const weft_world_config *config, weft_rank_function function, void *argument)
{
    weft_world *world;
    WEFT_TRY(weft_world_open(config, &world));
    weft_result result = function(world, argument);
    weft_world_close(world);
    return result;
}

static void *thread_main(void *argument)
{
    rank_thread *t = argument;
    t->result = run_rank(&t->config, t->function, t->argument);
    if (t->result < 0)
        strncpy(t->error, weft_last_error(), sizeof t->error - 1);
    return NULL;
}

static weft_result first_error(const rank_thread *threads, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (threads[r].result != WEFT_OK)
            return weft__fail_quietly(threads[r].result, threads[r].error);
    return WEFT_OK;
}

static weft_result start_rank(rank_thread *t, const weft_world_config *config, weft_team *team, int rank)
{
    t->config = *config;
    t->config.team = team;
    t->config.rank = rank;
    t->config.ranks = weft__team_size(team);
    int failed = pthread_create(&t->thread, NULL, thread_main, t);
    return failed ? weft__fail(WEFT_E_SYSTEM, "cannot start a thread for rank %d: %s", rank, strerror(failed))
                  : WEFT_OK;
}

/* The ranks that did start meet nobody if one did not: they fail with the same message. */
static weft_result run_ranks(rank_thread *threads, const weft_world_config *config, weft_team *team)
{
    int ranks = weft__team_size(team), started = 0;
    weft_result result = WEFT_OK;
    while (started < ranks && result == WEFT_OK) {
        result = start_rank(&threads[started], config, team, started);
        started += result == WEFT_OK;
    }
    if (result != WEFT_OK)
        weft__team_break(team, started, result);
    for (int r = 0; r < started; r++)
        pthread_join(threads[r].thread, NULL);
    return result != WEFT_OK ? result : first_error(threads, ranks);
}

weft_result weft_team_run(int ranks, const weft_world_config *config, weft_rank_function function, void *argument)
{
    if (!function)
        return weft__fail(WEFT_E_INVALID, "ranks without a function to run");
    weft_team *team;
    weft_world_config own = {0};
    WEFT_TRY(weft__take_sized(&own, sizeof own, config, "weft_world_config"));
    WEFT_TRY(weft_team_create(ranks, &team));
    rank_thread *threads = weft__alloc((size_t)ranks * sizeof *threads);
    weft_result result = threads ? WEFT_OK : WEFT_E_NO_MEMORY;
    for (int r = 0; r < ranks && result == WEFT_OK; r++) {
        threads[r].function = function;
        threads[r].argument = argument;
    }
    if (result == WEFT_OK)
        result = run_ranks(threads, &own, team);
    free(threads);
    weft_team_destroy(team);
    return result;
}

weft_result weft_world_run(const weft_world_config *config, weft_rank_function function, void *argument)
{
    if (!function)
        return weft__fail(WEFT_E_INVALID, "ranks without a function to run");
    weft__env env;
    weft_result result = weft__env_read(&env);
    if (env.threads > 0)
        return result == WEFT_OK ? weft_team_run(env.threads, config, function, argument) : result;
    return run_rank(config, function, argument); /* tells the other ranks of what is wrong in the environment */
}
