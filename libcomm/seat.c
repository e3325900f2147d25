/* SPDX-License-Identifier: Apache-2.0 */
/* The seat: what its holder does there, and how it leaves so that no wake is lost. */
#include "seat.h"

#include <poll.h>
#include <sys/timerfd.h>

#include "base/futex.h"
#include "start.h"
#include "watchdog.h"

#define SUSPECT_MS      50  /* a ring may be this late before its wake counts as lost */
#define VERDICT_ROUNDS  64  /* slices that a failure may wait for others to end */
#define ROUNDS_OF_WATCH 256 /* between two looks at deadlines while there is always something to do */
#define PRESENCES       3   /* callers that have returned are expected to so often again */
#define LOOK_US         800 /* until the engine looks, unless a caller puts it off */
#define PUT_OFF_US      400 /* at most as often */
#define ROUNDS_TO_LEAVE 8   /* what each moves may be due to the one before; then whoever leaves has done enough */

/* ------------------------------------------------------------------------------------------- works */

static weft__work *work_of(weft_op *op)
{
    return (weft__work *)((char *)op - offsetof(weft__work, op));
}

void weft__progress_done(weft_op *op, weft_result result)
{
    if (__atomic_load_n(&op->waited, __ATOMIC_RELAXED) == WEFT__PART_OF_ANOTHER) {
        op->last = op->last ? op->last : weft__ticks();
        op->result = (int32_t)result;
        return;
    }
    weft__work *work = work_of(op);
    if (atomic_load_explicit(&work->taken_up, memory_order_relaxed))
        atomic_store_explicit(&work->taken_up, false, memory_order_relaxed); /* its next life begins elsewhere */
    if (!op->last)
        op->last = weft__ticks();
    if (__atomic_load_n(&op->waited, __ATOMIC_RELAXED) == WEFT__WAITED_FOR_IN_SEAT) {
        __atomic_store_n(&op->result, (int32_t)result, __ATOMIC_RELEASE);
        return;
    }
    uint64_t life = weft__work_life(work);
    __atomic_store_n(&op->result, (int32_t)result, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&op->waited, __ATOMIC_SEQ_CST)) /* if the slot lives again already, one wakes for nothing */
        weft__futex_wake_all((_Atomic uint32_t *)&op->result);
    if (atomic_load(&work->left) == life)
        weft__work_end_left(work, life);
}

/* Hand a work to its backend. False: it must wait. */
static bool try_to_begin(weft__work *work)
{
    weft_comm *comm = work->comm;
    weft_result verdict = (weft_result)atomic_load_explicit(&comm->verdict, memory_order_acquire);
    if (verdict != WEFT_OK)
        weft__start_forget_before(work);
    else if (!weft__start_look_before(work, &verdict))
        return false;
    if (verdict != WEFT_OK) {
        weft__progress_done(&work->op, verdict);
        return true;
    }
    weft_result result = weft__start_in_backend(work);
    if (result < 0)
        weft__progress_done(&work->op, result);
    return result != WEFT_AGAIN;
}

/* The same; only what must be done at once is counted among those that are queued. */
static bool begin(weft__work *work)
{
    weft_comm *comm = work->comm;
    bool immediate = comm->facts.caps & WEFT_CAP_IMMEDIATE;
    if (!try_to_begin(work))
        return false;
    if (immediate)
        atomic_fetch_sub(&comm->queued, 1);
    return true;
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

void weft__seat_take_up(weft_world *world, weft__work *work)
{
    atomic_store_explicit(&work->taken_up, true, memory_order_relaxed);
    if (work->comm->held || !begin(work))
        hold(world, work);
}

bool weft__seat_take_fresh(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (!atomic_load(&p->fresh))
        return false;
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
        weft__seat_take_up(world, work);
    }
    return true;
}

void weft__seat_drop_held(weft_comm *comm)
{
    weft_world *world = comm->world;
    for (weft__work *work = comm->held; work; work = work->next)
        weft__start_forget_before(work);
    comm->held = NULL;
    for (weft_comm **link = &world->progress.held; *link; link = &(*link)->next_held)
        if (*link == comm) {
            *link = comm->next_held;
            break;
        }
    /* Works of other comms that were to run after one of this comm, even those with others before them. */
    for (weft_comm *other = world->progress.held; other; other = other->next_held)
        for (weft__work *work = other->held; work; work = work->next)
            if (work->after && work->after->slots == comm->slots)
                (void)weft__start_look_before(work, &(weft_result){WEFT_OK});
}

/* ------------------------------------------------------------------------------------------- in the seat */

bool weft__seat_once(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (atomic_load_explicit(&p->verdicts, memory_order_relaxed))
        weft__wires_stir(world);
    bool moved = weft__seat_take_fresh(world);
    unsigned answer = p->held ? begin_held(world) : 0;
    for (int i = 0; i < world->backend_count; i++)
        answer |= weft__wire_progress(&world->backends[i], p->slice_ticks);
    moved |= (answer & WEFT_PROGRESS_MOVED) != 0;
    p->attention = p->held || answer & WEFT_PROGRESS_ATTENTION;
    p->due = p->attention && (p->due || moved);
    if (++p->rounds % ROUNDS_OF_WATCH == 0)
        weft__watchdog_look(world);
    if (!atomic_load_explicit(&p->verdicts, memory_order_relaxed))
        return moved;
    /* What a rank did before it was lost still counts, so failures wait until nothing moves, on wires either, or for a
     * while. */
    if (!moved || ++p->verdict_rounds > VERDICT_ROUNDS) {
        p->verdict_rounds = 0;
        atomic_store(&p->verdicts, 0);
        weft__watchdog_carry_out(world);
    }
    return true;
}

void weft__seat_set_asleep(weft_world *world, uint32_t who)
{
    if (world->own && atomic_load(&world->own->header->asleep) != who)
        atomic_store(&world->own->header->asleep, who);
}

/* ------------------------------------------------------------------------------------------- leaving it */

/* Must somebody look when a peer has published something? Others may come to wait for this rank, or a caller of its own
 * sleeps on a work and counts on whoever is in the seat. */
static bool is_needed(const weft__progress *p)
{
    return p->attention || atomic_load(&p->sleepers) > 0;
}

/* The seat was given up just now, the bell armed or not: is there something that nobody looks at? A new work, a verdict
 * or a sleeper found the seat taken. And who was woken by the armed bell did too, and may have gone back to sleep. */
static bool is_left_alone(const weft_world *world, bool armed)
{
    const weft__progress *p = &world->progress;
    if (atomic_load(&p->fresh) || atomic_load(&p->verdicts))
        return true;
    if (armed && !weft__wires_guarded(world)) /* the engine heard of one while the seat was taken, and sleeps again */
        return true;
    return armed ? atomic_load(&world->own->header->asleep) == WEFT__AWAKE : atomic_load(&p->sleepers) > 0;
}

bool weft__seat_leave_unless_due(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (p->attention && weft__seat_once(world) && p->attention) /* not armed, or peers would ring in between */
        return true;
    for (int round = 0; round < ROUNDS_TO_LEAVE; round++) {
        bool armed = is_needed(p) && world->own;
        weft__seat_set_asleep(world, armed ? WEFT__ENGINE_SLEEPS : WEFT__AWAKE);
        bool moved = weft__seat_once(world);
        if (moved && p->attention) {
            weft__seat_set_asleep(world, WEFT__AWAKE);
            return true;
        }
        if (moved || (is_needed(p) && world->own) != armed)
            continue;
        if (armed && !weft__wires_arm(world)) { /* a wire has something at once, or cannot be armed */
            weft__seat_set_asleep(world, WEFT__AWAKE);
            return true;
        }
        if (armed)
            weft__wires_watch(world);
        atomic_store(&p->seat, 0);
        if (!is_left_alone(world, armed) || !weft__seat_try(p))
            return false;
    }
    weft__seat_set_asleep(world, WEFT__AWAKE);
    return true;
}

void weft__seat_leave_as_found(weft_world *world)
{
    weft__progress *p = &world->progress;
    if (++p->rounds % ROUNDS_OF_WATCH == 0)
        weft__watchdog_look(world);
    if (!is_needed(p)) { /* so nobody was when it was taken, and the bell is not armed */
        atomic_store(&p->seat, 0);
        if (!is_left_alone(world, false) || !weft__seat_try(p))
            return;
    }
    weft__seat_leave(world, 0);
}

void weft__seat_expect_callers(weft__progress *p)
{
    p->presences = PRESENCES;
    p->callers_return = true;
}

/* Was it away for less time than it was here? Once it may have lost its core. */
static void note_return(weft__progress *p, uint64_t came)
{
    uint64_t now = weft__ticks();
    if (came) {
        bool is_back = came - atomic_load_explicit(&p->left_ticks, memory_order_relaxed) < now - came;
        if (is_back)
            weft__seat_expect_callers(p);
        else if (p->presences > 0)
            p->callers_return = --p->presences > 0;
    }
    atomic_store_explicit(&p->left_ticks, now, memory_order_relaxed);
}

void weft__seat_leave(weft_world *world, uint64_t came)
{
    weft__progress *p = &world->progress;
    bool due = (p->due && p->callers_return) || weft__seat_leave_unless_due(world), returns = false;
    if (due) {
        note_return(p, came);
        p->due = false;
        returns = p->callers_return;
        atomic_store(&p->seat, 0);
    }
    bool at_once = atomic_load(&p->sleepers) || (due && (atomic_load(&p->fresh) || atomic_load(&p->verdicts)));
    if (at_once || (due && !returns))
        weft__seat_wake_engine(world);
    else if (due)
        weft__seat_have_engine_look(world);
}

void weft__seat_wake_engine(weft_world *world)
{
    if (world->progress.has_engine)
        weft__segment_ring(world->own, WEFT__ENGINE_SLEEPS);
}

/* Who leaves has given the seat up before it finds that the engine will look, and the engine looks at the seat after it
 * has said that it will not any more. To put a look off costs 3 us, and a look the core for 20. */
void weft__seat_have_engine_look(weft_world *world)
{
    weft__progress *p = &world->progress;
    uint64_t now = weft__ticks(), since = now - atomic_load_explicit(&p->look_ticks, memory_order_relaxed);
    if (!p->has_engine || (atomic_load(&p->looks) && (double)since * p->ns_per_tick < PUT_OFF_US * 1e3))
        return;
    atomic_store_explicit(&p->look_ticks, now, memory_order_relaxed);
    atomic_store(&p->looks, true);
    struct itimerspec once = {.it_value.tv_nsec = LOOK_US * 1000};
    if (timerfd_settime(p->look_fd, 0, &once, NULL) != 0) {
        atomic_store(&p->looks, false);
        weft__seat_wake_engine(world);
    }
}

/* ------------------------------------------------------------------------------------------- lost wakes */

/* The engine takes up a ring before it finds the seat taken. */
static bool engine_has_just_heard(const weft__progress *p)
{
    uint64_t ago = weft__ticks() - atomic_load(&p->heard_ticks);
    return (double)ago * p->ns_per_tick < SUSPECT_MS * 1e6;
}

void weft__seat_suspect(weft_world *world, uint32_t who)
{
    const _Atomic uint32_t *asleep = &world->own->header->asleep;
    uint32_t was = atomic_load(asleep);
    bool counted_on_a_ring = was == who || (was == WEFT__AWAKE && is_needed(&world->progress));
    if (!counted_on_a_ring)
        return;
    weft__watchdog_look(world);
    if (atomic_load(&world->progress.verdicts)) /* a deadline has passed: no peer had to ring for that */
        return;
    if (!weft__seat_once(world) || atomic_load(asleep) != was)
        return;
    struct pollfd bell = {.fd = world->own->fds.bells[who - 1], .events = POLLIN};
    if (poll(&bell, 1, SUSPECT_MS) == 0 && atomic_load(asleep) == was && !engine_has_just_heard(&world->progress))
        atomic_fetch_add(&world->progress.lost_wakes, 1);
}
