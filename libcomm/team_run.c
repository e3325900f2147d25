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

typedef struct rank_thread {
    pthread_t thread;
    weft_world_config config;
    weft_rank_function function;
    void *argument;
    weft_result result;
    char error[256];
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

weft_result weft_team_run(int ranks, const weft_world_config *config, weft_rank_function function, void *argument)
{
    weft_team *team;
    weft_world_config own = {0};
    WEFT_TRY(weft__take_sized(&own, sizeof own, config, "weft_world_config"));
    WEFT_TRY(weft_team_create(ranks, &team));
    rank_thread *threads = weft__alloc((size_t)ranks * sizeof *threads);
    if (!threads) {
        weft_team_destroy(team);
        return WEFT_E_NO_MEMORY;
    }
    int started = 0, failed = 0;
    for (; started < ranks && !failed; started += !failed) {
        rank_thread *t = &threads[started];
        t->config = own;
        t->config.team = team;
        t->config.rank = started;
        t->config.ranks = ranks;
        t->function = function;
        t->argument = argument;
        failed = pthread_create(&t->thread, NULL, thread_main, t);
    }
    for (int r = 0; r < started; r++)
        pthread_join(threads[r].thread, NULL);
    weft_result result =
        failed ? weft__fail(WEFT_E_SYSTEM, "cannot start a thread for rank %d: %s", started, strerror(failed))
               : first_error(threads, ranks);
    free(threads);
    weft_team_destroy(team);
    return result;
}

weft_result weft_world_run(const weft_world_config *config, weft_rank_function function, void *argument)
{
    weft__env env;
    WEFT_TRY(weft__env_read(&env));
    if (env.threads > 0)
        return weft_team_run(env.threads, config, function, argument);
    return run_rank(config, function, argument);
}
