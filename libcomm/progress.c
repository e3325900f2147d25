/* SPDX-License-Identifier: Apache-2.0 */
/* The seat and the engine.
 *
 * A thread that leaves the seat while works are in flight says so in the rank's header (`asleep`), polls everything
 * once more, and goes: from then on whoever publishes something for this rank rings the engine's bell. So starting an
 * operation costs no system call unless there is something to do at once, and nothing is lost in between. */
#include "progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "start.h"
#include "watchdog.h"

#define SPIN_NS       50000 /* before sleeping, with a core a rank: about twice what a wake costs */
#define YIELDS        100   /* before sleeping, with more ranks than cores */
#define SLICE_NS      20000 /* longest time between two looks at who wants the seat */
#define SLEEP_MS      1000  /* longest sleep: deadlines are looked at in between */
#define OUTSIDE_NS    20000 /* spinning for the seat before sleeping on a work */
#define CLOCK_EVERY   16    /* rounds of spinning between two looks at the clock */
#define SUSPECT_MS    50    /* a ring may be this late before its wake counts as lost */
#define LOOK_EVERY_NS 50000000ull

#define VERDICT_ROUNDS 64 /* slices that a failure may wait for others to end */

#define ENGINE_BELL 0
#define RANK_EVENT  1 /* + rank */

static weft__work *work_of(weft_op *op)
{
    return (weft__work *)((char *)op - offsetof(weft__work, op));
}

/* ------------------------------------------------------------------------------------------- in the seat */

static bool seat_try(weft__progress *p)
{
    return atomic_load(&p->seat) == 0 && atomic_exchange(&p->seat, 1) == 0;
}

void weft__progress_done(weft_op *op, weft_result result)
{
    weft__work *work = work_of(op);
    if (atomic_load_explicit(&work->taken_up, memory_order_relaxed)) {
        work->comm->world->progress.in_flight--;
        atomic_store_explicit(&work->taken_up, false, memory_order_relaxed); /* its next life begins elsewhere */
    }
    if (!op->last)
        op->last = weft__ticks();
    __atomic_store_n(&op->result, (int32_t)result, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&op->waited, __ATOMIC_SEQ_CST)) /* if the slot lives again already, one wakes for nothing */
        weft__futex_wake_all((_Atomic uint32_t *)&op->result);
}

/* Hand a work to its backend. False: it must wait. */
static bool begin(weft__work *work)
{
    weft_comm *comm = work->comm;
    weft_result verdict = (weft_result)atomic_load_explicit(&comm->verdict, memory_order_acquire);
    if (!weft__start_look_before(work, &verdict))
        return false;
    if (verdict != WEFT_OK) {
        weft__progress_done(&work->op, verdict);
        return true;
    }
    weft_result result = weft__start_in_backend(work);
    if (result < 0) {
        weft_backend_fail(comm, result, "comm %s: backend %s did not take an operation", comm->name,
                          comm->backend->name);
        weft__progress_done(&work->op, result);
    }
    return result != WEFT_AGAIN;
}

static void hold(weft_world *world, weft__work *work)
{
    weft_comm *comm = work->comm;
    work->next = NULL;
    *comm->held_end = work;
    comm->held_end = &work->next;
    if (comm->on_held_list)
        return;
    comm->on_held_list = true;
    comm->next_held = world->progress.held;
    world->progress.held = comm;
}

/* Works of one comm begin in their order; those of others go on. */
static unsigned begin_held(weft_world *world)
{
    unsigned moved = 0;
    for (weft_comm **link = &world->progress.held; *link;) {
        weft_comm *comm = *link;
        while (comm->held) {
            weft__work *work = comm->held, *next = work->next;
            if (!begin(work))
                break;
            moved = WEFT_PROGRESS_MOVED;
            comm->held = next;
            if (!next)
                comm->held_end = &comm->held;
        }
        if (comm->held) {
            link = &comm->next_held;
        } else {
            comm->on_held_list = false;
            *link = comm->next_held;
        }
    }
    return moved;
}

static void take_up(weft_world *world, weft__work *work)
{
    atomic_store_explicit(&work->taken_up, true, memory_order_relaxed);
    world->progress.in_flight++;
    if (work->comm->held || !begin(work))
        hold(world, work);
}

static unsigned take_fresh(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (!atomic_load(&p->fresh))
        return 0;
    weft__work *last_first = atomic_exchange(&p->fresh, NULL), *in_order = NULL;
    while (last_first) {
        weft__work *next = last_first->next;
        last_first->next = in_order;
        in_order = last_first;
        last_first = next;
    }
    while (in_order) {
        weft__work *work = in_order;
        in_order = work->next;
        take_up(world, work);
    }
    return WEFT_PROGRESS_MOVED;
}

/* Move everything along, for about a slice. Did anything happen? */
static bool once(weft_world *world)
{
    weft__progress *p = &world->progress;
    unsigned answer = take_fresh(world);
    if (p->held)
        answer |= begin_held(world);
    for (int i = 0; i < world->backend_count; i++)
        answer |= world->backends[i].table->progress(world->backends[i].state, p->slice_ticks);
    bool moved = answer & WEFT_PROGRESS_MOVED;
    p->attention = p->held || answer & WEFT_PROGRESS_ATTENTION;
    if (!atomic_load_explicit(&p->verdicts, memory_order_relaxed))
        return moved;
    /* What a rank did before it was lost still counts, so failures wait until nothing moves, or for a while. */
    if (!moved || ++p->verdict_rounds > VERDICT_ROUNDS) {
        p->verdict_rounds = 0;
        atomic_store(&p->verdicts, 0);
        weft__watchdog_carry_out(world);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- leaving the seat */

static void wake_engine(weft_world *world)
{
    if (world->progress.has_engine)
        weft__segment_ring(world->own, WEFT__ENGINE_SLEEPS);
}

static void set_asleep(weft_world *world, uint32_t who)
{
    if (world->own && atomic_load(&world->own->header->asleep) != who)
        atomic_store(&world->own->header->asleep, who);
}

/* Must somebody look when a peer has published something? Others may come to wait for this rank, or a caller of its own
 * sleeps on a work and counts on whoever is in the seat. */
static bool is_needed(const weft__progress *p)
{
    return p->attention || atomic_load(&p->sleepers) > 0;
}

/* Leave the seat, the bell armed if somebody is needed. If there is something to do at once for others, the seat is
 * kept and the answer is true. */
static bool leave_unless_due(weft_world *world)
{
    weft__progress *p = &world->progress;
    for (;;) {
        bool armed = is_needed(p);
        set_asleep(world, armed ? WEFT__ENGINE_SLEEPS : WEFT__AWAKE);
        bool moved = once(world);
        if (moved && p->attention) {
            set_asleep(world, WEFT__AWAKE);
            return true;
        }
        if (moved || is_needed(p) != armed)
            continue;
        atomic_store(&p->seat, 0);
        /* A work or a sleeper that came meanwhile found the seat taken, and nobody asleep. */
        bool left_alone = atomic_load(&p->fresh) || atomic_load(&p->verdicts) || (!armed && atomic_load(&p->sleepers));
        if (!left_alone || !seat_try(p))
            return false;
    }
}

static void leave(weft_world *world)
{
    weft__progress *p = &world->progress;
    bool due = leave_unless_due(world);
    if (due)
        atomic_store(&p->seat, 0);
    if (due || atomic_load(&p->sleepers))
        wake_engine(world);
}

/* ------------------------------------------------------------------------------------------- callers */

void weft__progress_try(weft_world *world)
{
    if (!seat_try(&world->progress))
        return;
    set_asleep(world, WEFT__AWAKE);
    (void)once(world);
    leave(world);
}

void weft__progress_start(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    weft__work *head = atomic_load_explicit(&p->fresh, memory_order_relaxed);
    do {
        work->next = head;
    } while (!atomic_compare_exchange_weak(&p->fresh, &head, work));
    if (atomic_load(&p->seat) == 0)
        weft__progress_try(world);
    else if (world->own)
        weft__segment_wake(world->own); /* whoever is in the seat looks before it sleeps or goes */
}

void weft__progress_alarm(weft_world *world)
{
    atomic_store(&world->progress.verdicts, 1);
    if (atomic_load(&world->progress.seat) == 0)
        weft__progress_try(world);
    else if (world->own)
        weft__segment_wake(world->own);
}

/* Drain a bell. */
static void hear(int fd)
{
    uint64_t count;
    ssize_t n;
    do {
        n = read(fd, &count, sizeof count);
    } while (n < 0 && errno == EINTR);
}

/* A sleep ended by time. If there was something to do, its publisher must be about to ring; if not, the wake is
 * lost. */
static void suspect_lost_wake(weft_world *world, uint32_t who)
{
    const _Atomic uint32_t *asleep = &world->own->header->asleep;
    if (atomic_load(asleep) != who || !once(world) || atomic_load(asleep) != who)
        return;
    struct pollfd bell = {.fd = world->own->fds.bells[who - 1], .events = POLLIN};
    if (poll(&bell, 1, SUSPECT_MS) == 0 && atomic_load(asleep) == who)
        atomic_fetch_add(&world->progress.lost_wakes, 1);
}

/* The same of a sleep outside of the seat: somebody must be in it, or have armed the bell. */
static void suspect_lost_sleeper(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (atomic_load(&p->seat) == 0 && world->own && atomic_load(&world->own->header->asleep) == WEFT__AWAKE)
        atomic_fetch_add(&p->lost_wakes, 1);
}

/* Sleep in the seat until a bell rings, or for a second. */
static void sleep_in_seat(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    set_asleep(world, WEFT__CALLER_SLEEPS);
    if (!once(world) && !weft__work_ended(work)) {
        atomic_fetch_add_explicit(&p->sleeps, 1, memory_order_relaxed);
        struct pollfd bell = {.fd = p->bell_fd, .events = POLLIN};
        int n = poll(&bell, 1, weft__watchdog_sleep_ms(work, SLEEP_MS));
        if (n > 0)
            hear(p->bell_fd);
        else if (n == 0)
            suspect_lost_wake(world, WEFT__CALLER_SLEEPS);
    }
    set_asleep(world, WEFT__AWAKE);
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
    set_asleep(world, WEFT__AWAKE);
    uint64_t idle_since = 0;
    int idle_rounds = 0;
    while (!weft__work_ended(work) && atomic_load_explicit(&p->visitors, memory_order_relaxed) == 0) {
        if (once(world)) {
            idle_rounds = 0;
            continue;
        }
        if (has_waited_long(p, idle_rounds++, &idle_since) && p->has_engine) {
            sleep_in_seat(world, work);
            weft__watchdog_look(world);
            idle_rounds = 0;
        } else if (p->crowded) {
            sched_yield();
        } else {
            weft__pause();
        }
    }
}

/* Somebody else has the seat: spin for it a little, then sleep on the work. True: the seat is ours. */
static bool wait_outside(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    uint64_t until = weft__ticks() + (uint64_t)(OUTSIDE_NS / p->ns_per_tick);
    bool seated = false;
    atomic_fetch_add(&p->wanted, 1);
    while (!weft__work_ended(work) && !(seated = seat_try(p)) && weft__ticks() < until)
        weft__pause();
    atomic_fetch_sub(&p->wanted, 1);
    if (seated || weft__work_ended(work))
        return seated;
    atomic_fetch_add(&p->sleepers, 1);
    __atomic_store_n(&work->op.waited, 1, __ATOMIC_SEQ_CST);
    seated = seat_try(p);
    if (!seated && !weft__futex_wait((_Atomic uint32_t *)&work->op.result, WEFT_PENDING, SLEEP_MS * 1000000ull))
        suspect_lost_sleeper(world);
    atomic_fetch_sub(&p->sleepers, 1);
    return seated;
}

void weft__progress_wait(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    while (!weft__work_ended(work)) {
        if (!seat_try(p) && !wait_outside(world, work))
            continue;
        wait_in_seat(world, work);
        leave(world);
        while (atomic_load(&p->visitors))
            sched_yield();
    }
}

void weft__progress_run(weft_world *world, weft__work *work)
{
    weft__progress *p = &world->progress;
    if (!seat_try(p)) {
        weft__progress_start(world, work);
        weft__progress_wait(world, work);
        return;
    }
    set_asleep(world, WEFT__AWAKE);
    (void)take_fresh(world);
    take_up(world, work);
    wait_in_seat(world, work);
    leave(world);
    if (!weft__work_ended(work)) /* it made room for a visitor */
        weft__progress_wait(world, work);
}

void weft__progress_enter(weft_world *world)
{
    weft__progress *p = &world->progress;
    atomic_fetch_add(&p->visitors, 1);
    atomic_fetch_add(&p->wanted, 1);
    while (!seat_try(p)) {
        if (world->own)
            weft__segment_wake(world->own);
        sched_yield();
    }
    atomic_fetch_sub(&p->wanted, 1);
    atomic_fetch_sub(&p->visitors, 1);
    set_asleep(world, WEFT__AWAKE);
    (void)take_fresh(world);
}

void weft__progress_leave(weft_world *world)
{
    leave(world);
}

/* ------------------------------------------------------------------------------------------- the engine */

static void note_lost_rank(weft_world *world, int rank)
{
    epoll_ctl(world->progress.epoll_fd, EPOLL_CTL_DEL, world->segments[rank]->fds.process, NULL);
    if (atomic_load(&world->segments[rank]->header->state) == WEFT__RANK_CLOSED)
        return; /* it closed its world before it ended */
    weft__log(WEFT_LOG_INFO, "rank %d has ended without closing its world", rank);
    atomic_store(&world->lost[rank], 1);
    atomic_store(&world->progress.verdicts, 1);
}

/* Be in the seat while something is due and nobody else wants it. */
static void serve(weft_world *world)
{
    weft__progress *p = &world->progress;
    set_asleep(world, WEFT__AWAKE);
    bool due;
    do {
        while (atomic_load(&p->wanted) == 0 && once(world))
            ;
        weft__watchdog_look(world);
        due = leave_unless_due(world);
    } while (due && atomic_load(&p->wanted) == 0);
    if (due) {
        atomic_store(&p->seat, 0);
        wake_engine(world); /* come back when the other has had it */
    }
}

static void *engine_main(void *argument)
{
    weft_world *world = argument;
    weft__progress *p = &world->progress;
    weft__log_rank(world->rank);
    while (!atomic_load(&p->stop)) {
        struct epoll_event events[16];
        int n = epoll_wait(p->epoll_fd, events, 16, SLEEP_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == ENGINE_BELL)
                hear(world->own->fds.bells[WEFT__ENGINE_SLEEPS - 1]);
            else
                note_lost_rank(world, (int)(events[i].data.u64 - RANK_EVENT));
        }
        weft__world_populate(world);
        if (seat_try(p)) {
            if (n == 0)
                suspect_lost_wake(world, WEFT__ENGINE_SLEEPS);
            serve(world);
        } else if (atomic_load(&p->verdicts)) {
            weft__segment_wake(world->own);
        }
    }
    return NULL;
}

static weft_result watch_fd(int epoll_fd, int fd, uint64_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? WEFT_OK
                                                               : weft__fail_errno("cannot watch a descriptor");
}

static weft_result start_engine(weft_world *world)
{
    weft__progress *p = &world->progress;
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0)
        return weft__fail_errno("cannot make an epoll descriptor");
    weft_result result = watch_fd(p->epoll_fd, world->own->fds.bells[WEFT__ENGINE_SLEEPS - 1], ENGINE_BELL);
    for (int r = 0; r < world->size && result == WEFT_OK; r++)
        if (r != world->rank && !world->config.team)
            result = watch_fd(p->epoll_fd, world->segments[r]->fds.process, RANK_EVENT + (uint64_t)r);
    /* Signals are the program's business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = result == WEFT_OK ? pthread_create(&p->engine, NULL, engine_main, world) : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        result = weft__fail(WEFT_E_SYSTEM, "cannot start a thread: %s", strerror(failed));
    if (result != WEFT_OK) {
        close(p->epoll_fd);
        return result;
    }
    p->has_engine = true;
    return WEFT_OK;
}

weft_result weft__progress_open(weft_world *world, bool crowded)
{
    weft__progress *p = &world->progress;
    p->crowded = crowded;
    p->ns_per_tick = weft__ns_per_tick();
    p->yields = YIELDS;
    p->spin_ticks = (uint64_t)(SPIN_NS / p->ns_per_tick);
    p->slice_ticks = (uint64_t)(SLICE_NS / p->ns_per_tick);
    if (!world->own)
        return WEFT_OK;
    p->bell_fd = world->own->fds.bells[WEFT__CALLER_SLEEPS - 1];
    return start_engine(world);
}

void weft__progress_close(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (!p->has_engine)
        return;
    atomic_store(&p->stop, true);
    wake_engine(world);
    pthread_join(p->engine, NULL);
    close(p->epoll_fd);
    p->has_engine = false;
    if (atomic_load(&p->lost_wakes))
        weft__log(WEFT_LOG_ERROR, "%llu of %llu sleeps missed their wake: please report it",
                  (unsigned long long)atomic_load(&p->lost_wakes), (unsigned long long)atomic_load(&p->sleeps));
}
