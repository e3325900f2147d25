/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective, by its shape: what is put in, what must come out, and what must stay as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/conform/plan.h"
#include "perf/conform/values.h"

enum { FENCE_BYTES = 64, FENCE = 0xa5, UNTOUCHED = 0x5a };

/* One case on one rank. */
typedef struct job {
    const conform_shape *shape;
    conform_values values;
    int rank, ranks, root;
    size_t count, element;
    bool sends, receives, in_place;
    size_t send_bytes, recv_bytes;
    unsigned char *send, *recv; /* NULL where this rank has none */
} job;

/* ------------------------------------------------------------------------------------------- buffers */

/* Bytes of the buffer, with a fence on both sides. */
static unsigned char *fenced(conform *c, const conform_case *it, int which, size_t bytes, size_t element)
{
    size_t before = FENCE_BYTES + (it->of[CONFORM_SHIFT] ? element : 0);
    unsigned char *memory = conform_memory(c, it->of[CONFORM_MEMORY], which, before + bytes + FENCE_BYTES);
    if (!memory)
        return NULL;
    memset(memory, FENCE, before);
    memset(memory + before + bytes, FENCE, FENCE_BYTES);
    return memory + before;
}

static bool fences_stand(const unsigned char *buffer, size_t bytes)
{
    for (size_t i = 0; i < FENCE_BYTES; i++)
        if (buffer[bytes + i] != FENCE || buffer[-1 - (ptrdiff_t)i] != FENCE)
            return false;
    return true;
}

static bool take_buffers(conform *c, const conform_case *it, job *j, conform_verdict *verdict)
{
    bool shares = j->in_place && j->sends && j->receives;
    size_t both = j->send_bytes > j->recv_bytes ? j->send_bytes : j->recv_bytes;
    unsigned char *send = j->sends || shares ? fenced(c, it, 0, shares ? both : j->send_bytes, j->element) : NULL;
    unsigned char *recv = j->receives && !shares ? fenced(c, it, 1, j->recv_bytes, j->element) : NULL;
    if ((j->sends && !send) || (j->receives && !shares && !recv)) {
        conform_say(verdict, CONFORM_FAILED, "no memory for %zu bytes", both);
        return false;
    }
    size_t own = (size_t)j->rank * j->count * j->element;
    j->send = send, j->recv = recv;
    if (shares) {
        j->send = send + (j->shape->receives_each && !j->shape->sends_each ? own : 0);
        j->recv = send + (j->shape->sends_each && !j->shape->receives_each ? own : 0);
    }
    return true;
}

/* Where the input's element @p i of part @p part is counted from: ranks have one long input each. */
static size_t input_index(const job *j, int part, size_t i)
{
    return (j->shape->sends_each ? (size_t)part * j->count : 0) + i;
}

static void fill(const job *j)
{
    if (j->receives)
        memset(j->recv, UNTOUCHED, j->recv_bytes);
    size_t period = CONFORM_PERIOD * j->element;
    for (size_t i = 0; j->sends && i < j->send_bytes / j->element && i < CONFORM_PERIOD; i++)
        perf_element_store(j->send + i * j->element, j->values.dtype, conform_value(&j->values, j->rank, i));
    for (size_t at = period; j->sends && at < j->send_bytes; at += period)
        memcpy(j->send + at, j->send, j->send_bytes - at < period ? j->send_bytes - at : period);
}

/* ------------------------------------------------------------------------------------------- looking at what came */

/* Element @p i of a run of them is this one; if not, @p want is. */
typedef bool (*element_is_right)(const job *j, int part, size_t i, perf_element got, perf_element *want);

/* The first one that is wrong is at @p i; @p count if none is. */
static size_t first_wrong(const job *j, const unsigned char *run, int part, size_t i, size_t count,
                          element_is_right is_right, perf_element *got, perf_element *want)
{
    for (; i < count; i++) {
        *got = perf_element_load(run + i * j->element, j->values.dtype);
        if (!is_right(j, part, i, *got, want))
            break;
    }
    return i;
}

/* What repeats its first period, which is right, is right. */
static void check_run(const job *j, const unsigned char *run, int part, size_t count, element_is_right is_right,
                      const char *what, conform_verdict *verdict)
{
    perf_element got, want;
    size_t period = count < CONFORM_PERIOD ? count : CONFORM_PERIOD, bytes = period * j->element;
    size_t at = first_wrong(j, run, part, 0, period, is_right, &got, &want);
    if (at == period && memcmp(run + bytes, run, (count - period) * j->element) == 0)
        return;
    if (at == period)
        at = first_wrong(j, run, part, period, count, is_right, &got, &want);
    int digits = 2 * (int)j->element;
    if (at < count)
        conform_say(verdict, CONFORM_WRONG, "%s %d, element %zu is 0x%0*llx, not 0x%0*llx", what, part, at, digits,
                    (unsigned long long)got, digits, (unsigned long long)want);
}

static bool is_received(const job *j, int part, size_t i, perf_element got, perf_element *want)
{
    if (j->shape->reduces)
        return conform_is_right(&j->values, input_index(j, j->rank, i), got, want);
    int source = j->shape->root_sends ? j->root : part;
    *want = conform_value(&j->values, source, input_index(j, j->rank, i));
    return got == *want;
}

static bool is_sent(const job *j, int part, size_t i, perf_element got, perf_element *want)
{
    *want = conform_value(&j->values, j->rank, (size_t)part * j->count + i);
    return got == *want;
}

static void check_received(const job *j, conform_verdict *verdict)
{
    int parts = j->shape->receives_each ? j->ranks : 1;
    for (int part = 0; part < parts; part++)
        check_run(j, j->recv + (size_t)part * j->count * j->element, part, j->count, is_received, "output", verdict);
}

/* An input is read, and nothing else: but for what lies under the output. */
static void check_sent(const job *j, conform_verdict *verdict)
{
    int parts = j->shape->sends_each ? j->ranks : 1;
    for (int part = 0; part < parts; part++) {
        const unsigned char *run = j->send + (size_t)part * j->count * j->element;
        bool under = j->receives && run >= j->recv && run < j->recv + j->recv_bytes;
        if (!under)
            check_run(j, run, part, j->count, is_sent, "input", verdict);
    }
}

static void check(const job *j, conform_verdict *verdict)
{
    if (j->receives)
        check_received(j, verdict);
    if (j->sends)
        check_sent(j, verdict);
    bool shares = j->in_place && j->sends && j->receives;
    const unsigned char *low = shares && j->recv < j->send ? j->recv : j->send;
    size_t low_bytes = shares && j->recv_bytes > j->send_bytes ? j->recv_bytes : j->send_bytes;
    if (j->sends && !fences_stand(low, low_bytes))
        conform_say(verdict, CONFORM_WRONG, "bytes beside the input were written");
    if (j->receives && !shares && !fences_stand(j->recv, j->recv_bytes))
        conform_say(verdict, CONFORM_WRONG, "bytes beside the output were written");
}

/* ------------------------------------------------------------------------------------------- a case */

static bool start_and_finish(weft_comm *comm, const weft_collective *what, conform_verdict *verdict)
{
    weft_work work;
    weft_result result;
    if (!CONFORM_OK(verdict, weft_collective_start(comm, what, WEFT_STREAM_HOST, &work)))
        return false;
    while ((result = weft_work_test(work)) == WEFT_PENDING)
        ;
    return CONFORM_OK(verdict, result) & CONFORM_OK(verdict, weft_work_finish(work, WEFT_STREAM_HOST));
}

/* Behind a barrier, and with another one behind it; finished last first. */
static bool start_behind(weft_comm *comm, weft_collective *what, conform_verdict *verdict)
{
    weft_work before, work, behind;
    if (!CONFORM_OK(verdict, weft_barrier_start(comm, WEFT_STREAM_HOST, &before)))
        return false;
    what->after = before;
    bool started = CONFORM_OK(verdict, weft_collective_start(comm, what, WEFT_STREAM_HOST, &work));
    bool more = started && CONFORM_OK(verdict, weft_barrier_start(comm, WEFT_STREAM_HOST, &behind));
    bool well = more && CONFORM_OK(verdict, weft_work_finish(behind, WEFT_STREAM_HOST));
    well &= started && CONFORM_OK(verdict, weft_work_finish(work, WEFT_STREAM_HOST));
    return CONFORM_OK(verdict, weft_work_finish(before, WEFT_STREAM_HOST)) && well;
}

static void carry_out(conform *c, const void *what, conform_verdict *verdict)
{
    const conform_case *it = what;
    weft_collective k = WEFT_COLLECTIVE_INIT;
    k.kind = (weft_collective_kind)it->of[CONFORM_KIND];
    k.dtype = (weft_dtype)it->of[CONFORM_DTYPE];
    k.reduction = (weft_reduction)it->of[CONFORM_REDUCTION];
    k.root = conform_root(it);
    k.count = conform_shapes[k.kind].moves ? conform_counts[it->of[CONFORM_COUNT]] : 0;
    const conform_shape *shape = &conform_shapes[k.kind];
    job j = {.shape = shape, .root = k.root, .count = k.count, .in_place = it->of[CONFORM_PLACE]};
    j.rank = weft_comm_rank(c->comm), j.ranks = weft_comm_size(c->comm);
    j.element = weft_dtype_bytes(k.dtype);
    j.values = (conform_values){.dtype = k.dtype,
                                .reduces = shape->reduces,
                                .reduction = k.reduction,
                                .ranks = j.ranks,
                                .group = conform_group(c),
                                .ordered = c->ordered || j.ranks == 1};
    memcpy(&j.values.seed, it->of, sizeof j.values.seed);
    j.sends = k.count && (!shape->root_sends || j.rank == k.root);
    j.receives = k.count && (!shape->root_receives || j.rank == k.root);
    j.send_bytes = k.count * j.element * (shape->sends_each ? (size_t)j.ranks : 1);
    j.recv_bytes = k.count * j.element * (shape->receives_each ? (size_t)j.ranks : 1);
    if (!take_buffers(c, it, &j, verdict))
        return;
    fill(&j);
    k.send = j.send, k.recv = j.recv;
    bool well = it->of[CONFORM_HOW] == CONFORM_RUN
                    ? CONFORM_OK(verdict, weft_collective_run(c->comm, &k, WEFT_STREAM_HOST))
                : it->of[CONFORM_HOW] == CONFORM_START ? start_and_finish(c->comm, &k, verdict)
                                                       : start_behind(c->comm, &k, verdict);
    if (well)
        check(&j, verdict);
}

weft_result conform_collectives(conform *c)
{
    size_t count;
    conform_case *cases = conform_plan(c->settings, c->settings->ranks, &count);
    weft_result result = cases ? WEFT_OK : WEFT_E_NO_MEMORY;
    for (size_t i = 0; i < count && result == WEFT_OK; i++) {
        char line[160];
        conform_describe(&cases[i], line, sizeof line);
        result = conform_try(c, cases[i].of[CONFORM_RANKS] + 1, line, carry_out, &cases[i]);
    }
    free(cases);
    return result;
}

/* ------------------------------------------------------------------------------------------- by hand */

/* Rank 0 gives the first value, the others the second. */
static const struct by_hand {
    const char *line;
    int ranks;
    weft_dtype dtype;
    weft_reduction reduction;
    uint16_t first, others, want;
} by_hand[] = {
    {"256 + 7 of 1, bf16, sum: 264", 8, WEFT_BF16, WEFT_SUM, 0x4380, 0x3f80, 0x4384},
    {"2048 + 7 of 1, fp16, sum: 2056", 8, WEFT_FP16, WEFT_SUM, 0x6800, 0x3c00, 0x6804},
    {"three of 1, bf16, average: 1", 3, WEFT_BF16, WEFT_AVERAGE, 0x3f80, 0x3f80, 0x3f80},
    {"two of 60000, fp16, average: 60000", 2, WEFT_FP16, WEFT_AVERAGE, 0x7b53, 0x7b53, 0x7b53},
    {"1 and NaN, fp16, max: NaN", 2, WEFT_FP16, WEFT_MAX, 0x3c00, 0x7e00, 0x7e00},
    {"1 and NaN, bf16, min: NaN", 2, WEFT_BF16, WEFT_MIN, 0x3f80, 0x7fc0, 0x7fc0},
};

static void add_up(conform *c, const void *what, conform_verdict *verdict)
{
    const struct by_hand *it = what;
    uint16_t in[3], out[3] = {0};
    for (int i = 0; i < 3; i++)
        in[i] = weft_comm_rank(c->comm) ? it->others : it->first;
    if (!CONFORM_OK(verdict, weft_all_reduce_run(c->comm, in, out, 3, it->dtype, it->reduction, WEFT_STREAM_HOST)))
        return;
    for (int i = 0; i < 3; i++)
        if (out[i] != it->want)
            conform_say(verdict, CONFORM_WRONG, "element %d is 0x%04x, not 0x%04x", i, out[i], it->want);
}

weft_result conform_sums(conform *c)
{
    weft_result result = WEFT_OK;
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand && result == WEFT_OK; i++)
        if (by_hand[i].ranks <= c->settings->ranks)
            result = conform_try(c, by_hand[i].ranks, by_hand[i].line, add_up, &by_hand[i]);
    return result;
}
