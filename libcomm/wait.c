/* SPDX-License-Identifier: Apache-2.0 */
/* How callers start works, move them along and wait for them. */
#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "seat.h"
#include "watchdog.h"

#define SLEEP_MS    1000  /* longest sleep: deadlines are looked at in between */
#define OUTSIDE_NS  20000 /* waiting for the seat before sleeping on a work, */
#define OUTSIDE     64    /* and rounds of it before the core is left to who is in the seat */
#define CLOCK_EVERY 16    /* rounds of spinning between two looks at the clock */

/* ------------------------------------------------------------------------------------------- without waiting */

void weft__progress_try(weft_world *world)
{
    if (!weft__seat_try(&world->progress))
        return;
    uint64_t came = weft__seat_came(&world->progress);
    weft__seat_set_asleep(world, WEFT__AWAKE);
    (void)weft__seat_once(world);
    weft__seat_leave(world, came);
}

/* There is something new: look at it, or have whoever is in the seat do so before it sleeps or goes. */
static void see_to_it(weft_world *world)
{
    if (atomic_load(&world->progress.seat) == 0)
        weft__progress_try(world);
    else if (world->own)
        weft__segment_wake(world->own);
}

void weft__progress_start(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    weft__work *head = atomic_load_explicit(&p->fresh, memory_order_relaxed);
    do {
        work->next = head;
    } while (!atomic_compare_exchange_weak(&p->fresh, &head, work));
    see_to_it(world);
}

void weft__progress_alarm(weft_world *world)
{
    atomic_store(&world->progress.verdicts, 1);
    see_to_it(world);
}

/* ------------------------------------------------------------------------------------------- waiting in the seat */

/* Sleep in the seat until a bell rings, or for a second. */
static void sleep_in_seat(weft_world *world, weft__work *work)
{
    weft__trace_pending(world->trace, work);
    weft__progress *p = &world->progress;
    weft__seat_set_asleep(world, WEFT__CALLER_SLEEPS);
    if (!weft__seat_once(world) && !weft__work_ended(work) && weft__wires_arm(world)) {
        atomic_fetch_add_explicit(&p->sleeps, 1, memory_order_relaxed);
        int n = weft__wires_sleep(world, weft__watchdog_sleep_ms(work, SLEEP_MS));
        if (n == 0) {
            weft__seat_suspect(world, WEFT__CALLER_SLEEPS);
            weft__wires_doubt(world);
        }
    }
    weft__seat_set_asleep(world, WEFT__AWAKE);
}

/* Has a caller that found nothing to do, now for the (@p round + 1)th time, spun or yielded enough? */
static bool has_waited_long(const weft__progress *p, int round, uint64_t *since)
{
    if (p->crowded)
        return round >= p->yields;
    if (round % CLOCK_EVERY)
        return false;
    uint64_t now = weft__ticks();
    if (round == 0)
        *since = now;
    return now - *since >= p->spin_ticks;
}

/* Until the work has ended, or a visitor wants the seat. */
static void wait_in_seat(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    weft__seat_set_asleep(world, WEFT__AWAKE);
    weft__wire_stir(work->comm->instance); /* a caller that waits looks itself */
    uint64_t idle_since = 0;
    int idle_rounds = 0;
    while (!weft__work_ended(work) && atomic_load_explicit(&p->visitors, memory_order_relaxed) == 0) {
        if (weft__seat_once(world)) {
            idle_rounds = 0;
            continue;
        }
        if (has_waited_long(p, idle_rounds++, &idle_since) && p->has_engine) {
            sleep_in_seat(world, work);
            weft__wire_stir(work->comm->instance);
            weft__watchdog_look(world);
            idle_rounds = 0;
        } else if (p->crowded) {
            sched_yield();
        } else {
            weft__pause();
        }
    }
}

/* ------------------------------------------------------------------------------------------- waiting */

/* The engine in the seat may share the core with who waits for it. */
static void pause_outside(int round)
{
    if (round < OUTSIDE)
        weft__pause();
    else
        sched_yield();
}

/* Somebody else has the seat: spin for it a little, then sleep on the work. True: the seat is ours. */
static bool wait_outside(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    uint64_t until = weft__ticks() + (uint64_t)(OUTSIDE_NS / p->ns_per_tick);
    bool seated = false;
    atomic_fetch_add(&p->wanted, 1);
    for (int i = 0; !weft__work_ended(work) && !(seated = weft__seat_try(p)) && weft__ticks() < until; i++)
        pause_outside(i);
    atomic_fetch_sub(&p->wanted, 1);
    if (seated || weft__work_ended(work))
        return seated;
    atomic_fetch_add(&p->sleepers, 1);
    __atomic_store_n(&work->op.waited, 1, __ATOMIC_SEQ_CST);
    seated = weft__seat_try(p);
    uint64_t sleep_ns = (uint64_t)weft__watchdog_sleep_outside_ms(work, SLEEP_MS) * 1000000;
    if (!seated && !weft__futex_wait((_Atomic uint32_t *)&work->op.result, WEFT_PENDING, sleep_ns)) {
        seated = weft__seat_try(p);
        if (seated && world->own)
            weft__seat_suspect(world, WEFT__ENGINE_SLEEPS);
    }
    atomic_fetch_sub(&p->sleepers, 1);
    return seated;
}

void weft__progress_wait(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    while (!weft__work_ended(work)) {
        if (!weft__seat_try(p) && !wait_outside(world, work))
            continue;
        uint64_t came = weft__seat_came(p);
        wait_in_seat(world, work);
        weft__seat_leave(world, came);
        while (atomic_load(&p->visitors))
            sched_yield();
    }
}

/* Have a work that was taken up just now carried out on the spot, if the others are there. */
static bool hasten(weft__work *work)
{
    weft_comm *comm = work->comm;
    if (work->op.start && !weft__work_ended(work))
        weft__wire_call(comm->instance)->hasten(comm->backend_comm, &work->op);
    return weft__work_ended(work);
}

bool weft__progress_run(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    if (!weft__seat_try(p)) {
        weft__trace_pending(world->trace, work);
        weft__progress_start(world, work);
        weft__progress_wait(world, work);
        return false;
    }
    uint64_t came = p->attention ? work->ready : 0;
    weft__seat_set_asleep(world, WEFT__AWAKE);
    bool alone = !weft__seat_take_fresh(world) && !p->attention;
    __atomic_store_n(&work->op.waited, WEFT__WAITED_FOR_IN_SEAT, __ATOMIC_RELAXED);
    weft__seat_take_up(world, work);
    if (alone && hasten(work)) {
        weft__seat_leave_as_found(world);
        return true;
    }
    wait_in_seat(world, work);
    __atomic_store_n(&work->op.waited, 0, __ATOMIC_RELAXED);
    weft__seat_leave(world, came);
    if (!weft__work_ended(work)) { /* it made room for a visitor */
        weft__trace_pending(world->trace, work);
        weft__progress_wait(world, work);
    }
    return false;
}

void weft__progress_enter(weft_world *world)
{
    weft__progress *p = &world->progress;
    atomic_fetch_add(&p->visitors, 1);
    atomic_fetch_add(&p->wanted, 1);
    while (!weft__seat_try(p)) {
        if (world->own)
            weft__segment_wake(world->own);
        sched_yield();
    }
    atomic_fetch_sub(&p->wanted, 1);
    atomic_fetch_sub(&p->visitors, 1);
    weft__seat_set_asleep(world, WEFT__AWAKE);
    (void)weft__seat_take_fresh(world);
}

void weft__progress_leave(weft_world *world)
{
    weft__seat_leave(world, 0);
}
