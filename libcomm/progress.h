/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: who moves works along. Only the thread in the world's seat (seat.c) touches backends; callers that wait
 * take it (wait.c), and the engine (engine.c), a thread of weft's own, has it while nobody waits and something is
 * due. */
#ifndef WEFT_LIBCOMM_PROGRESS_H
#define WEFT_LIBCOMM_PROGRESS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>

#include "base/memory.h"

typedef struct weft__work weft__work;

typedef struct weft__progress {
    _Alignas(WEFT__LINE) _Atomic uint32_t seat;       /* 1 = taken */
    _Atomic uint32_t wanted;                          /* callers that spin for it */
    _Atomic uint32_t visitors;                        /* setup calls that need it: whoever waits in it makes room */
    _Atomic uint32_t sleepers;                        /* callers that sleep on a work */
    _Alignas(WEFT__LINE) _Atomic(weft__work *) fresh; /* new works, last first */
    _Atomic uint32_t verdicts;                        /* comms have failed since the seat looked */

    /* The seat's. */
    _Alignas(WEFT__LINE) weft_comm *held; /* comms with held works */
    bool attention;                       /* others may come to wait for this rank */
    bool due;                             /* something for others was moved since the seat was taken, and goes on */
    bool callers_return;                  /* sooner than they would be missed: see seat.h */
    int presences;                        /* expected yet; each absence that was longer takes one */
    uint32_t rounds;                      /* of looking at everything */
    int verdict_rounds;                   /* that a failure has waited */
    uint64_t watched_ns;                  /* when deadlines were looked at */
    int bell_fd;                          /* the caller's eventfd */

    /* How to wait. */
    bool crowded;        /* more ranks than cores */
    uint64_t spin_ticks; /* before sleeping, */
    int yields;          /* or if crowded, this often */
    uint64_t slice_ticks;
    double ns_per_tick;

    bool has_engine;
    pthread_t engine;
    int epoll_fd;
    _Atomic bool stop;
    int look_fd;                 /* a timer: the engine looks by itself */
    _Atomic bool looks;          /* it will */
    _Atomic uint64_t look_ticks; /* when that was last put off */
    _Atomic uint64_t left_ticks; /* when a caller last left something to do behind */

    _Atomic uint64_t heard_ticks; /* when the engine last took up a ring */
    _Atomic uint64_t lost_wakes;  /* sleeps that ended by time although a bell had to ring: a bug; see wire.h */
    _Atomic uint64_t sleeps;
} weft__progress;

/* For a world whose segments are mapped; a world of one rank has neither seat nor engine. */
weft_result weft__progress_open(weft_world *world, bool crowded);
void weft__progress_close(weft_world *world);

/* Hand over a new work; moves it along at once if the seat is free. Never blocks. */
void weft__progress_start(weft_world *world, weft__work *work);
/* Hand over a new work that only the caller knows of, and wait for it, without leaving the seat in between. True: it
 * was carried out on the spot. */
bool weft__progress_run(weft_world *world, weft__work *work);
/* Move things along if the seat is free. */
void weft__progress_try(weft_world *world);
/* Until @p work has ended. Every wait ends: deadlines are looked at here too. */
void weft__progress_wait(weft_world *world, weft__work *work);
/* The seat for a setup call, works that were started before it taken in; and back. */
void weft__progress_enter(weft_world *world);
void weft__progress_leave(weft_world *world);
/* Have the engine wake up for a backend of the world that was opened later, too. */
weft_result weft__progress_watch(weft_world *world, int backend);
/* In weft_op.waited: no work, but a part of one, which a backend had carried by another. Its end is all there is. */
#define WEFT__PART_OF_ANOTHER 2
/* The work of a caller that is in the seat itself: there is nobody to wake. */
#define WEFT__WAITED_FOR_IN_SEAT 3
/* A work has ended (for backends, in the seat). */
void weft__progress_done(weft_op *op, weft_result result);
/* In the seat: forget the held works of a comm whose works have all ended, and let go on what was to run after one. */
void weft__seat_drop_held(weft_comm *comm);
/* A comm has failed: have somebody in the seat carry it out. Any thread. */
void weft__progress_alarm(weft_world *world);

#endif
