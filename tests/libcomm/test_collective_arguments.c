/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives refuse, and what callers of other versions ask for. */
#include <stddef.h>
#include <weft/composed.h>

#include "harness/ranks.h"

/* ------------------------------------------------------------------------------------------- refusals */

static void refusals(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "refusals", NULL);
    float a[16] = {0}, b[16];
    weft_work work;
    CHECK_RESULT(weft_all_reduce_start(comm, NULL, b, 4, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "without a send buffer");
    CHECK_RESULT(weft_all_reduce_start(comm, a, a + 1, 4, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work),
                 WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "overlap");
    CHECK_RESULT(weft_all_reduce_start(comm, a, b, 4, WEFT_INT32, WEFT_AVERAGE, WEFT_STREAM_HOST, &work),
                 WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "no average of int32");
    CHECK_RESULT(weft_all_reduce_start(comm, a, b, 4, (weft_dtype)WEFT_DTYPES, WEFT_SUM, WEFT_STREAM_HOST, &work),
                 WEFT_E_INVALID);
    CHECK_RESULT(
        weft_all_reduce_start(comm, a, b, 4, WEFT_FP32, (weft_reduction)WEFT_REDUCTIONS, WEFT_STREAM_HOST, &work),
        WEFT_E_INVALID);
    CHECK_RESULT(weft_broadcast_start(comm, a, b, 4, WEFT_FP32, 2, WEFT_STREAM_HOST, &work), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "root 2 of 2");
    CHECK_RESULT(weft_all_gather_start(comm, a, b, SIZE_MAX / 8, WEFT_FP32, WEFT_STREAM_HOST, &work), WEFT_E_RANGE);
    CHECK_RESULT(weft_all_reduce_start(comm, (char *)a + 1, b, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work),
                 WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "not aligned");
    weft_stream device = {.kind = 7};
    CHECK_RESULT(weft_barrier_start(comm, device, &work), WEFT_E_UNSUPPORTED);
    /* Nothing was started: the comm still works. */
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(wrong_arguments_are_named_and_harmless)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    ranks_as_threads(2, NULL, refusals, NULL);
}

/* Whoever looks at the work instead of the result finishes nothing, and nothing that belongs to somebody else. */
static void nothing_starts(weft_world *world, void *argument)
{
    (void)argument;
    enum { NOBODY = 9 };
    weft_comm *comm = all_ranks(world, "nothing", NULL);
    const weft_stream device = {.kind = 7};
    const weft_p2p to_nobody = {.kind = WEFT_SEND, .peer = NOBODY, .dtype = WEFT_FP32};
    weft_collective what = WEFT_COLLECTIVE_INIT;
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    float v[4] = {0};
    size_t zeros[2] = {0};
    weft_work w[14];
    memset(w, 0x11, sizeof w);
    what.flags = 0x80;
    batch.messages = &to_nobody;
    batch.count = 1;
    const weft_result results[] = {
        weft_collective_start(comm, &what, WEFT_STREAM_HOST, &w[0]),
        weft_collective_start(comm, NULL, WEFT_STREAM_HOST, &w[1]),
        weft_all_reduce_start(comm, NULL, v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &w[2]),
        weft_reduce_scatter_start(comm, NULL, v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &w[3]),
        weft_all_gather_start(comm, NULL, v, 1, WEFT_FP32, WEFT_STREAM_HOST, &w[4]),
        weft_broadcast_start(comm, v, v, 1, WEFT_FP32, NOBODY, WEFT_STREAM_HOST, &w[5]),
        weft_reduce_start(comm, v, v, 1, WEFT_FP32, WEFT_SUM, NOBODY, WEFT_STREAM_HOST, &w[6]),
        weft_all_to_all_start(comm, NULL, v, 1, WEFT_FP32, WEFT_STREAM_HOST, &w[7]),
        weft_barrier_start(comm, device, &w[8]),
        weft_p2p_start(comm, &batch, WEFT_STREAM_HOST, &w[9]),
        weft_isend(comm, v, 1, WEFT_FP32, NOBODY, WEFT_STREAM_HOST, &w[10]),
        weft_irecv(comm, v, 1, WEFT_FP32, NOBODY, WEFT_STREAM_HOST, &w[11]),
        weft_gather_start(comm, v, v, 1, WEFT_FP32, NOBODY, WEFT_STREAM_HOST, &w[12]),
        weft_all_to_allv_start(comm, v, zeros, zeros, v, zeros, zeros, WEFT_DTYPES, WEFT_STREAM_HOST, &w[13])};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        CHECK_MSG(results[i] < 0, "start %zu gave %s", i, weft_result_string(results[i]));
        CHECK_MSG(!w[i].value, "start %zu left %#llx", i, (unsigned long long)w[i].value);
        CHECK_RESULT(weft_work_finish(w[i], WEFT_STREAM_HOST), WEFT_E_INVALID);
    }
    weft_comm_destroy(comm);
}

TEST(a_start_that_fails_leaves_no_work)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    ranks_as_threads(2, NULL, nothing_starts, NULL);
}

/* ------------------------------------------------------------------------------------------- other versions */

/* Callers that were compiled with fewer fields, or with more. */
static void other_sizes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "sizes", NULL);
    float in = 1, out = 0;
    struct {
        weft_collective c;
        uint64_t later;
    } given = {.c = WEFT_COLLECTIVE_INIT};
    weft_collective *c = &given.c;
    c->send = &in;
    c->recv = &out;
    c->count = 1;
    c->after.value = 12345; /* both are behind the end that size will give the struct */
    c->flags = 0x80;
    c->size = offsetof(weft_collective, after);
    CHECK_OK(weft_collective_run(comm, c, WEFT_STREAM_HOST));
    CHECK(out == (float)weft_comm_size(comm));
    c->size = sizeof(size_t); /* nothing but the size: an all-reduce of no elements */
    CHECK_OK(weft_collective_run(comm, c, WEFT_STREAM_HOST));
    c->after = WEFT_WORK_NONE;
    c->size = sizeof given;
    CHECK_RESULT(weft_collective_run(comm, c, WEFT_STREAM_HOST), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "unknown flags 0x80");
    c->flags = 0;
    in = 2;
    CHECK_OK(weft_collective_run(comm, c, WEFT_STREAM_HOST));
    CHECK(out == (float)(2 * weft_comm_size(comm)));
    given.later = 1;
    CHECK_RESULT(weft_collective_run(comm, c, WEFT_STREAM_HOST), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "weft_collective.size is");
    c->size = 0;
    CHECK_RESULT(weft_collective_run(comm, c, WEFT_STREAM_HOST), WEFT_E_INVALID);
    weft_comm_destroy(comm);
}

TEST(collectives_of_other_versions_are_read_as_far_as_both_know_them)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    ranks_as_threads(1, NULL, other_sizes, NULL);
    ranks_as_threads(2, NULL, other_sizes, NULL);
}
