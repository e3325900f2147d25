/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of trouble between machines share: who is where, comms of some, and meeting in them. */
#ifndef WEFT_TESTS_LIBCOMM_BETWEEN_H
#define WEFT_TESTS_LIBCOMM_BETWEEN_H
#include "harness/machines.h"

/* Four ranks: 0 and 3 on this machine, 1 and 2 on another. */
static const int two_and_two[] = {0, 1, 1, 0};

static inline weft_comm *comm_of(weft_world *world, const char *name, const int *ranks, int count)
{
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, name, ranks, count, NULL, &comm));
    return comm;
}

static inline weft_result barrier(weft_comm *comm)
{
    return weft_barrier_run(comm, WEFT_STREAM_HOST);
}

#endif
