/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of values is judged: operations carried out here, slowly, on what it filled in, must be right, and every
 * kind of damage must be seen. */
#include <stdlib.h>

#include "device/vector.h"
#include "harness/test.h"
#include "perf/values.h"

enum { MOST_RANKS = 5, COUNT = 60, MOST_BYTES = MOST_RANKS * COUNT * 8 };

/* All ranks of one row. */
typedef struct row {
    perf_subject subject[MOST_RANKS];
    perf_values values[MOST_RANKS];
    size_t lists[MOST_RANKS][4][MOST_RANKS];
    _Alignas(64) unsigned char in[MOST_RANKS][MOST_BYTES], out[MOST_RANKS][MOST_BYTES];
} row;

static void open_row(row *w, const perf_operation *operation, weft_dtype dtype, weft_reduction reduction, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        w->subject[r] = (perf_subject){.operation = operation,
                                       .dtype = dtype,
                                       .reduction = reduction,
                                       .root = ranks - 1,
                                       .rank = r,
                                       .ranks = ranks,
                                       .count = COUNT,
                                       .send_counts = w->lists[r][0],
                                       .send_offsets = w->lists[r][1],
                                       .recv_counts = w->lists[r][2],
                                       .recv_offsets = w->lists[r][3]};
        perf_subject_lay_out(&w->subject[r]);
        CHECK(perf_values_open(&w->values[r], ranks));
        perf_values_choose(&w->values[r], &w->subject[r], 17);
        perf_values_fill(&w->values[r], &w->subject[r], w->in[r]);
        perf_values_spoil(&w->subject[r], w->out[r]);
    }
}

static void close_row(row *w)
{
    for (int r = 0; r < w->subject[0].ranks; r++)
        perf_values_close(&w->values[r]);
}

/* By weft's own arithmetic, which the judge does not use. */
static void reduce(row *w, int rank, size_t from)
{
    const perf_subject *s = &w->subject[rank];
    const void *sources[MOST_RANKS];
    for (int r = 0; r < s->ranks; r++)
        sources[r] = w->in[r] + from * weft_dtype_bytes(s->dtype);
    weft__vector_host()->reduce(w->out[rank], sources, s->ranks, COUNT, s->dtype, s->reduction, s->ranks);
}

static void copy(row *w, int to, size_t at, int from, size_t index, size_t count)
{
    size_t bytes = weft_dtype_bytes(w->subject[0].dtype);
    memcpy(w->out[to] + at * bytes, w->in[from] + index * bytes, count * bytes);
}

/* By the names of the operations, as the headers describe them. */
static void carry_out(row *w, int rank)
{
    const perf_subject *s = &w->subject[rank];
    const char *name = s->operation->name;
    size_t mine = (size_t)rank * COUNT;
    if (strcmp(name, "all_reduce") == 0 || (strcmp(name, "reduce") == 0 && rank == s->root))
        reduce(w, rank, 0);
    if (strcmp(name, "reduce_scatter") == 0)
        reduce(w, rank, mine);
    if (strcmp(name, "broadcast") == 0)
        copy(w, rank, 0, s->root, 0, COUNT);
    if (strcmp(name, "scatter") == 0)
        copy(w, rank, 0, s->root, mine, COUNT);
    if (strcmp(name, "sendrecv") == 0)
        copy(w, rank, 0, rank ? rank - 1 : s->ranks - 1, 0, COUNT);
    bool gathers = strcmp(name, "all_gather") == 0 || strcmp(name, "hypercube") == 0 ||
                   (strcmp(name, "gather") == 0 && rank == s->root);
    for (int r = 0; r < s->ranks; r++) {
        if (gathers)
            copy(w, rank, (size_t)r * COUNT, r, 0, COUNT);
        if (strcmp(name, "alltoall") == 0)
            copy(w, rank, (size_t)r * COUNT, r, mine, COUNT);
        if (strcmp(name, "alltoallv") == 0)
            copy(w, rank, s->recv_offsets[r], r, w->subject[r].send_offsets[rank], s->recv_counts[r]);
    }
}

static size_t judge(row *w, int rank)
{
    return perf_values_wrong(&w->values[rank], &w->subject[rank], w->out[rank], false, 1);
}

/* Received elements: what an output consists of. */
static size_t received(const perf_subject *s)
{
    size_t sum = 0;
    for (int i = 0; perf_receives(s) && i < perf_pieces(s); i++)
        sum += s->operation->piece(s, i).count;
    return sum;
}

static void try_row(row *w)
{
    const perf_subject *s = w->subject;
    size_t bytes = weft_dtype_bytes(s->dtype);
    for (int r = 0; r < s->ranks; r++) {
        size_t all = received(&w->subject[r]);
        CHECK_MSG(judge(w, r) == all, "%s: %zu of %zu spoiled elements are wrong", s->operation->name, judge(w, r),
                  all);
        carry_out(w, r);
        CHECK_MSG(judge(w, r) == 0, "%s of %s, %s, %d ranks, rank %d: %zu wrong", s->operation->name,
                  weft_reduction_string(s->reduction), weft_dtype_string(s->dtype), s->ranks, r, judge(w, r));
        if (all == 0)
            continue;
        size_t last = s->operation->uneven ? w->subject[r].recv_offsets[s->ranks - 1] : all - 1;
        if (s->operation->uneven && w->subject[r].recv_counts[s->ranks - 1] == 0)
            continue;
        w->out[r][(last + 1) * bytes - 1] ^= 0x20; /* a high bit: averages need not be exact */
        CHECK_INT(judge(w, r), 1);
    }
}

TEST(what_is_right_is_right_and_one_wrong_bit_is_wrong)
{
    row *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    CHECK(w);
    for (size_t o = 0; perf_operation_at(o); o++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int d = 0; d < WEFT_DTYPES; d++)
                for (int k = 0; k < WEFT_REDUCTIONS; k++) {
                    const perf_operation *operation = perf_operation_at(o);
                    bool whole = d == WEFT_INT32 || d == WEFT_INT64 || d == WEFT_UINT8;
                    if ((k && !operation->reduces) || (k == WEFT_AVERAGE && whole))
                        continue;
                    open_row(w, operation, (weft_dtype)d, (weft_reduction)k, ranks);
                    try_row(w);
                    close_row(w);
                }
    free(w);
}

static bool is_displaced_seen(row *w, size_t by)
{
    memmove(w->out[0], w->out[0] + by * 4, (COUNT - by) * 4);
    return judge(w, 0) > (COUNT - by) / 2;
}

TEST(what_is_displaced_or_of_another_rank_or_call_is_wrong)
{
    row *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    CHECK(w);
    for (size_t by = 1; by < COUNT / 2; by++) {
        open_row(w, perf_operation_named("broadcast", 9), WEFT_FP32, WEFT_SUM, 2);
        carry_out(w, 0);
        CHECK_INT(judge(w, 0), 0);
        CHECK_MSG(is_displaced_seen(w, by), "by %zu", by);
        close_row(w);
    }
    open_row(w, perf_operation_named("broadcast", 9), WEFT_FP32, WEFT_SUM, 2);
    copy(w, 0, 0, 0, 0, COUNT); /* not the root's */
    CHECK(judge(w, 0) > COUNT / 2);
    carry_out(w, 0);
    perf_values_choose(&w->values[0], &w->subject[0], 18); /* what another call would bring */
    CHECK(judge(w, 0) > COUNT / 2);
    close_row(w);
    free(w);
}

/* Reductions in place, again and again on their own results. */
static void repeat_in_place(row *w, size_t uses)
{
    const perf_subject *s = w->subject;
    size_t part = COUNT * weft_dtype_bytes(s->dtype);
    bool scatters = s->operation->send == PERF_PART_PER_RANK, all = s->operation->receivers == PERF_EVERYBODY;
    for (size_t use = 0; use < uses; use++) {
        for (int r = 0; r < s->ranks; r++)
            if (perf_receives(&w->subject[r]))
                reduce(w, r, scatters ? (size_t)r * COUNT : 0);
        for (int r = 0; r < s->ranks; r++)
            if (perf_receives(&w->subject[r]))
                memcpy(w->in[r] + (scatters ? (size_t)r * part : 0), w->out[r], part);
        for (int r = 0; r < s->ranks && all; r++) {
            size_t wrong = perf_values_wrong(&w->values[r], &w->subject[r], w->out[r], true, use + 1);
            CHECK_MSG(wrong == 0, "%s of %s, %s: %zu wrong after %zu times", s->operation->name,
                      weft_reduction_string(s->reduction), weft_dtype_string(s->dtype), wrong, use + 1);
        }
    }
    w->out[s->root][weft_dtype_bytes(s->dtype) - 1] ^= 0x20; /* a high bit: large sums need not be exact */
    CHECK_INT(perf_values_wrong(&w->values[s->root], &w->subject[s->root], w->out[s->root], true, uses), 1);
}

TEST(what_reductions_in_place_come_to_when_they_are_repeated)
{
    row *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    CHECK(w);
    static const char *const names[] = {"all_reduce", "reduce_scatter", "reduce"};
    for (int n = 0; n < 3; n++)
        for (int d = 0; d < WEFT_DTYPES; d++)
            for (int k = 0; k < WEFT_REDUCTIONS; k++) {
                if (k == WEFT_AVERAGE && (d == WEFT_INT32 || d == WEFT_INT64 || d == WEFT_UINT8))
                    continue;
                open_row(w, perf_operation_named(names[n], strlen(names[n])), (weft_dtype)d, (weft_reduction)k, 3);
                if (k != WEFT_AVERAGE) /* near what is expected counts as right there, so a bit may not show */
                    repeat_in_place(w, 12);
                close_row(w);
            }
    free(w);
}
