/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective, type, reduction and kind of memory against a serial computation in rank order. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/collectives.h"
#include "base/dtype.h"
#include "device/vector.h"
#include "harness/ranks.h"

/* ------------------------------------------------------------------------------------------- values */

/* Element @p i of what rank @p rank sends in operation @p salt: small whole numbers, exact in every type. */
static double value(int rank, size_t i, int salt)
{
    return (double)((i * 7 + (size_t)rank * 3 + (size_t)salt * 5) % 5);
}

static void store(void *buffer, size_t i, weft_dtype dtype, double v)
{
    switch (dtype) {
    case WEFT_FP32:
        ((float *)buffer)[i] = (float)v;
        return;
    case WEFT_BF16:
        ((uint16_t *)buffer)[i] = weft__float_to_bf16((float)v);
        return;
    case WEFT_FP16:
        ((uint16_t *)buffer)[i] = weft__float_to_fp16((float)v);
        return;
    case WEFT_FP64:
        ((double *)buffer)[i] = v;
        return;
    case WEFT_INT32:
        ((int32_t *)buffer)[i] = (int32_t)v;
        return;
    case WEFT_INT64:
        ((int64_t *)buffer)[i] = (int64_t)v;
        return;
    case WEFT_UINT8:
        ((uint8_t *)buffer)[i] = (uint8_t)(int64_t)v;
        return;
    }
}

static double load(const void *buffer, size_t i, weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FP32:
        return ((const float *)buffer)[i];
    case WEFT_BF16:
        return weft__bf16_to_float(((const uint16_t *)buffer)[i]);
    case WEFT_FP16:
        return weft__fp16_to_float(((const uint16_t *)buffer)[i]);
    case WEFT_FP64:
        return ((const double *)buffer)[i];
    case WEFT_INT32:
        return ((const int32_t *)buffer)[i];
    case WEFT_INT64:
        return (double)((const int64_t *)buffer)[i];
    case WEFT_UINT8:
        return ((const uint8_t *)buffer)[i];
    }
    return NAN;
}

static double reduced(weft_reduction reduction, int ranks, size_t i, int salt, weft_dtype dtype)
{
    double result = value(0, i, salt);
    for (int r = 1; r < ranks; r++) {
        double v = value(r, i, salt);
        if (reduction == WEFT_MIN)
            result = v < result ? v : result;
        else if (reduction == WEFT_MAX)
            result = v > result ? v : result;
        else if (reduction == WEFT_PRODUCT)
            result *= v;
        else
            result += v;
    }
    if (reduction != WEFT_AVERAGE)
        return result;
    char rounded[8]; /* the only one that is not exact: divided in fp32, rounded once */
    store(rounded, 0, dtype, dtype == WEFT_FP64 ? result / ranks : (double)((float)result / (float)ranks));
    return load(rounded, 0, dtype);
}

/* ------------------------------------------------------------------------------------------- one operation */

typedef struct trial {
    weft_collective_kind kind;
    weft_dtype dtype;
    weft_reduction reduction;
    size_t count;
    int root;
    bool in_place;
    int salt;
} trial;

static const weft__collective_row *row_of(const trial *t)
{
    return &weft__collectives[t->kind];
}

static size_t send_count(const trial *t, int ranks)
{
    return t->count * weft__parts(row_of(t)->send, ranks);
}

static size_t recv_count(const trial *t, int ranks)
{
    return t->count * weft__parts(row_of(t)->recv, ranks);
}

/* Where the buffers of a trial are in a piece of memory that is large enough for all. */
static weft_collective place(const trial *t, int rank, int ranks, char *memory)
{
    size_t element = weft_dtype_bytes(t->dtype);
    size_t one = t->count * element;
    char *recv = memory + (send_count(t, ranks) * element + 63) / 64 * 64;
    char *send = memory;
    if (t->in_place) {
        send = recv = memory;
        if (send_count(t, ranks) > recv_count(t, ranks))
            recv = send + (size_t)rank * one;
        if (send_count(t, ranks) < recv_count(t, ranks))
            send = recv + (size_t)rank * one;
    }
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = t->kind;
    c.dtype = t->dtype;
    c.reduction = t->reduction;
    c.root = t->root;
    c.send = send;
    c.recv = recv;
    c.count = t->count;
    return c;
}

static size_t room(const trial *t, int ranks)
{
    return (send_count(t, ranks) + recv_count(t, ranks)) * weft_dtype_bytes(t->dtype) + 256;
}

static void fill(const trial *t, int rank, int ranks, const weft_collective *c)
{
    for (size_t i = 0; i < send_count(t, ranks); i++)
        store((void *)(uintptr_t)c->send, i, t->dtype, value(rank, i, t->salt));
}

static double wanted(const trial *t, int rank, int ranks, size_t i)
{
    switch (t->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE:
        return reduced(t->reduction, ranks, i, t->salt, t->dtype);
    case WEFT_REDUCE_SCATTER:
        return reduced(t->reduction, ranks, (size_t)rank * t->count + i, t->salt, t->dtype);
    case WEFT_ALL_GATHER:
        return value((int)(i / t->count), i % t->count, t->salt);
    case WEFT_BROADCAST:
        return value(t->root, i, t->salt);
    case WEFT_ALL_TO_ALL:
        return value((int)(i / t->count), (size_t)rank * t->count + i % t->count, t->salt);
    case WEFT_BARRIER:
        break;
    }
    return 0;
}

static void check(const trial *t, int rank, int ranks, const weft_collective *c)
{
    if (!weft__concerns(row_of(t)->receivers, rank, t->root))
        return;
    for (size_t i = 0; i < recv_count(t, ranks); i++) {
        double got = load(c->recv, i, t->dtype), want = wanted(t, rank, ranks, i);
        if (got != want)
            FAIL("rank %d: %s of %zu %s (%s, root %d%s): element %zu is %g, not %g", rank,
                 weft_collective_string(t->kind), t->count, weft_dtype_string(t->dtype),
                 weft_reduction_string(t->reduction), t->root, t->in_place ? ", in place" : "", i, got, want);
    }
}

/* ------------------------------------------------------------------------------------------- the matrix */

static bool makes_sense(const trial *t)
{
    return row_of(t)->reduces ? weft__can_reduce(t->dtype, t->reduction) : t->reduction == WEFT_SUM;
}

enum memory_kind { HEAP, PRIVATE, MIXED };

static void try_one(weft_comm *comm, const trial *t, char *memory)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    weft_collective c = place(t, rank, ranks, memory);
    fill(t, rank, ranks, &c);
    CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
    check(t, rank, ranks, &c);
    memset(memory, 0xff, room(t, ranks)); /* NaN, and -1: whoever still reads it gets it wrong */
}

static void all_trials(weft_world *world, void *argument)
{
    enum memory_kind kind = *(enum memory_kind *)argument;
    static const size_t counts[] = {0, 1, 7, 1000, 4097, 40000};
    weft_comm *comm = all_ranks(world, "trials", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    size_t bytes = (size_t)40000 * 8 * 2 * (size_t)ranks + 4096;
    void *heap, *plain = malloc(bytes);
    CHECK_OK(weft_memory_alloc(world, bytes, &heap));
    char *memory = kind == HEAP || (kind == MIXED && rank % 2) ? heap : plain;
    trial t = {0};
    for (int k = 0; k < WEFT_COLLECTIVE_KINDS; k++)
        for (int d = 0; d < WEFT_DTYPES; d++)
            for (int r = 0; r < WEFT_REDUCTIONS; r++)
                for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
                    for (int in_place = 0; in_place < 2; in_place++) {
                        t.kind = (weft_collective_kind)k;
                        t.dtype = (weft_dtype)d;
                        t.reduction = (weft_reduction)r;
                        t.count = counts[n];
                        t.in_place = in_place;
                        t.salt++;
                        t.root = t.salt % ranks;
                        /* The large ones for a part of the combinations, each rank alike. */
                        if (test_is_slow() && t.salt % 29)
                            continue;
                        if (makes_sense(&t) && (t.count < 4097 || (k + d + r + in_place) % 3 == 0))
                            try_one(comm, &t, memory);
                    }
    weft_memory_free(world, heap);
    free(plain);
    weft_comm_destroy(comm);
}

static void trials(int ranks)
{
    for (enum memory_kind kind = HEAP; kind <= MIXED; kind++)
        ranks_both_ways(ranks, all_trials, &kind);
}

TEST_LIMIT(every_collective_on_1_rank, 120)
{
    trials(1);
}

TEST_LIMIT(every_collective_on_2_ranks, 120)
{
    trials(2);
}

TEST_LIMIT(every_collective_on_3_ranks, 120)
{
    trials(3);
}

TEST_LIMIT(every_collective_on_5_ranks, 240)
{
    trials(5);
}

TEST_LIMIT(every_collective_on_8_ranks, 240)
{
    trials(8);
}

/* ------------------------------------------------------------------------------------------- buffers are the
 * caller's after finish */

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* One rank is 5 ms late in turn; everybody overwrites its buffers with NaN the moment its finish returns, and starts
 * the next operation back to back. */
static void reuse_at_once(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "reuse", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    const size_t counts[] = {3, 700, test_is_slow() ? 20000 : 60000};
    size_t bytes = (size_t)60000 * 4 * 2 * (size_t)ranks + 4096;
    void *heap, *plain = malloc(bytes);
    CHECK_OK(weft_memory_alloc(world, bytes, &heap));
    trial t = {.dtype = WEFT_FP32};
    for (int k = 0; k < WEFT_COLLECTIVE_KINDS; k++)
        for (size_t n = 0; n < 3; n++)
            for (int variant = 0; variant < 4; variant++)
                for (int back_to_back = 0; back_to_back < 3; back_to_back++) {
                    t.kind = (weft_collective_kind)k;
                    t.count = counts[n];
                    t.in_place = variant & 1;
                    t.salt++;
                    t.root = t.salt % ranks;
                    char *memory = variant & 2 ? heap : plain;
                    weft_collective c = place(&t, rank, ranks, memory);
                    fill(&t, rank, ranks, &c);
                    if (back_to_back == 0 && (t.salt / 3) % ranks == rank)
                        pause_ms(5);
                    weft_work work;
                    CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
                    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
                    check(&t, rank, ranks, &c);
                    memset(memory, 0xff, room(&t, ranks));
                }
    weft_memory_free(world, heap);
    free(plain);
    weft_comm_destroy(comm);
}

TEST(buffers_are_the_callers_when_finish_returns)
{
    ranks_both_ways(2, reuse_at_once, NULL);
    ranks_both_ways(4, reuse_at_once, NULL);
}

/* In every round each rank decides for itself whether it exchanges in place, and in memory that others can reach. */
static void exchange_as_one_likes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "exchange", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    static const size_t counts[] = {1023, 1025, 9000, 70001};
    size_t bytes = (size_t)70001 * 2 * (size_t)ranks + 4096;
    void *heap, *plain = malloc(bytes);
    CHECK_OK(weft_memory_alloc(world, bytes, &heap));
    for (int round = 0; round < (test_is_slow() ? 16 : 64); round++) {
        unsigned choice = (unsigned)round * 2654435761u + (unsigned)rank * 40503u;
        trial t = {.kind = WEFT_ALL_TO_ALL, .dtype = WEFT_UINT8, .count = counts[round % 4], .salt = round};
        t.in_place = choice >> 13 & 1;
        try_one(comm, &t, choice >> 17 & 1 ? heap : plain);
    }
    weft_memory_free(world, heap);
    free(plain);
    weft_comm_destroy(comm);
}

TEST(some_may_exchange_in_place_with_others_who_do_not)
{
    ranks_both_ways(2, exchange_as_one_likes, NULL);
    ranks_both_ways(5, exchange_as_one_likes, NULL);
}

/* The root of broadcasts (the others of reduces) runs a thousand operations ahead as far as it may, overwriting its
 * buffer after each. */
static void run_ahead(weft_world *world, void *argument)
{
    size_t count = *(size_t *)argument;
    weft_comm *comm = all_ranks(world, "ahead", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    void *buffer;
    CHECK_OK(weft_memory_alloc(world, count * 4 + 64, &buffer));
    float *v = buffer;
    for (int phase = 0; phase < 2; phase++) {
        bool late = phase == 0 ? rank == ranks - 1 : rank == 0;
        for (int i = 0; i < 1000; i++) {
            if (late && i % 200 == 0)
                pause_ms(5);
            for (size_t j = 0; j < count; j++)
                v[j] = (float)(i + rank);
            if (phase == 0) {
                CHECK_OK(weft_broadcast_run(comm, v, v, count, WEFT_FP32, 0, WEFT_STREAM_HOST));
                CHECK_INT(v[count - 1], i);
            } else {
                CHECK_OK(weft_reduce_run(comm, v, v, count, WEFT_FP32, WEFT_SUM, 0, WEFT_STREAM_HOST));
                CHECK(rank != 0 || v[count - 1] == (float)(i * ranks + ranks * (ranks - 1) / 2));
            }
            memset(v, 0xff, count * 4);
        }
    }
    weft_memory_free(world, buffer);
    weft_comm_destroy(comm);
}

TEST(a_root_may_be_a_thousand_operations_ahead)
{
    size_t small = 5, large = 9000;
    ranks_both_ways(3, run_ahead, &small);
    ranks_both_ways(3, run_ahead, &large);
}

/* ------------------------------------------------------------------------------------------- arithmetic */

static void known_sums(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "known", NULL);
    int ranks = weft_comm_size(comm), rank = weft_comm_rank(comm);
    uint16_t bf16 = weft__float_to_bf16(1.0f), fp16 = weft__float_to_fp16(60000.0f), out;
    if (ranks == 3) { /* sum in fp32, then divide: a rounded 1/3 would give 1.0019 */
        CHECK_OK(weft_all_reduce_run(comm, &bf16, &out, 1, WEFT_BF16, WEFT_AVERAGE, WEFT_STREAM_HOST));
        CHECK(weft__bf16_to_float(out) == 1.0f);
    }
    if (ranks == 2) {
        CHECK_OK(weft_all_reduce_run(comm, &fp16, &out, 1, WEFT_FP16, WEFT_AVERAGE, WEFT_STREAM_HOST));
        CHECK(weft__fp16_to_float(out) == 60000.0f);
        CHECK_OK(weft_all_reduce_run(comm, &fp16, &out, 1, WEFT_FP16, WEFT_SUM, WEFT_STREAM_HOST));
        CHECK(isinf(weft__fp16_to_float(out)));
    }
    if (ranks == 8) { /* 256 + 7 * 1 in bf16, kept in fp32: 263, rounded to 264; bf16 steps would stay at 256 */
        bf16 = weft__float_to_bf16(rank == 0 ? 256.0f : 1.0f);
        CHECK_OK(weft_all_reduce_run(comm, &bf16, &out, 1, WEFT_BF16, WEFT_SUM, WEFT_STREAM_HOST));
        CHECK(weft__bf16_to_float(out) == 264.0f);
    }
    float in = rank == ranks - 1 ? NAN : (float)rank, low;
    CHECK_OK(weft_all_reduce_run(comm, &in, &low, 1, WEFT_FP32, WEFT_MIN, WEFT_STREAM_HOST));
    CHECK(isnan(low));
    int32_t big = INT32_MAX, wrapped;
    CHECK_OK(weft_all_reduce_run(comm, &big, &wrapped, 1, WEFT_INT32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(wrapped, (int32_t)((uint32_t)INT32_MAX * (uint32_t)ranks));
    weft_comm_destroy(comm);
}

TEST(known_sums_come_out)
{
    ranks_as_threads(2, NULL, known_sums, NULL);
    ranks_as_threads(3, NULL, known_sums, NULL);
    ranks_as_threads(8, NULL, known_sums, NULL);
}

/* Values whose sum depends on the order: every size, memory and timing gives the bits of the serial sum in rank
 * order. */
static void same_bits(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "bits", NULL);
    int ranks = weft_comm_size(comm), rank = weft_comm_rank(comm);
    enum { MOST = 50000 };
    float *all = malloc((size_t)ranks * MOST * sizeof *all), *want = malloc(MOST * sizeof *want);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < MOST; i++)
            all[(size_t)r * MOST + i] = ldexpf((float)((i * 2654435761u + (size_t)r * 40503u) % 10007) - 5000.0f,
                                               (int)((i + (size_t)r * 5) % 24) - 12);
    for (size_t i = 0; i < MOST; i++) {
        want[i] = all[i];
        for (int r = 1; r < ranks; r++)
            want[i] += all[(size_t)r * MOST + i];
    }
    void *heap;
    CHECK_OK(weft_memory_alloc(world, MOST * 8, &heap));
    float *plain = malloc(MOST * 8);
    for (int kind = 0; kind < 4; kind++) {
        float *send = kind & 1 ? plain : heap, *recv = kind & 2 ? send : send + MOST;
        for (size_t count = 1; count <= MOST; count = count * 3 + 1) {
            memcpy(send, all + (size_t)rank * MOST, count * sizeof *send);
            CHECK_OK(weft_all_reduce_run(comm, send, recv, count, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
            CHECK_MSG(memcmp(recv, want, count * sizeof *recv) == 0, "other bits with %zu elements, memory %d", count,
                      kind);
        }
    }
    weft_memory_free(world, heap);
    free(plain);
    free(all);
    free(want);
    weft_comm_destroy(comm);
}

TEST(sums_have_the_bits_of_rank_order)
{
    ranks_both_ways(4, same_bits, NULL);
    ranks_both_ways(7, same_bits, NULL);
}
