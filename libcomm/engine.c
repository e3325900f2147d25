/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: the thread of a world that moves works along while its callers compute, and hears of ranks that end. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "control.h"
#include "seat.h"
#include "watchdog.h"

#define SPIN_NS  50000   /* callers before they sleep, with a core a rank: about twice what a wake costs */
#define YIELDS   100     /* the same with more ranks than cores */
#define SLICE_NS 20000   /* longest time between two looks at who wants the seat */
#define SLEEP_MS 1000    /* longest sleep: deadlines are looked at in between */
#define SERVE_NS 1000000 /* in the seat, before it hears of what has come from elsewhere: lost ranks, letters */
#define AWAY_NS  50000   /* those who have not come for so long do not */

/* What an event is about: kind, and which. */
enum { ENGINE_BELL, ENGINE_LOOKS, RANK_ENDS, WIRE_HAS_SOMETHING, LETTER_HAS_COME };
#define EVENT(kind, index) ((uint64_t)(kind) << 32 | (uint32_t)(index))

static void note_lost_rank(weft_world *world, int rank)
{
    epoll_ctl(world->progress.epoll_fd, EPOLL_CTL_DEL, world->segments[rank]->fds.process, NULL);
    if (atomic_load(&world->boards[rank]->state) == WEFT__RANK_CLOSED)
        return; /* it closed its world before it ended */
    weft__log(WEFT_LOG_INFO, "rank %d has ended without closing its world", rank);
    atomic_store(&world->lost[rank], WEFT__LOST_ENDED);
    atomic_store(&world->progress.verdicts, 1);
}

/* May it stay in the seat? */
static bool may_stay(const weft__progress *p, uint64_t until)
{
    return atomic_load(&p->wanted) == 0 && weft__ticks() < until;
}

/* Be in the seat while something is due and nobody else wants it. True: something still is, it has to come back. */
static bool serve(weft_world *world)
{
    weft__progress *p = &world->progress;
    uint64_t until = weft__ticks() + (uint64_t)(SERVE_NS / p->ns_per_tick);
    weft__seat_set_asleep(world, WEFT__AWAKE);
    bool due;
    do {
        while (may_stay(p, until) && weft__seat_once(world))
            ;
        weft__watchdog_look(world);
        due = weft__seat_leave_unless_due(world);
    } while (due && may_stay(p, until));
    if (!due)
        return false;
    if (atomic_load(&p->wanted))
        weft__seat_expect_callers(p);
    atomic_store(&p->seat, 0);
    return true;
}

static void hear(weft_world *world)
{
    atomic_store(&world->progress.heard_ticks, weft__ticks());
    weft__segment_hear(world->own, WEFT__ENGINE_SLEEPS);
}

/* Time to look whether callers still return, which is all that was to be done. True: they do, or one is in the seat,
 * who decides when he leaves it. */
static bool callers_carry_on(weft_world *world)
{
    weft__progress *p = &world->progress;
    uint64_t expirations;
    ssize_t n = read(p->look_fd, &expirations, sizeof expirations);
    (void)n; /* it may have been armed anew, and has not expired: it will */
    atomic_store(&p->looks, false);
    bool seated = atomic_load(&p->seat);
    uint64_t away = weft__ticks() - atomic_load_explicit(&p->left_ticks, memory_order_relaxed);
    bool carry_on = seated || (double)away * p->ns_per_tick <= AWAY_NS;
    if (carry_on && !seated)
        weft__seat_have_engine_look(world);
    return carry_on;
}

static void *engine_main(void *argument)
{
    weft_world *world = argument;
    weft__progress *p = &world->progress;
    weft__log_rank(world->rank);
    bool populates = false; /* a piece of what the others have added to their heaps, between two turns */
    bool due = false;       /* something is, in the seat */
    while (!atomic_load(&p->stop)) {
        struct epoll_event events[16];
        int n = epoll_wait(p->epoll_fd, events, 16, populates || due ? 0 : weft__wires_sleep_ms(world, SLEEP_MS));
        bool carried = false, slept = n == 0 && !populates && !due;
        for (int i = 0; i < n; i++) {
            int index = (int)(uint32_t)events[i].data.u64;
            switch (events[i].data.u64 >> 32) {
            case ENGINE_BELL:
                hear(world);
                break;
            case ENGINE_LOOKS:
                carried = callers_carry_on(world);
                break;
            case RANK_ENDS:
                note_lost_rank(world, index);
                break;
            case WIRE_HAS_SOMETHING:
                weft__wire_heard(&world->backends[index], events[i].events);
                break;
            case LETTER_HAS_COME:
                weft__control_hear(world, index);
                break;
            }
        }
        if (carried && n == 1 && !due)
            continue;
        due = false;
        if (weft__seat_try(p)) {
            if (slept) {
                weft__seat_suspect(world, WEFT__ENGINE_SLEEPS);
                weft__wires_doubt(world);
            }
            due = serve(world);
        } else if (atomic_load(&p->verdicts)) {
            weft__segment_wake(world->own);
        }
        populates = weft__world_populate(world);
    }
    return NULL;
}

static weft_result watch_fd(int epoll_fd, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? WEFT_OK
                                                               : weft__fail_errno("cannot watch a descriptor");
}

weft_result weft__progress_watch(weft_world *world, int backend)
{
    return weft__wire_add(world, backend, EVENT(WIRE_HAS_SOMETHING, backend));
}

static void close_descriptors(const weft__progress *p)
{
    if (p->look_fd >= 0)
        close(p->look_fd);
    if (p->epoll_fd >= 0)
        close(p->epoll_fd);
}

static weft_result start_engine(weft_world *world)
{
    weft__progress *p = &world->progress;
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->look_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    weft_result result =
        p->epoll_fd < 0 || p->look_fd < 0 ? weft__fail_errno("cannot make a descriptor for the engine") : WEFT_OK;
    if (result == WEFT_OK)
        result = watch_fd(p->epoll_fd, world->own->fds.bells[WEFT__ENGINE_SLEEPS - 1], EPOLLIN, EVENT(ENGINE_BELL, 0));
    if (result == WEFT_OK)
        result = watch_fd(p->epoll_fd, p->look_fd, EPOLLIN, EVENT(ENGINE_LOOKS, 0));
    for (int r = 0; r < world->size && result == WEFT_OK; r++)
        if (r != world->rank && world->segments[r] && !world->config.team)
            result = watch_fd(p->epoll_fd, world->segments[r]->fds.process, EPOLLIN, EVENT(RANK_ENDS, r));
    for (int i = 0; i < world->backend_count && result == WEFT_OK; i++)
        result = weft__progress_watch(world, i);
    if (result == WEFT_OK)
        weft__control_watch(world, p->epoll_fd, EVENT(LETTER_HAS_COME, 0));
    /* Signals are the program's business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = result == WEFT_OK ? pthread_create(&p->engine, NULL, engine_main, world) : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        result = weft__fail(WEFT_E_SYSTEM, "cannot start a thread: %s", strerror(failed));
    if (result != WEFT_OK) {
        close_descriptors(p);
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
    weft__seat_wake_engine(world);
    pthread_join(p->engine, NULL);
    close_descriptors(p);
    p->has_engine = false;
    if (atomic_load(&p->lost_wakes))
        weft__log(WEFT_LOG_ERROR, "%llu of %llu sleeps missed their wake: please report it",
                  (unsigned long long)atomic_load(&p->lost_wakes), (unsigned long long)atomic_load(&p->sleeps));
}
