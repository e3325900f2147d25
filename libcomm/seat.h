/* SPDX-License-Identifier: Apache-2.0 */
/* The seat from inside: what waiting callers (wait.c) and the engine (engine.c) share. One thread at a time has it.
 *
 * Who leaves it while works are in flight says so in the rank's header (`asleep`), looks at everything once more, and
 * goes: from then on whoever publishes something for this rank rings the engine's bell. So starting an operation costs
 * no system call unless there is something to do at once, and nothing is lost in between.
 *
 * That look may move something, which may have something to do for others in turn, and who is woken by the bell may
 * find the seat taken and give up: so it is taken again, a few times. Whoever leaves is not kept for longer, be it that
 * some backend never comes to rest or that others ring all the time: what it leaves then is something to do at once.
 *
 * Why no wake is lost by that. Each publisher (of a work, a verdict, a sleep, a ring of a peer, something on a wire)
 * publishes first and looks at the seat, or at `asleep`, behind it; whoever leaves gives the seat up first and looks at
 * what is published behind that. All are sequentially consistent, so one of the two sees the other:
 *  - it gives up armed: publishers find `asleep` and ring, or is_left_alone() finds what they have published;
 *  - it gives up unarmed, as nobody was needed: a sleeper or a work that came meanwhile is found there too;
 *  - it gives up with something due, awake: nobody rings, so the engine is woken, or looks soon, once the seat is free.
 *    A ring taken up by the engine before that finds the seat taken; the one behind it does not;
 *  - the engine itself gives up with something due: it does not sleep, but hears of what has come, and comes back.
 *
 * If there is something to do at once, the engine is rung. But callers that come back again and again, with small
 * operations while a large one is under way, move that along themselves, and share a core with the engine: each ring
 * would take it from them. So as long as they are in the seat for longer than they were away from it, who leaves it
 * has the engine look later, and who leaves it again puts that off. It looks when nobody has for a while, and takes
 * over when it then finds that they have stayed away. */
#ifndef WEFT_LIBCOMM_SEAT_H
#define WEFT_LIBCOMM_SEAT_H
#include "base/clock.h"
#include "comm.h"

static inline bool weft__seat_try(weft__progress *p)
{
    return atomic_load(&p->seat) == 0 && atomic_exchange(&p->seat, 1) == 0;
}

/* In the seat: move everything along, for about a slice. Did anything happen? */
bool weft__seat_once(weft_world *world);
/* In the seat: take in the works that were started meanwhile, or one. Were there any? */
bool weft__seat_take_fresh(weft_world *world);
void weft__seat_take_up(weft_world *world, weft__work *work);
/* In the seat: say who of this rank is to be woken (WEFT__AWAKE: nobody). */
void weft__seat_set_asleep(weft_world *world, uint32_t who);

/* The moment, if it may be that of a caller who comes back: for weft__seat_leave(). In the seat. */
static inline uint64_t weft__seat_came(const weft__progress *p)
{
    return p->attention ? weft__ticks() : 0;
}

/* Leave the seat, the bell armed if somebody is needed. If there is something to do at once for others, the engine is
 * woken, or looks later if callers return. @p came: ticks, when this one came; 0 = it has not been away; */
void weft__seat_leave(weft_world *world, uint64_t came);
/* or the seat is kept, and the answer is true. */
bool weft__seat_leave_unless_due(weft_world *world);
void weft__seat_wake_engine(weft_world *world);
/* In the seat: a caller has come while the engine had it. */
void weft__seat_expect_callers(weft__progress *p);
/* Have the engine look by itself in a while, or put off that it does. Any thread. */
void weft__seat_have_engine_look(weft_world *world);
/* Leave it where everything is as it was when the seat was taken: what began since has ended. */
void weft__seat_leave_as_found(weft_world *world);

/* In the seat, after a sleep that ended by time: if there is something to do now, its publisher must be about to ring.
 * If not, the wake is lost, and counted. */
void weft__seat_suspect(weft_world *world, uint32_t who);

#endif
