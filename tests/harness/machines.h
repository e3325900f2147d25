/* SPDX-License-Identifier: Apache-2.0 */
/* Several machines on this one: ranks in network namespaces of their own share no memory with the others and meet at
 * the path of a socket. Between them operations go over "testwire", a backend whose wire is memory from before the
 * fork: barriers and small all-gathers, told of by descriptors as a network would. */
#ifndef WEFT_TESTS_HARNESS_MACHINES_H
#define WEFT_TESTS_HARNESS_MACHINES_H
#include "harness/ranks.h"

#define MACHINE_RANKS 16

/* As ranks_start(): rank r is on machine @p machine_of[r]; machine 0 is this one. The test is skipped where namespaces
 * are not permitted. */
rank_group machines_start(int ranks, const int *machine_of, const weft_world_config *config, rank_body body,
                          void *argument);
/* Here they open their worlds themselves: @p config says who and where. */
typedef void (*rank_main)(const weft_world_config *config, void *argument);
rank_group machines_fork(int ranks, const int *machine_of, const weft_world_config *config, rank_main run,
                         void *argument);
/* All must pass. */
void machines_run(int ranks, const int *machine_of, const weft_world_config *config, rank_body body, void *argument);

/* Ranks that go step by step: shared by all of a group, 0 when it starts. Wait until stage @p number is reached; reach
 * it; count up a counter of the test's own. */
void stage_wait(int number);
void stage_reach(int number);
bool stage_has_come(int number);
_Atomic int *stage_counter(void);

#endif
