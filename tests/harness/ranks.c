/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests. */
#include "harness/ranks.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct body_call {
    rank_body body;
    void *argument;
} body_call;

static weft_result call_body(weft_world *world, void *argument)
{
    body_call *call = argument;
    call->body(world, call->argument);
    return WEFT_OK;
}

void ranks_as_threads(int ranks, const weft_world_config *config, rank_body body, void *argument)
{
    body_call call = {body, argument};
    CHECK_OK(weft_team_run(ranks, config, call_body, &call));
}

rank_group ranks_fork(int ranks, rank_run run, void *argument)
{
    rank_group group = {.ranks = ranks};
    CHECK(ranks <= (int)(sizeof group.pid / sizeof *group.pid));
    fflush(NULL);
    for (int r = 0; r < ranks; r++) {
        group.pid[r] = fork();
        CHECK(group.pid[r] >= 0);
        if (group.pid[r])
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(r, argument);
        exit(0);
    }
    return group;
}

_Atomic int *ranks_counter(void)
{
    void *counter = mmap(NULL, sizeof(_Atomic int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    return counter;
}

void ranks_await(_Atomic int *counter, int count)
{
    while (atomic_load(counter) < count)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_store(counter, 0);
}

weft_world_config rank_config(const weft_world_config *config, int rank, int ranks, const char *rendezvous)
{
    weft_world_config c = WEFT_WORLD_CONFIG_INIT;
    if (config)
        c = *config;
    c.rank = rank;
    c.ranks = ranks;
    c.rendezvous = rendezvous;
    return c;
}

void rank_live(const weft_world_config *config, rank_body body, void *argument)
{
    weft_world *world;
    CHECK_OK(weft_world_open(config, &world));
    body(world, argument);
    weft_world_close(world);
}

typedef struct life {
    int ranks;
    const weft_world_config *config;
    const char *rendezvous;
    body_call call;
} life;

static void live(int rank, void *argument)
{
    const life *l = argument;
    weft_world_config config = rank_config(l->config, rank, l->ranks, l->rendezvous);
    rank_live(&config, l->call.body, l->call.argument);
}

rank_group ranks_start(int ranks, const weft_world_config *config, rank_body body, void *argument)
{
    static int counter;
    char rendezvous[64];
    snprintf(rendezvous, sizeof rendezvous, "unix://@weft-test-%d-%d", (int)getpid(), counter++);
    return ranks_fork(ranks, live, &(life){ranks, config, rendezvous, {body, argument}});
}

void ranks_wait(rank_group *group, int rank)
{
    if (group->pid[rank])
        CHECK(waitpid(group->pid[rank], &group->status[rank], 0) == group->pid[rank]);
    group->pid[rank] = 0;
}

void ranks_expect_passed(rank_group *group, int rank)
{
    ranks_wait(group, rank);
    int status = group->status[rank];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        _exit(77);
    if (WIFSIGNALED(status))
        FAIL("rank %d was killed by signal %d", rank, WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        FAIL("rank %d ended with code %d", rank, WEXITSTATUS(status));
}

void ranks_expect_all(rank_group *group)
{
    for (int r = 0; r < group->ranks; r++)
        ranks_expect_passed(group, r);
}

void ranks_as_processes(int ranks, const weft_world_config *config, rank_body body, void *argument)
{
    rank_group group = ranks_start(ranks, config, body, argument);
    ranks_expect_all(&group);
}

void ranks_both_ways(int ranks, rank_body body, void *argument)
{
#ifndef __SANITIZE_THREAD__ /* which sees one process, and all that threads do there where ranks are threads */
    ranks_as_processes(ranks, NULL, body, argument);
#endif
    ranks_as_threads(ranks, NULL, body, argument);
}

static void say_nothing(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

void quiet(void)
{
    weft_log_set(WEFT_LOG_ERROR, say_nothing, NULL);
}

static weft_p2p_batch batch_of(const weft_p2p *messages, size_t count)
{
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = messages;
    batch.count = count;
    return batch;
}

weft_result start_messages(weft_comm *comm, const weft_p2p *messages, size_t count, weft_work *work_out)
{
    weft_p2p_batch batch = batch_of(messages, count);
    return weft_p2p_start(comm, &batch, WEFT_STREAM_HOST, work_out);
}

weft_result run_messages(weft_comm *comm, const weft_p2p *messages, size_t count)
{
    weft_p2p_batch batch = batch_of(messages, count);
    return weft_p2p_run(comm, &batch, WEFT_STREAM_HOST);
}

weft_comm *all_ranks(weft_world *world, const char *name, const weft_comm_config *config)
{
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, name, NULL, 0, config, &comm));
    return comm;
}
