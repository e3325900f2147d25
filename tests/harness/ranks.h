/* SPDX-License-Identifier: Apache-2.0 */
/* Running the body of a test on N ranks, as threads of this process or as processes. A check that fails on one rank
 * fails the test. */
#ifndef WEFT_TESTS_HARNESS_RANKS_H
#define WEFT_TESTS_HARNESS_RANKS_H
#include <sys/types.h>
#include <weft/collective.h>
#include <weft/comm.h>
#include <weft/log.h>
#include <weft/memory.h>
#include <weft/p2p.h>
#include <weft/trace.h>
#include <weft/world.h>

#include "harness/test.h"

typedef void (*rank_body)(weft_world *world, void *argument);

/* @p config may be NULL; team, rank, ranks and rendezvous are set here. */
void ranks_as_threads(int ranks, const weft_world_config *config, rank_body body, void *argument);
void ranks_as_processes(int ranks, const weft_world_config *config, rank_body body, void *argument);
/* Both, one after the other; threads alone under the thread sanitizer. */
void ranks_both_ways(int ranks, rank_body body, void *argument);

/* The errors of this process, and of those that it forks, are expected, and not printed. */
void quiet(void);

/* For tests in which ranks die: start them, and wait for each; status as of wait(). */
typedef struct rank_group {
    int ranks;
    pid_t pid[64];
    int status[64];
} rank_group;
rank_group ranks_start(int ranks, const weft_world_config *config, rank_body body, void *argument);
/* Rank @p rank must end with exit code 0 (all checks passed); so must all. */
void ranks_expect_passed(rank_group *group, int rank);
void ranks_expect_all(rank_group *group);
void ranks_wait(rank_group *group, int rank);

/* What these are made of: processes that call @p run and end, at the latest with this one; and a world's life. */
typedef void (*rank_run)(int rank, void *argument);
rank_group ranks_fork(int ranks, rank_run run, void *argument);
weft_world_config rank_config(const weft_world_config *config, int rank, int ranks, const char *rendezvous);
void rank_live(const weft_world_config *config, rank_body body, void *argument);

/* A counter that ranks count up, in whatever they live, for one that goes on when others have come so far; it begins
 * at 0. Wait until it is @p count, and begin again. */
_Atomic int *ranks_counter(void);
void ranks_await(_Atomic int *counter, int count);

/* A batch of messages. */
weft_result start_messages(weft_comm *comm, const weft_p2p *messages, size_t count, weft_work *work_out);
weft_result run_messages(weft_comm *comm, const weft_p2p *messages, size_t count);

/* A comm of all ranks. */
weft_comm *all_ranks(weft_world *world, const char *name, const weft_comm_config *config);

#endif
