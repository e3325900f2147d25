/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective between hosts gives the bits that its definition gives: over the ranks in their order, as if they
 * were on one machine. */
#include <stdlib.h>
#include <weft/composed.h>

#include "../trial.h"
#include "harness/ranks.h"
#include "net.h"

/* ------------------------------------------------------------------------------------------- all of them */

static void try_one(weft_world *world, weft_comm *comm, const trial *t)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    memory m = trial_place(world, t, rank, ranks);
    weft_collective c = trial_collective(t, &m);
    CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
    trial_check(t, &m, rank, (shape){1, ranks});
    trial_release(world, t, &m);
}

/* Pairwise: every type with every collective and reduction, counts and places in turn. */
static void all_kinds(weft_world *world, void *argument)
{
    (void)argument;
    static const size_t counts[] = {0, 1, 7, 4097, 300001};
    int ranks = weft_world_size(world), turn = 0;
    weft_comm *comm = comm_over(world, carrier(), "by wire");
    CHECK_STR(weft_comm_backend(comm), ranks > 1 ? carrier() : "self");
    for (int kind = 0; kind < WEFT_COLLECTIVE_KINDS; kind++)
        for (int dtype = 0; dtype < WEFT_DTYPES; dtype++)
            for (int reduction = 0; reduction < WEFT_REDUCTIONS; reduction++)
                for (int n = 0; n < 2; n++, turn++) {
                    size_t count = counts[(turn + turn / 5) % 5];
                    trial t = {.kind = kind,
                               .dtype = dtype,
                               .reduction = reduction,
                               .count = count,
                               .root = turn % ranks,
                               .in_place = turn / 3 % 2};
                    if (trial_makes_sense(&t) && (turn + ranks) % (test_is_slow() ? 24 : 8) == 0)
                        try_one(world, comm, &t);
                }
    for (int kind = 0; kind < WEFT_COLLECTIVE_KINDS; kind++)
        for (int n = 0; n < 10; n++) {
            trial t = {.kind = kind, .dtype = WEFT_FP32, .count = counts[n / 2], .root = ranks - 1, .in_place = n % 2};
            try_one(world, comm, &t);
        }
    weft_comm_destroy(comm);
}

TEST(every_collective_gives_the_bits_of_its_definition_on_any_number_of_ranks)
{
    need_carrier();
    for (int ranks = 1; ranks <= 5; ranks++)
        ranks_as_processes(ranks, NULL, all_kinds, NULL);
}

TEST(threads_are_ranks_too)
{
    need_carrier();
    ranks_as_threads(3, NULL, all_kinds, NULL);
}

/* ------------------------------------------------------------------------------------------- in flight */

/* More than the stash and the stages hold, several at a time, on two comms. */
static void many_at_once(weft_world *world, void *argument)
{
    (void)argument;
    enum { WORKS = 6, COUNT = 700001 };
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    weft_comm *comms[2] = {comm_over(world, carrier(), "one"), comm_over(world, carrier(), "two")};
    float *buffers[2][WORKS];
    weft_work works[2][WORKS];
    for (int w = 0; w < WORKS; w++)
        for (int c = 0; c < 2; c++) {
            buffers[c][w] = malloc(COUNT * sizeof(float));
            for (int i = 0; i < COUNT; i++)
                buffers[c][w][i] = (float)((rank + 1) * (i % 91 + w + c));
            CHECK_OK(weft_all_reduce_start(comms[c], buffers[c][w], buffers[c][w], COUNT, WEFT_FP32, WEFT_SUM,
                                           WEFT_STREAM_HOST, &works[c][w]));
        }
    for (int c = 1; c >= 0; c--)
        for (int w = WORKS - 1; w >= 0; w--) {
            CHECK_OK(weft_work_finish(works[c][w], WEFT_STREAM_HOST));
            for (int i = 0; i < COUNT; i++)
                if (buffers[c][w][i] != (float)(ranks * (ranks + 1) / 2 * (i % 91 + w + c)))
                    FAIL("comm %d, work %d, element %d is %g", c, w, i, (double)buffers[c][w][i]);
            free(buffers[c][w]);
        }
    weft_comm_destroy(comms[0]);
    weft_comm_destroy(comms[1]);
}

TEST(many_large_operations_go_on_at_once)
{
    need_carrier();
    ranks_as_processes(3, NULL, many_at_once, NULL);
}

/* A root is done with a broadcast before the others begin it. */
static void root_runs_ahead(weft_world *world, void *argument)
{
    (void)argument;
    enum { OPERATIONS = 5000 };
    int rank = weft_world_rank(world);
    weft_comm *comm = comm_over(world, carrier(), "ahead");
    for (int n = 0; n < OPERATIONS; n++) {
        int64_t value = rank == 0 ? n : -1;
        CHECK_OK(weft_broadcast_run(comm, &value, &value, 1, WEFT_INT64, 0, WEFT_STREAM_HOST));
        CHECK_INT(value, n);
        if (rank == 1 && n % 1000 == 0)
            pause_ms(20);
    }
    weft_comm_destroy(comm);
}

TEST(a_rank_may_run_ahead)
{
    need_carrier();
    ranks_as_processes(3, NULL, root_runs_ahead, NULL);
}

/* ------------------------------------------------------------------------------------------- nothing to say */

enum { RANKS = 16 };

/* What is cut into slices, of which the last ranks have none. */
static const weft_collective_kind in_slices[] = {WEFT_ALL_REDUCE, WEFT_REDUCE, WEFT_BROADCAST};

static void try_late(weft_world *world, weft_comm *comm, trial t, int late)
{
    t.root = (late + t.root) % weft_comm_size(comm);
    if (weft_comm_rank(comm) == late)
        pause_ms(1); /* the others are as far ahead as they can be */
    try_one(world, comm, &t);
}

/* Each rank sends to the next alone. */
static void send_to_next(weft_comm *comm)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), value = rank, got = -1;
    size_t *zeros = calloc(2 * (size_t)ranks, sizeof *zeros), *sent = calloc((size_t)ranks, sizeof *sent);
    size_t *received = calloc((size_t)ranks, sizeof *received);
    sent[(rank + 1) % ranks] = received[(rank + ranks - 1) % ranks] = 1;
    if (rank % 7 == 3)
        pause_ms(1);
    CHECK_OK(weft_all_to_allv_run(comm, &value, sent, zeros, &got, received, zeros, WEFT_INT32, WEFT_STREAM_HOST));
    CHECK_INT(got, (rank + ranks - 1) % ranks);
    free(zeros);
    free(sent);
    free(received);
}

static void empty_slices(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "little to say");
    int ranks = weft_comm_size(comm), turn = 0;
    for (size_t k = 0; k < sizeof in_slices / sizeof *in_slices; k++)
        for (int late = ranks - 1; late >= 0; late -= test_is_slow() ? 5 : 2, turn++)
            try_late(world, comm,
                     (trial){.kind = in_slices[k],
                             .dtype = WEFT_FP32,
                             .count = turn % 2 ? 1300 : 1100, /* more than goes to everybody at once */
                             .root = turn % 3,
                             .in_place = turn % 5 == 0},
                     late);
    for (int n = 0; n < 5; n++)
        send_to_next(comm);
    weft_comm_destroy(comm);
}

TEST(ranks_without_a_slice_of_what_is_summed_may_be_ahead_by_both_steps)
{
    need_carrier();
    ranks_as_threads(RANKS, NULL, empty_slices, NULL);
}
