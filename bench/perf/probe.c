/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how near two cores are to each other: a flag goes to and fro between them. */
#include "perf/probe.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "perf/statistics.h"

enum { BURSTS = 15, TRIPS = 100 };

typedef struct table_tennis {
    _Alignas(128) _Atomic uint32_t ping;
    _Alignas(128) _Atomic uint32_t pong;
    _Alignas(128) int cpu[2];
    _Atomic bool over, cannot;
    double ms, ns;
} table_tennis;

static bool go_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
}

static void *answer(void *argument)
{
    table_tennis *t = argument;
    if (!go_to(t->cpu[1]))
        atomic_store(&t->cannot, true);
    for (uint32_t seen = 0; !atomic_load_explicit(&t->over, memory_order_relaxed) && !atomic_load(&t->cannot);) {
        uint32_t ping = atomic_load_explicit(&t->ping, memory_order_acquire);
        if (ping != seen)
            atomic_store_explicit(&t->pong, seen = ping, memory_order_release);
    }
    return NULL;
}

static bool one_trip(table_tennis *t, uint32_t number)
{
    atomic_store_explicit(&t->ping, number, memory_order_release);
    while (atomic_load_explicit(&t->pong, memory_order_acquire) != number)
        if (atomic_load_explicit(&t->cannot, memory_order_relaxed))
            return false;
    return true;
}

/* Trips until @p end_ns; 0 if the two cannot meet. */
static double make_trips(table_tennis *t, uint32_t *number, int64_t end_ns)
{
    double trips = 0;
    do {
        for (int i = 0; i < TRIPS; i++)
            if (!one_trip(t, ++*number))
                return 0;
        trips += TRIPS;
    } while (clock_ns() < end_ns);
    return trips;
}

static void *serve(void *argument)
{
    table_tennis *t = argument;
    uint32_t number = 0;
    double bursts[1 + BURSTS], trips = 1; /* the first is for warming up */
    if (!go_to(t->cpu[0]))
        atomic_store(&t->cannot, true);
    for (int i = 0; i < 1 + BURSTS && trips > 0; i++) {
        int64_t begin_ns = clock_ns();
        trips = make_trips(t, &number, begin_ns + (int64_t)(t->ms * 1e6 / (1 + BURSTS)));
        bursts[i] = (double)(clock_ns() - begin_ns) / trips / 2;
    }
    if (trips > 0)
        t->ns = perf_median(bursts + 1, BURSTS);
    atomic_store(&t->over, true);
    return NULL;
}

double perf_probe(int cpu, int other_cpu, double ms)
{
    table_tennis t = {.cpu = {cpu, other_cpu}, .ms = ms, .ns = NAN};
    pthread_t threads[2];
    if (cpu < 0 || other_cpu < 0 || cpu == other_cpu || pthread_create(&threads[1], NULL, answer, &t) != 0)
        return NAN;
    if (pthread_create(&threads[0], NULL, serve, &t) == 0)
        pthread_join(threads[0], NULL);
    atomic_store(&t.over, true);
    pthread_join(threads[1], NULL);
    return t.ns;
}
