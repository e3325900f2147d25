/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the host backend share: machines side by side, as many ranks on each, and a wire between them. */
#ifndef WEFT_TESTS_LIBCOMM_HOST_H
#define WEFT_TESTS_LIBCOMM_HOST_H
#include <stdlib.h>
#include <time.h>

#include "harness/machines.h"
#include "harness/values.h"
#include "wire.h"

static inline rank_group start_on(shape s, const weft_world_config *config, rank_body body, void *argument)
{
    int machine_of[MACHINE_RANKS];
    wire_lay();
    for (int r = 0; r < s.machines * s.per_machine; r++)
        machine_of[r] = r / s.per_machine;
    return machines_start(s.machines * s.per_machine, machine_of, config, body, argument);
}

static inline void run_on(shape s, rank_body body, void *argument)
{
    rank_group group = start_on(s, NULL, body, argument);
    ranks_expect_all(&group);
}

/* Ranks of a world by another order; NULL: all. */
static inline weft_comm *comm_of(weft_world *world, const char *name, const int *ranks, int count, const char *backend)
{
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, name, ranks, count, NULL, &comm));
    CHECK_STR(weft_comm_backend(comm), backend);
    return comm;
}

static inline void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

#endif
