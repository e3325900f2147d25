/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective between machines gives the bits that its definition gives: over the ranks of a machine in their
 * order, then over machines. */
#include <stdatomic.h>

#include "../trial.h"
#include "host.h"

/* ------------------------------------------------------------------------------------------- many */

enum { AT_ONCE = 5 };

/* Trials that go on at once. */
typedef struct flight {
    weft_world *world;
    weft_comm *comm;
    shape shape;
    trial trials[AT_ONCE];
    memory memories[AT_ONCE];
    weft_work works[AT_ONCE];
    int count;
} flight;

static void land(flight *f)
{
    for (int i = f->count; i-- > 0;) {
        CHECK_OK(weft_work_finish(f->works[i], WEFT_STREAM_HOST));
        trial_check(&f->trials[i], &f->memories[i], weft_comm_rank(f->comm), f->shape);
        trial_release(f->world, &f->trials[i], &f->memories[i]);
    }
    f->count = 0;
}

static void try_one(flight *f, trial t)
{
    int i = f->count++;
    f->trials[i] = t;
    f->memories[i] = trial_place(f->world, &t, weft_comm_rank(f->comm), weft_comm_size(f->comm));
    weft_collective c = trial_collective(&t, &f->memories[i]);
    CHECK_OK(weft_collective_start(f->comm, &c, WEFT_STREAM_HOST, &f->works[i]));
    if (f->count == AT_ONCE)
        land(f);
}

/* Every type with every collective and reduction; counts, roots, places and memories in turn. */
static void all_kinds(weft_world *world, void *argument)
{
    shape s = *(const shape *)argument;
    int ranks = weft_world_size(world);
    const size_t counts[] = {0, 1, 7, 16, 4097, test_is_slow() ? 20011 : ranks > 4 ? 33333 : 100003};
    int turn = s.machines * 7 + s.per_machine;
    flight f = {.world = world, .comm = comm_of(world, "all", NULL, 0, "host"), .shape = s};
    for (int kind = 0; kind < WEFT_COLLECTIVE_KINDS; kind++)
        for (int dtype = 0; dtype < WEFT_DTYPES; dtype++)
            for (int reduction = 0; reduction < WEFT_REDUCTIONS; reduction++, turn += 5) {
                trial t = {.kind = kind, .dtype = dtype, .reduction = reduction, .root = turn % ranks};
                for (int n = 0; n < (test_is_slow() || ranks > 4 ? 1 : 2) && trial_makes_sense(&t); n++, turn++) {
                    t.count = counts[(turn + turn / 6) % 6];
                    t.in_place = turn / 2 % 2;
                    t.in_heap = turn % 3 != 0;
                    try_one(&f, t);
                }
            }
    for (int kind = 0; kind < WEFT_COLLECTIVE_KINDS; kind++)
        for (int n = 0; n < 4; n++)
            try_one(&f, (trial){.kind = kind,
                                .dtype = n % 2 ? WEFT_BF16 : WEFT_FP32,
                                .count = counts[5 - (size_t)n / 2],
                                .root = ranks - 1 - n,
                                .in_place = n / 2,
                                .in_heap = n != 1});
    land(&f);
    weft_comm_destroy(f.comm);
}

TEST(two_machines_of_two)
{
    run_on((shape){2, 2}, all_kinds, &(shape){2, 2});
}
TEST(two_machines_of_three)
{
    run_on((shape){2, 3}, all_kinds, &(shape){2, 3});
}
TEST(three_machines_of_two)
{
    run_on((shape){3, 2}, all_kinds, &(shape){3, 2});
}
TEST(two_machines_of_four)
{
    run_on((shape){2, 4}, all_kinds, &(shape){2, 4});
}
TEST(four_machines_of_two)
{
    run_on((shape){4, 2}, all_kinds, &(shape){4, 2});
}

static void large(weft_world *world, void *argument)
{
    shape s = *(const shape *)argument;
    size_t count = test_is_slow() ? 300007 : 1048577;
    flight f = {.world = world, .comm = comm_of(world, "all", NULL, 0, "host"), .shape = s};
    for (int kind = 0; kind < WEFT_BARRIER; kind++)
        for (int n = 0; n < 2; n++)
            try_one(&f, (trial){.kind = kind,
                                .dtype = n ? WEFT_BF16 : WEFT_FP32,
                                .reduction = kind == WEFT_REDUCE ? WEFT_AVERAGE : WEFT_SUM,
                                .count = count,
                                .root = 1,
                                .in_place = n == kind % 2,
                                .in_heap = n != 0});
    land(&f);
    weft_comm_destroy(f.comm);
}

TEST(large_ones_are_cut_into_many_cells)
{
    run_on((shape){2, 2}, large, &(shape){2, 2});
}

/* ------------------------------------------------------------------------------------------- by hand */

static uint16_t bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void sums_by_hand(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_of(world, "all", NULL, 0, "host");
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    static uint16_t in[3000], out[3000];
    for (int i = 0; i < 3000; i++)
        in[i] = bf16(rank == i % ranks ? 256.0f : 1.0f);
    for (size_t count = 1; count <= 3000; count += 2999) {
        CHECK_OK(weft_all_reduce_run(comm, in, out, count, WEFT_BF16, WEFT_SUM, WEFT_STREAM_HOST));
        for (size_t i = 0; i < count; i++)
            CHECK_INT(out[i], bf16(256.0f + (float)(ranks - 1) - (float)((ranks - 1) % 2))); /* ties to even */
    }
    for (int i = 0; i < 3000; i++)
        in[i] = bf16(1.0f);
    CHECK_OK(weft_all_reduce_run(comm, in, in, 3000, WEFT_BF16, WEFT_AVERAGE, WEFT_STREAM_HOST));
    for (int i = 0; i < 3000; i++)
        CHECK_INT(in[i], bf16(1.0f));
    static uint16_t large[500];
    for (int i = 0; i < 500; i++)
        large[i] = 0x7b53; /* 60000 */
    CHECK_OK(weft_all_reduce_run(comm, large, large, 500, WEFT_FP16, WEFT_AVERAGE, WEFT_STREAM_HOST));
    for (int i = 0; i < 500; i++)
        CHECK_INT(large[i], 0x7b53);
    float nan[2] = {rank == ranks - 1 ? NAN : 1.0f, (float)rank};
    CHECK_OK(weft_all_reduce_run(comm, nan, nan, 2, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST));
    CHECK(isnan(nan[0]) && nan[1] == (float)(ranks - 1));
    weft_comm_destroy(comm);
}

/* 256 + 7 ones are 263, which bf16 rounds to 264; added one by one in bf16 they would stay 256. */
static void eight_by_hand(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_of(world, "all", NULL, 0, "host");
    uint16_t value = bf16(weft_comm_rank(comm) == 0 ? 256.0f : 1.0f);
    CHECK_OK(weft_all_reduce_run(comm, &value, &value, 1, WEFT_BF16, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(value, bf16(264.0f));
    weft_comm_destroy(comm);
}

TEST(sums_of_16_bits_are_rounded_once)
{
    run_on((shape){2, 4}, eight_by_hand, NULL);
}
TEST(averages_and_nan_on_six_ranks)
{
    run_on((shape){3, 2}, sums_by_hand, NULL);
}

/* ------------------------------------------------------------------------------------------- order */

/* Roots, collectives and sizes that make cells of one operation overtake those of others wherever they may. */
static void mixed(weft_world *world, void *argument)
{
    shape s = *(const shape *)argument;
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    weft_comm *comms[2] = {comm_of(world, "one", NULL, 0, "host"), comm_of(world, "two", NULL, 0, "host")};
    flight f[2] = {{.world = world, .comm = comms[0], .shape = s}, {.world = world, .comm = comms[1], .shape = s}};
    uint32_t x = 1;
    for (int n = 0; n < (test_is_slow() ? 60 : 300); n++) {
        x = x * 1664525u + 1013904223u;
        size_t count = x >> 30 ? (x >> 8) % 500 : (x >> 8) % 70000;
        trial t = {.kind = (weft_collective_kind)((x >> 24) % WEFT_COLLECTIVE_KINDS),
                   .dtype = x >> 29 & 1 ? WEFT_FP32 : WEFT_BF16,
                   .count = count,
                   .root = (int)(x >> 16) % ranks,
                   .in_place = x >> 28 & 1,
                   .in_heap = true};
        if (n % 50 == rank)
            pause_ms(2);
        try_one(&f[n / 3 % 2], t);
    }
    land(&f[0]);
    land(&f[1]);
    weft_comm_destroy(comms[0]);
    weft_comm_destroy(comms[1]);
}

TEST(operations_of_two_comms_go_on_at_once)
{
    run_on((shape){3, 2}, mixed, &(shape){3, 2});
}

/* An operation runs after one of another comm, whose result it takes along. */
static void chained(weft_world *world, void *argument)
{
    (void)argument;
    enum { COUNT = 50000 };
    weft_comm *one = comm_of(world, "one", NULL, 0, "host"), *two = comm_of(world, "two", NULL, 0, "host");
    int ranks = weft_world_size(world);
    float *buffer = malloc(COUNT * sizeof *buffer);
    for (int n = 0; n < 10; n++) {
        weft_work first, second;
        for (int i = 0; i < COUNT; i++)
            buffer[i] = 1;
        CHECK_OK(weft_all_reduce_start(one, buffer, buffer, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &first));
        weft_collective c = WEFT_COLLECTIVE_INIT;
        c.kind = WEFT_ALL_REDUCE;
        c.dtype = WEFT_FP32;
        c.send = c.recv = buffer;
        c.count = COUNT;
        c.after = first;
        CHECK_OK(weft_collective_start(two, &c, WEFT_STREAM_HOST, &second));
        CHECK_OK(weft_work_finish(second, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
        for (int i = 0; i < COUNT; i++)
            CHECK(buffer[i] == (float)(ranks * ranks));
    }
    free(buffer);
    weft_comm_destroy(one);
    weft_comm_destroy(two);
}

TEST(an_operation_runs_after_one_of_another_comm)
{
    run_on((shape){2, 2}, chained, NULL);
}

/* A rank that started an operation makes no further call until all others have their results, which it takes part
 * in. */
static void computes(weft_world *world, void *argument)
{
    (void)argument;
    enum { COUNT = 200000 };
    weft_comm *comm = comm_of(world, "all", NULL, 0, "host");
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    for (int who = 0; who < ranks; who++) {
        weft_work work;
        CHECK_OK(weft_all_reduce_start(comm, in, out, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        while (who == rank && atomic_load(stage_counter()) < (who + 1) * (ranks - 1))
            pause_ms(1);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        if (who != rank)
            atomic_fetch_add(stage_counter(), 1);
        for (int i = 0; i < COUNT; i++)
            CHECK(out[i] == (float)ranks);
    }
    free(in);
    free(out);
    weft_comm_destroy(comm);
}

TEST(operations_go_on_while_their_callers_compute)
{
    run_on((shape){2, 2}, computes, NULL);
}

/* ------------------------------------------------------------------------------------------- who gets what */

static void backends_of_groups(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    static const struct {
        const char *name, *backend;
        int count, ranks[6];
    } groups[] = {
        {"one machine", "local", 3, {0, 1, 2}},       {"the other", "local", 2, {3, 5}},
        {"one a machine", "testwire", 2, {1, 4}},     {"uneven", "testwire", 3, {0, 1, 4}},
        {"in turns", "testwire", 4, {0, 3, 1, 4}},    {"even", "host", 4, {0, 2, 3, 5}},
        {"backwards", "host", 6, {5, 4, 3, 2, 1, 0}},
    };
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        bool is_member = false;
        for (int i = 0; i < groups[g].count; i++)
            is_member |= groups[g].ranks[i] == rank;
        if (!is_member)
            continue;
        weft_comm *comm = comm_of(world, groups[g].name, groups[g].ranks, groups[g].count, groups[g].backend);
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        weft_comm_destroy(comm);
    }
}

TEST(groups_get_the_backend_of_their_machines)
{
    run_on((shape){2, 3}, backends_of_groups, NULL);
}
