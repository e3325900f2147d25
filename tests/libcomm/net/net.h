/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of backends between hosts share: they are the same for each. They see weft as a program does: its
 * public headers and its library. */
#ifndef WEFT_TESTS_LIBCOMM_NET_H
#define WEFT_TESTS_LIBCOMM_NET_H
#include <stdlib.h>
#include <time.h>

#include "harness/ranks.h"

/* Skip the test where there is no such backend. */
static inline void need_carrier(void)
{
    if (getenv("WEFT_TEST_WITHOUT"))
        test_skip("%s", getenv("WEFT_TEST_WITHOUT"));
}

/* The backend that is tested. */
static inline const char *carrier(void)
{
    return getenv("WEFT_TEST_CARRIER") ? getenv("WEFT_TEST_CARRIER") : "tcp";
}

/* All ranks over that backend. */
static inline weft_comm *comm_over(weft_world *world, const char *backend, const char *name)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = backend;
    return all_ranks(world, name, &config);
}

static inline void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
