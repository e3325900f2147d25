/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of backends: what comes over a wire is heard at once, whoever is in the seat, and at whatever moment;
 * one that cannot be armed, or has hung up, costs no more than it must. The engine looks round once a second, so a
 * wake that is lost takes about that long: limits are below it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <weft/backend.h>

#include "base/clock.h"
#include "harness/ranks.h"
#include "seat.h"

enum { LIMIT_MS = 900 };

/* ------------------------------------------------------------------------------------------- the wire */

/* What a rank has in flight, in its order, all of one comm. It ends when somebody lets it go. */
typedef struct wire {
    int fd;
    weft_op *first, **end;
    _Atomic uint64_t taken, let_go, done; /* operations so far */
    _Atomic uint64_t let_go_ns, worst_ns; /* the last; longest until its end */
    _Atomic bool in_window;               /* let it go when the seat is being left */
    int in_time;                          /* the engine has then heard of it before the seat was free */
} wire;

static weft_result wire_query(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question;
    facts->caps = WEFT_CAP_COLLECTIVE;
    facts->score = WEFT_SCORE_NONE + 1; /* for comms that name it */
    return WEFT_OK;
}

static wire *make_wire(int fd)
{
    wire *w = calloc(1, sizeof *w);
    CHECK(w && fd >= 0);
    w->fd = fd;
    w->end = &w->first;
    return w;
}

static weft_result wire_open(weft_world *world, void **state_out)
{
    (void)world;
    *state_out = make_wire(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return WEFT_OK;
}

static void wire_close(void *state)
{
    close(((wire *)state)->fd);
    free(state);
}

/* A comm is its wire. */
static weft_result wire_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    (void)comm, (void)card;
    *comm_out = state;
    return WEFT_OK;
}

static weft_result wire_connect(void *comm, const unsigned char *cards)
{
    (void)comm, (void)cards;
    return WEFT_OK;
}

static weft_result wire_start(void *comm, weft_op *op)
{
    wire *w = comm;
    op->next = NULL;
    *w->end = op;
    w->end = &op->next;
    atomic_fetch_add(&w->taken, 1);
    return WEFT_OK;
}

static bool take_up(const wire *w)
{
    uint64_t count;
    ssize_t n = read(w->fd, &count, sizeof count);
    CHECK(n >= 0 || errno == EAGAIN);
    return n > 0;
}

static unsigned wire_progress(void *state, uint64_t slice_ticks)
{
    (void)slice_ticks;
    wire *w = state;
    unsigned answer = 0;
    (void)take_up(w);
    for (; w->first && atomic_load(&w->done) < atomic_load(&w->let_go); answer = WEFT_PROGRESS_MOVED) {
        weft_op *op = w->first;
        uint64_t took_ns = weft__now_ns() - atomic_load(&w->let_go_ns);
        if (took_ns > atomic_load(&w->worst_ns))
            atomic_store(&w->worst_ns, took_ns);
        w->first = op->next;
        w->end = w->first ? w->end : &w->first;
        weft_backend_done(op, WEFT_OK);
        atomic_fetch_add(&w->done, 1);
    }
    return answer | (w->first ? WEFT_PROGRESS_ATTENTION : 0);
}

static int wire_fd(void *state)
{
    return ((wire *)state)->fd;
}

static weft_result wire_arm(void *state)
{
    return take_up(state) ? WEFT_AGAIN : WEFT_OK; /* what is written after this is seen by poll() */
}

#define WIRE(its_name)                                                                                    \
    .abi_major = WEFT_BACKEND_ABI, .size = sizeof(weft_backend), .name = (its_name), .query = wire_query, \
    .close = wire_close, .comm_create = wire_create, .comm_connect = wire_connect, .start = wire_start,   \
    .progress = wire_progress, .fd = wire_fd

/* Let all go that was taken. */
static void let_go(wire *w)
{
    atomic_store(&w->let_go_ns, weft__now_ns());
    atomic_store(&w->let_go, atomic_load(&w->taken));
    CHECK(write(w->fd, &(uint64_t){1}, 8) == 8);
}

static weft__backend_instance *instance_of(const weft_world *world, const char *name)
{
    for (int i = 0; i < world->backend_count; i++)
        if (strcmp(world->backends[i].table->name, name) == 0)
            return &world->backends[i];
    return NULL;
}

static void yield_us(uint64_t us)
{
    uint64_t end = weft__now_ns() + us * 1000;
    while (weft__now_ns() < end)
        sched_yield();
}

/* The narrowest moment: the seat is still taken, all is armed and watched, and nobody will look again. The engine has
 * the time to hear of the wire, to find the seat taken, and to go back to sleep. */
void __real_weft__wires_watch(weft_world *world);
void __wrap_weft__wires_watch(weft_world *world);
void __wrap_weft__wires_watch(weft_world *world)
{
    weft__backend_instance *instance = instance_of(world, "wire");
    wire *w = instance ? instance->state : NULL;
    __real_weft__wires_watch(world);
    if (!w || atomic_load(&w->taken) == atomic_load(&w->let_go) || !atomic_exchange(&w->in_window, false))
        return;
    let_go(w);
    if (pthread_equal(pthread_self(), world->progress.engine))
        return;
    for (int n = 0; n < 100 && atomic_load(&instance->wire.armed); n++)
        yield_us(50);
    yield_us(100);
    w->in_time += !atomic_load(&instance->wire.armed);
}

/* ------------------------------------------------------------------------------------------- every moment */

/* A thread that lets go when it is asked to, some time later. */
typedef struct writer {
    wire *wire;
    pthread_t thread;
    _Atomic int asked_us; /* -1: nothing; -2: end */
} writer;

static void *write_when_asked(void *argument)
{
    writer *w = argument;
    for (int us; (us = atomic_load(&w->asked_us)) != -2; sched_yield())
        if (us >= 0) {
            yield_us((uint64_t)us);
            let_go(w->wire);
            atomic_store(&w->asked_us, -1);
        }
    return NULL;
}

static uint32_t random_below(uint32_t *state, uint32_t limit)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * limit >> 32);
}

/* What a caller does while it waits: it looks at memory only, so that others must hear of the wire; or it asks; or it
 * sleeps in the call. */
typedef enum manner { LOOKS, ASKS, FINISHES, MANNERS } manner;

static void wait_for(const wire *w, uint64_t all, weft_work work, manner how)
{
    for (int n = 0; how == ASKS && n < 20; n++)
        if (weft_work_test(work) != WEFT_PENDING)
            break;
    while (how != FINISHES && atomic_load(&w->done) < all)
        sched_yield();
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
}

static void one_round(weft_world *world, weft_comm *comm, wire *w, writer *by, uint32_t *state)
{
    weft_work work;
    manner how = (manner)random_below(state, MANNERS);
    uint64_t all = atomic_load(&w->done) + 1;
    bool in_window = how != FINISHES && random_below(state, 2);
    if (!in_window)
        weft__seat_wake_engine(world); /* its second begins anew; else the wire does that */
    yield_us(random_below(state, 100));
    atomic_store(&w->in_window, in_window);
    CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
    if (!in_window) {
        while (atomic_load(&w->taken) < all)
            sched_yield();
        atomic_store(&by->asked_us, (int)random_below(state, random_below(state, 4) ? 200 : 2000));
    }
    wait_for(w, all, work, how);
    while (atomic_load(&by->asked_us) >= 0)
        sched_yield();
}

static weft_comm *comm_over(weft_world *world, const char *backend)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = backend;
    return all_ranks(world, "wire", &config);
}

static void at_every_moment(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, "wire");
    wire *w = instance_of(world, "wire")->state;
    writer by = {.wire = w, .asked_us = -1};
    CHECK(pthread_create(&by.thread, NULL, write_when_asked, &by) == 0);
    uint32_t state = (uint32_t)weft_world_rank(world) + 1;
    uint64_t end = weft__now_ns() + 1000000000u;
    while (weft__now_ns() < end)
        one_round(world, comm, w, &by, &state);
    atomic_store(&by.asked_us, -2);
    pthread_join(by.thread, NULL);
    double worst_ms = (double)atomic_load(&w->worst_ns) / 1e6;
    test_note("%llu operations, %d at the narrowest moment; the last %.2f ms after its write",
              (unsigned long long)atomic_load(&w->done), w->in_time, worst_ms);
    CHECK_MSG(worst_ms < LIMIT_MS || test_is_slow(), "a wire was heard of %.0f ms late", worst_ms);
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

TEST(a_wire_is_heard_of_at_every_moment)
{
    CHECK_OK(weft_backend_register(&(weft_backend){WIRE("wire"), .open = wire_open, .arm = wire_arm}));
    ranks_both_ways(2, at_every_moment, NULL);
}

/* ------------------------------------------------------------------------------------------- odd descriptors */

static double cpu_ms(void)
{
    struct rusage r;
    CHECK(getrusage(RUSAGE_SELF, &r) == 0);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e3;
}

/* Nothing is in flight: no thread of this process has anything to do. */
static void expect_quiet(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    double before = cpu_ms();
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    double used = cpu_ms() - before;
    CHECK_MSG(used < 100, "%.0f of 400 ms were computed for nothing", used);
}

static void without_arm(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, "unarmed");
    wire *w = instance_of(world, "unarmed")->state;
    for (int how = 0; how < MANNERS; how++) {
        weft_work work;
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work)); /* which comes back */
        CHECK_RESULT(weft_work_test(work), WEFT_PENDING);
        while (atomic_load(&w->taken) == (uint64_t)how)
            sched_yield();
        let_go(w);
        wait_for(w, (uint64_t)how + 1, work, (manner)how);
    }
    expect_quiet();
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

TEST(a_descriptor_that_cannot_be_armed_is_polled_while_something_is_in_flight)
{
    CHECK_OK(weft_backend_register(&(weft_backend){WIRE("unarmed"), .open = wire_open}));
    ranks_as_processes(2, NULL, without_arm, NULL);
}

/* The end of a pipe whose other end is closed. */
static weft_result open_hung_up(weft_world *world, void **state_out)
{
    (void)world;
    int fds[2];
    CHECK(pipe(fds) == 0);
    close(fds[1]);
    *state_out = make_wire(fds[0]);
    return WEFT_OK;
}

/* While nothing comes nobody computes; what then comes, the descriptor does not tell. */
static void *look_and_let_go(void *argument)
{
    const writer *by = argument;
    expect_quiet();
    atomic_store(&by->wire->let_go_ns, weft__now_ns());
    atomic_store(&by->wire->let_go, atomic_load(&by->wire->taken));
    return NULL;
}

static void hung_up(weft_world *world, void *argument)
{
    (void)argument;
    expect_quiet();
    weft_comm *comm = all_ranks(world, "by memory", NULL); /* its operations arm all wires, too */
    for (int i = 0; i < 100; i++)
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    expect_quiet();
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

static void hung_up_in_flight(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, "hung");
    wire *w = instance_of(world, "hung")->state;
    for (int how = 0; how < MANNERS; how++) {
        weft_work work;
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        CHECK_RESULT(weft_work_test(work), WEFT_PENDING);
        writer by = {.wire = w, .asked_us = -1};
        CHECK(pthread_create(&by.thread, NULL, look_and_let_go, &by) == 0);
        while (how != FINISHES && atomic_load(&w->done) < (uint64_t)how + 1)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        wait_for(w, (uint64_t)how + 1, work, (manner)how);
        pthread_join(by.thread, NULL);
        double worst_ms = (double)atomic_load(&w->worst_ns) / 1e6;
        CHECK_MSG(worst_ms < LIMIT_MS || test_is_slow(), "it was looked at %.0f ms late", worst_ms);
    }
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

/* Its descriptor says nothing any more but that it has hung up, and that all the time. */
TEST(a_descriptor_that_has_hung_up_is_looked_at_by_time_while_something_is_in_flight)
{
    CHECK_OK(weft_backend_register(&(weft_backend){WIRE("hung"), .open = open_hung_up, .arm = wire_arm}));
    ranks_as_processes(2, NULL, hung_up_in_flight, NULL);
}

TEST(a_descriptor_that_has_hung_up_is_told_of_once)
{
    CHECK_OK(weft_backend_register(&(weft_backend){WIRE("gone"), .open = open_hung_up, .arm = wire_arm}));
    ranks_as_processes(2, NULL, hung_up, NULL);
}

/* ------------------------------------------------------------------------------------------- never at rest */

/* A backend that has always moved something, whether others may wait for this rank or not. */
static _Atomic unsigned restless_answer;

static weft_result restless_open(weft_world *world, void **state_out)
{
    *state_out = world;
    return WEFT_OK;
}

static unsigned restless_progress(void *state, uint64_t slice_ticks)
{
    (void)state, (void)slice_ticks;
    return atomic_load(&restless_answer);
}

static void register_restless(unsigned answer)
{
    static const weft_backend restless = {.abi_major = WEFT_BACKEND_ABI,
                                          .size = sizeof(weft_backend),
                                          .name = "restless",
                                          .open = restless_open,
                                          .progress = restless_progress};
    atomic_store(&restless_answer, answer);
    if (!weft__backend_is_known("restless"))
        CHECK_OK(weft_backend_register(&restless));
}

static void goes_on_beside(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "beside", NULL);
    weft_work work;
    for (int i = 0; i < 200; i++)
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        yield_us(100);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    }
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

TEST(a_backend_that_is_never_at_rest_keeps_nobody_in_the_seat)
{
    static const unsigned answers[] = {WEFT_PROGRESS_MOVED, WEFT_PROGRESS_MOVED | WEFT_PROGRESS_ATTENTION};
    for (int i = 0; i < 2; i++) {
        register_restless(answers[i]);
        ranks_both_ways(2, goes_on_beside, NULL);
    }
}

/* The engine is in the seat, where there is always something to do; and the callers make no call of weft. */
static void engine_hears_beside(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "beside", NULL);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 1)
        raise(SIGKILL);
    uint64_t limit = weft__now_ns() + 10000000000u;
    while (!atomic_load(&world->lost[1])) {
        CHECK_MSG(weft__now_ns() < limit, "the engine does not hear that rank 1 has ended");
        sched_yield();
    }
    while (weft_comm_error(comm, NULL, 0) == WEFT_OK)
        sched_yield();
    weft_comm_destroy(comm);
}

TEST(the_engine_hears_of_lost_ranks_whatever_there_is_to_do)
{
    quiet();
    register_restless(WEFT_PROGRESS_MOVED | WEFT_PROGRESS_ATTENTION);
    rank_group group = ranks_start(2, NULL, engine_hears_beside, NULL);
    ranks_expect_passed(&group, 0);
    ranks_wait(&group, 1);
}
