/* SPDX-License-Identifier: Apache-2.0 */
/* Time: nanoseconds for deadlines, raw ticks for stamps. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static inline uint64_t weft__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How long poll() may wait until then: a second at most, since clocks and descriptors may surprise; 0 = it is then. */
static inline int weft__poll_ms(uint64_t now_ns, uint64_t until_ns)
{
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    return left_ns > 1000000000u ? 1000 : (int)((left_ns + 999999) / 1000000);
}

/* A counter that runs at one constant rate on all cores of the host. */
static inline uint64_t weft__ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return weft__now_ns();
#endif
}

/* Tell the core that this loop waits for another one. */
static inline void weft__pause(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Both clocks at one moment, as nearly as can be. */
void weft__read_clocks(uint64_t *ticks, uint64_t *ns);
/* The rate of weft__ticks(); measured once a process, takes a few milliseconds the first time. */
double weft__ns_per_tick(void);

#endif
