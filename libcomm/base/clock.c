/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds per tick of the CPU's counter: measured once against CLOCK_MONOTONIC. */
#include "base/clock.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static double rate = 1.0;

void weft__read_clocks(uint64_t *ticks, uint64_t *ns)
{
    /* The tightest of a few readings: an interrupt between the two clocks spoils the others. */
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = weft__ticks();
        uint64_t now = weft__now_ns();
        uint64_t after = weft__ticks();
        if (after - before < best) {
            best = after - before;
            *ticks = before + best / 2;
            *ns = now;
        }
    }
}

static void measure(void)
{
    uint64_t ticks0 = 0, ns0 = 0, ticks1 = 0, ns1 = 0;
    weft__read_clocks(&ticks0, &ns0);
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
    weft__read_clocks(&ticks1, &ns1);
    if (ticks1 > ticks0)
        rate = (double)(ns1 - ns0) / (double)(ticks1 - ticks0);
}

double weft__ns_per_tick(void)
{
    pthread_once(&once, measure);
    return rate;
}
