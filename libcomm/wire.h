/* SPDX-License-Identifier: Apache-2.0 */
/* Wires: backends that have a descriptor, and when they are looked at.
 *
 * A wire is polled like any backend until somebody is going to sleep or to leave the seat. Then it is armed: from now
 * on its descriptor tells, and it is not polled, so that operations of other backends do not pay for it. What may give
 * it something to do stirs it: then it is polled again, until the next sleep. Those are: its descriptor could be read,
 * the engine's second is over, a call goes to its table, a caller waits for an operation of it, a failure is carried
 * out.
 *
 * Who sleeps in the seat polls the descriptors itself. Who leaves it while something is due counts on the engine,
 * which watches each once (EPOLLONESHOT). The rule that no wake is lost by: when the seat is empty, its leaver in need
 * of somebody, every wire is armed and watched, or the engine looks soon (seat.h). The engine takes both back when it
 * hears of a wire, whoever is in the seat; so whoever leaves looks at both once more behind the seat
 * (weft__wires_guarded).
 *
 * A descriptor that has hung up, or is in error, can always be read and tells nothing any more. Its wire is armed like
 * the others, but neither slept on nor watched: it is looked at when a few milliseconds of sleep are over, and then
 * the descriptor gets another chance, for some only hang until they are connected.
 *
 * Sleeps that missed their wake are counted for bells (weft__progress.lost_wakes), not for wires: when a sleep is over
 * by time and a backend then has something to do, that may have come meanwhile, or be due by the backend's own clock,
 * and its descriptor does not say which. A bell can be asked again, for its publisher is just about to ring.
 *
 * All but stirring happens in the seat, unless said otherwise. */
#ifndef WEFT_LIBCOMM_WIRE_H
#define WEFT_LIBCOMM_WIRE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/backend.h>

typedef struct weft__wire {
    int fd;        /* -1: the backend has none and is always polled */
    uint64_t data; /* of its events, for the engine */
    _Atomic bool armed, watched;
    _Atomic int hung; /* its descriptor has hung up, and this one (WEFT__HUNG_*) knows; 0 = it has not */
} weft__wire;

enum { WEFT__HUNG_FOR_CALLER = 1, WEFT__HUNG_FOR_ENGINE };

/* One backend as a world uses it. */
typedef struct weft__backend_instance {
    const weft_backend *table; /* without gaps */
    void *state;
    unsigned answer; /* of `progress`, the last */
    weft__wire wire;
} weft__backend_instance;

/* There may be something to do for it. Any thread. */
static inline void weft__wire_stir(weft__backend_instance *instance)
{
    if (atomic_load_explicit(&instance->wire.armed, memory_order_relaxed))
        atomic_store(&instance->wire.armed, false);
}

/* Its table, for a call that may give it something to do. */
static inline const weft_backend *weft__wire_call(weft__backend_instance *instance)
{
    weft__wire_stir(instance);
    return instance->table;
}

/* Move a backend along, unless its descriptor is going to tell. Answers WEFT_PROGRESS_*. */
static inline unsigned weft__wire_progress(weft__backend_instance *instance, uint64_t slice_ticks)
{
    if (atomic_load_explicit(&instance->wire.armed, memory_order_acquire))
        return instance->answer & WEFT_PROGRESS_ATTENTION;
    return instance->answer = instance->table->progress(instance->state, slice_ticks);
}

/* All wires of the world. Any thread. */
void weft__wires_stir(weft_world *world);
/* Before a sleep, or before the seat is left. False: one has something to do at once, or cannot be armed. */
bool weft__wires_arm(weft_world *world);
/* As long as a sleep may be: not long, if one has hung up. Any thread. */
int weft__wires_sleep_ms(const weft_world *world, int most_ms);
/* Nobody told of anything, and that was long enough: look at all. Any thread. */
void weft__wires_doubt(weft_world *world);
/* Sleep until the caller's bell rings or a wire can be read, which are taken up. 0: neither in @p most_ms, or less. */
int weft__wires_sleep(weft_world *world, int most_ms);
/* They are armed: have the engine wake up for them too. */
void weft__wires_watch(weft_world *world);
/* Are all armed and watched? Any thread. */
bool weft__wires_guarded(const weft_world *world);

/* The engine's: know of the wire of backend @p index, by events with that data; */
weft_result weft__wire_add(weft_world *world, int index, uint64_t data);
/* and of @p events of it. */
void weft__wire_heard(weft__backend_instance *instance, uint32_t events);

#endif
