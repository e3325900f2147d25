/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the wire costs next to nothing, goes on without anybody calling, and says for whom. */
#include <sys/resource.h>

#include "net.h"

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

enum { COUNT = 1000000 };

/* ------------------------------------------------------------------------------------------- a late peer */

static void one_is_late(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "late");
    float *buffer = calloc(COUNT, sizeof *buffer);
    int rank = weft_world_rank(world);
    CHECK_OK(weft_all_reduce_run(comm, buffer, buffer, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    if (rank == 1)
        pause_ms(1000);
    double begin = now_s(), cpu = cpu_s();
    CHECK_OK(weft_all_reduce_run(comm, buffer, buffer, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    double part = (cpu_s() - cpu) / (now_s() - begin);
    if (rank == 0) {
        test_note("a rank whose peer starts 1 s late uses %.1f %% of a core, the operation included", part * 100);
        CHECK_MSG(test_is_slow() || part < 0.2, "waiting takes %.0f %% of a core", part * 100);
    }
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(a_rank_whose_peer_is_late_sleeps)
{
    need_carrier();
    ranks_as_processes(2, NULL, one_is_late, NULL);
}

/* ------------------------------------------------------------------------------------------- without callers */

/* Nobody calls weft for @p ms between start and finish: had the operation ended by then? */
static bool ends_alone(weft_world *world, weft_comm *comm, float *buffer, int ms)
{
    for (int i = 0; i < COUNT; i++)
        buffer[i] = (float)(i % 100);
    uint64_t before = weft_trace_count(world);
    weft_work work;
    CHECK_OK(weft_all_reduce_start(comm, buffer, buffer, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
    pause_ms(ms);
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    for (int i = 0; i < COUNT; i++)
        if (buffer[i] != (float)(2 * (i % 100)))
            FAIL("element %d is %g", i, (double)buffer[i]);
    weft_trace_record record;
    CHECK_INT(weft_trace_read(world, before, &record, 1, NULL), 1);
    CHECK(record.first && record.first <= record.last && record.last_arrival <= record.last);
    CHECK(record.late_rank == 0 || record.late_rank == 1);
    return record.last < record.wait;
}

static void nobody_calls(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "overlap");
    float *buffer = malloc(COUNT * sizeof *buffer);
    int64_t alone = 0;
    for (int ms = 50; alone < 2 && ms < 5000; ms *= 2) {
        alone = ends_alone(world, comm, buffer, ms);
        CHECK_OK(weft_all_reduce_run(comm, &alone, &alone, 1, WEFT_INT64, WEFT_SUM, WEFT_STREAM_HOST));
    }
    CHECK_INT(alone, 2);
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(operations_go_on_while_callers_compute)
{
    need_carrier();
    ranks_as_processes(2, NULL, nobody_calls, NULL);
}

/* ------------------------------------------------------------------------------------------- who is missing */

static void one_never_comes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = carrier();
    config.timeout_ms = 300;
    weft_comm *comm = all_ranks(world, "missed", &config);
    float v = 1;
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 2)
        pause_ms(1500);
    weft_result result = weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "not arrived: 2 (last seen in operation 1, barrier");
    weft_comm_destroy(comm);
}

TEST(a_deadline_names_the_ranks_that_have_not_arrived)
{
    need_carrier();
    quiet();
    ranks_as_processes(3, NULL, one_never_comes, NULL);
}

static void nobody_receives(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = carrier();
    config.timeout_ms = 300;
    weft_comm *comm = all_ranks(world, "unheard", &config);
    int rank = weft_world_rank(world);
    float *v = calloc(COUNT, sizeof *v);
    weft_p2p m = {.kind = rank ? WEFT_RECV : WEFT_SEND, .peer = 1 - rank, .channel = 1, .buffer = v, .count = COUNT};
    if (rank == 1)
        pause_ms(1500);
    CHECK_RESULT(run_messages(comm, &m, 1), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "rank 1 has taken ");
    CHECK_HAS(weft_last_error(), " of 4000000 bytes on channel 1");
    free(v);
    weft_comm_destroy(comm);
}

TEST(a_deadline_says_how_far_a_message_came)
{
    need_carrier();
    quiet();
    ranks_as_processes(2, NULL, nobody_receives, NULL);
}
