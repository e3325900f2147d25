/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective over UCX gives the bits that the local backend gives for the same ranks. */
#include <stdlib.h>

#include "harness/ranks.h"
#include "ucx.h"

/* ------------------------------------------------------------------------------------------- one operation */

typedef struct trial {
    weft_collective_kind kind;
    weft_dtype dtype;
    weft_reduction reduction;
    size_t count;
    int root;
    bool in_place;
} trial;

/* Parts of `count` elements that the two buffers hold, as in the table of weft/collective.h. */
static size_t parts_sent(const trial *t, int ranks)
{
    return t->kind == WEFT_REDUCE_SCATTER || t->kind == WEFT_ALL_TO_ALL ? (size_t)ranks : 1;
}

static size_t parts_received(const trial *t, int ranks)
{
    return t->kind == WEFT_ALL_GATHER || t->kind == WEFT_ALL_TO_ALL ? (size_t)ranks : 1;
}

/* Values that round in sums, so that another order of adding gives other bits. */
static void fill(void *buffer, size_t elements, weft_dtype dtype, uint32_t seed)
{
    for (size_t i = 0; i < elements; i++) {
        uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;
        x ^= x >> 15;
        double v = (double)(int32_t)(x * 2246822519u) / 4294967296.0 * (double)(1 << x % 12);
        float f = (float)v;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        switch (dtype) {
        case WEFT_FP32:
            ((float *)buffer)[i] = f;
            break;
        case WEFT_FP64:
            ((double *)buffer)[i] = v;
            break;
        case WEFT_BF16:
            ((uint16_t *)buffer)[i] = (uint16_t)(bits >> 16);
            break;
        case WEFT_FP16:
            ((uint16_t *)buffer)[i] = (uint16_t)(x >> 17 & 0xbbff); /* no infinity, no NaN */
            break;
        case WEFT_INT32:
            ((int32_t *)buffer)[i] = (int32_t)x;
            break;
        case WEFT_INT64:
            ((int64_t *)buffer)[i] = (int64_t)x << (x & 31);
            break;
        case WEFT_UINT8:
            ((uint8_t *)buffer)[i] = (uint8_t)x;
            break;
        }
    }
}

typedef struct memory {
    unsigned char *send, *recv, *all;
    size_t recv_bytes;
} memory;

/* Both buffers with a guard behind the result, or one for both. */
static memory place(const trial *t, int rank, int ranks)
{
    size_t one = t->count * weft_dtype_bytes(t->dtype);
    size_t sent = one * parts_sent(t, ranks), received = one * parts_received(t, ranks);
    memory m = {.all = malloc(sent + received + 128), .recv_bytes = received};
    memset(m.all, 0x5a, sent + received + 128);
    m.recv = m.all;
    m.send = m.all + (received + 63) / 64 * 64;
    if (t->in_place && sent >= received)
        m.send = m.all, m.recv = m.all + (sent > received ? (size_t)rank * one : 0);
    else if (t->in_place)
        m.send = m.recv + (size_t)rank * one;
    fill(m.send, t->count * parts_sent(t, ranks), t->dtype, (uint32_t)rank * 7919u + (uint32_t)t->kind);
    return m;
}

static weft_collective collective_of(const trial *t, const memory *m)
{
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = t->kind;
    c.dtype = t->dtype;
    c.reduction = t->reduction;
    c.root = t->root;
    c.send = m->send;
    c.recv = m->recv;
    c.count = t->count;
    return c;
}

/* The same on both comms. */
static void try_one(weft_comm *local, weft_comm *ucx, const trial *t)
{
    int rank = weft_comm_rank(ucx), ranks = weft_comm_size(ucx);
    memory want = place(t, rank, ranks), got = place(t, rank, ranks);
    weft_collective a = collective_of(t, &want), b = collective_of(t, &got);
    CHECK_OK(weft_collective_run(local, &a, WEFT_STREAM_HOST));
    CHECK_OK(weft_collective_run(ucx, &b, WEFT_STREAM_HOST));
    bool receives = t->kind != WEFT_BARRIER && (t->kind != WEFT_REDUCE || t->root == rank);
    if (receives && t->count && memcmp(want.recv, got.recv, want.recv_bytes) != 0)
        FAIL("%s of %zu %s, %s, root %d, %s on %d ranks differs on rank %d", weft_collective_string(t->kind), t->count,
             weft_dtype_string(t->dtype), weft_reduction_string(t->reduction), t->root,
             t->in_place ? "in place" : "out of place", ranks, rank);
    free(want.all);
    free(got.all);
}

/* ------------------------------------------------------------------------------------------- all of them */

static bool makes_sense(const trial *t)
{
    bool reduces = t->kind == WEFT_ALL_REDUCE || t->kind == WEFT_REDUCE_SCATTER || t->kind == WEFT_REDUCE;
    bool floats = t->dtype <= WEFT_FP64;
    return reduces ? floats || t->reduction != WEFT_AVERAGE : t->reduction == WEFT_SUM;
}

/* Pairwise: every type with every collective and reduction, counts and places in turn. */
static void all_kinds(weft_world *world, void *argument)
{
    (void)argument;
    static const size_t counts[] = {0, 1, 7, 4097, 300001};
    int ranks = weft_world_size(world), turn = 0;
    weft_comm *local = comm_over(world, "local", "by memory"), *ucx = comm_over(world, "ucx", "by wire");
    CHECK_STR(weft_comm_backend(ucx), ranks > 1 ? "ucx" : "self");
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
                    if (makes_sense(&t) && (turn + ranks) % (test_is_slow() ? 24 : 8) == 0)
                        try_one(local, ucx, &t);
                }
    for (int kind = 0; kind < WEFT_COLLECTIVE_KINDS; kind++)
        for (int n = 0; n < 10; n++) {
            trial t = {.kind = kind, .dtype = WEFT_FP32, .count = counts[n / 2], .root = ranks - 1, .in_place = n % 2};
            try_one(local, ucx, &t);
        }
    weft_comm_destroy(local);
    weft_comm_destroy(ucx);
}

TEST(every_collective_gives_the_bits_of_local_on_any_number_of_ranks)
{
    need_ucx();
    for (int ranks = 1; ranks <= 5; ranks++)
        ranks_as_processes(ranks, NULL, all_kinds, NULL);
}

TEST(threads_are_ranks_too)
{
    need_ucx();
    ranks_as_threads(3, NULL, all_kinds, NULL);
}

/* ------------------------------------------------------------------------------------------- in flight */

/* More than the stash and the stages hold, several at a time, on two comms. */
static void many_at_once(weft_world *world, void *argument)
{
    (void)argument;
    enum { WORKS = 6, COUNT = 700001 };
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    weft_comm *comms[2] = {comm_over(world, "ucx", "one"), comm_over(world, "ucx", "two")};
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
    need_ucx();
    ranks_as_processes(3, NULL, many_at_once, NULL);
}

/* A root is done with a broadcast before the others begin it. */
static void root_runs_ahead(weft_world *world, void *argument)
{
    (void)argument;
    enum { OPERATIONS = 5000 };
    int rank = weft_world_rank(world);
    weft_comm *comm = comm_over(world, "ucx", "ahead");
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
    need_ucx();
    ranks_as_processes(3, NULL, root_runs_ahead, NULL);
}
