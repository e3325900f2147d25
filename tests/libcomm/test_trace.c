/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: what is recorded, in memory and in the file that outlives its process. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/ranks.h"
#include "progress.h"
#include "start.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static weft_result send(weft_comm *comm, float *value, int peer)
{
    weft_p2p m = {.kind = WEFT_SEND, .peer = peer, .dtype = WEFT_FP32, .buffer = value, .count = 1};
    return run_messages(comm, &m, 1);
}

static weft_result receive(weft_comm *comm, float *value, int peer)
{
    weft_p2p m = {.kind = WEFT_RECV, .peer = peer, .dtype = WEFT_FP32, .buffer = value, .count = 1};
    return run_messages(comm, &m, 1);
}

static void records(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = all_ranks(world, "traced", NULL);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    uint64_t first = weft_trace_count(world);
    weft_collective c = WEFT_COLLECTIVE_INIT;
    float in[6] = {0}, out[6];
    c.kind = WEFT_REDUCE_SCATTER;
    c.send = in;
    c.recv = out;
    c.count = 2;
    c.label = weft_trace_label(world, "bucket 0");
    CHECK_INT(weft_trace_label(world, "bucket 0"), c.label);
    weft_work work;
    /* Rank 1 starts when it has heard from the others that they have: it is the last by cause, not by chance. */
    float token = 0;
    for (int r = 0; r < 3 && rank == 1; r++)
        if (r != 1)
            CHECK_OK(receive(comm, &token, r));
    CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
    uint64_t started = weft_trace_now(world);
    if (rank != 1)
        CHECK_OK(send(comm, &token, 1));
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    uint64_t span = weft_span_begin(world, weft_trace_label(world, "forward"), 7);
    pause_ms(2);
    weft_span_end(world, span);
    weft_trace_record r[5];
    uint64_t next;
    CHECK_INT(weft_trace_read(world, first, r, 5, &next), rank == 1 ? 4 : 3);
    CHECK_INT(next, first + (rank == 1 ? 4 : 3));
    const weft_trace_record *c0 = &r[rank == 1 ? 2 : 0], *message = &r[rank == 1 ? 0 : 1], *s = &r[rank == 1 ? 3 : 2];
    CHECK_INT(c0->sequence, first + (uint64_t)(c0 - r) + 1);
    CHECK_INT(c0->kind, WEFT_TRACE_COLLECTIVE);
    CHECK_INT(c0->operation, WEFT_REDUCE_SCATTER);
    CHECK_STR(weft_trace_label_text(world, c0->label), "bucket 0");
    CHECK_STR(weft_trace_label_text(world, c0->comm), "traced");
    CHECK_INT(c0->result, WEFT_OK);
    CHECK_INT(c0->number, 2);
    CHECK_INT(c0->bytes, 24);
    CHECK_INT(c0->late_rank, 1);
    CHECK(c0->ready <= c0->start && c0->start <= c0->first && c0->first <= c0->last);
    CHECK(c0->last_arrival <= c0->first && c0->wait <= c0->go && c0->last <= c0->go);
    CHECK(rank == 1 || c0->last_arrival > started);
    CHECK_INT(message->kind, WEFT_TRACE_P2P);
    CHECK_INT(message->bytes, 4);
    CHECK_INT(s->kind, WEFT_TRACE_SPAN);
    CHECK_INT(s->number, 7);
    CHECK(weft_trace_ns(world, s->last - s->start) >= 2e6);
    weft_comm_destroy(comm);
}

TEST(an_operation_leaves_its_times)
{
    ranks_both_ways(3, records, NULL);
}

/* Rank 0 is ready to receive, and then kept from it until the message, which is not sent before, has come. */
static void kept_from_receiving(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "messages", NULL), *talk = all_ranks(world, "talk", NULL);
    uint64_t sent_at = 0;
    weft_p2p m = {.peer = 1, .dtype = WEFT_UINT8, .buffer = &sent_at, .count = sizeof sent_at};
    if (weft_world_rank(world) == 1) {
        CHECK_OK(weft_barrier_run(talk, WEFT_STREAM_HOST));
        sent_at = weft__ticks();
        m.kind = WEFT_SEND, m.peer = 0;
        CHECK_OK(run_messages(comm, &m, 1));
        CHECK_OK(weft_barrier_run(talk, WEFT_STREAM_HOST));
    } else {
        weft__work *work;
        weft_p2p *messages;
        CHECK_OK(weft__p2p_prepare(comm, WEFT_STREAM_HOST, WEFT_WORK_NONE, &work, &messages));
        m.kind = WEFT_RECV;
        messages[0] = m;
        work->op.message_count = 1;
        weft__work_claim_own(work);
        uint64_t ready = work->ready = weft__ticks();
        CHECK_OK(weft_barrier_run(talk, WEFT_STREAM_HOST));
        CHECK_OK(weft_barrier_run(talk, WEFT_STREAM_HOST));
        weft__progress_enter(world);
        CHECK_OK(weft__start_in_backend(work));
        weft__progress_leave(world);
        CHECK(weft__work_ended(work));
        CHECK_INT(work->op.start, ready);
        CHECK(ready < sent_at && sent_at <= work->op.first && work->op.first <= work->op.last);
        CHECK_OK(weft__work_end(work, ready, work->op.last));
    }
    weft_comm_destroy(comm);
    weft_comm_destroy(talk);
}

TEST(a_message_is_not_received_before_it_is_sent)
{
    ranks_both_ways(2, kept_from_receiving, NULL);
}

static void overflows(weft_world *world, void *argument)
{
    (void)argument;
    weft_trace_record r[100];
    uint64_t next, old = weft_span_begin(world, 0, 1);
    for (int i = 0; i < 100; i++)
        weft_span_end(world, weft_span_begin(world, 0, (uint64_t)i + 2));
    weft_span_end(world, old); /* its place belongs to a later one by now */
    CHECK_INT(weft_trace_count(world), 101);
    CHECK_INT(weft_trace_read(world, 0, r, 100, &next), 64);
    CHECK_INT(r[0].number, 38);
    CHECK_INT(r[63].number, 101);
    CHECK_INT(next, 101);
    for (int i = 0; i < 1100; i++) {
        char text[16];
        snprintf(text, sizeof text, "label %d", i);
        uint32_t label = weft_trace_label(world, text);
        CHECK(i >= WEFT_TRACE_LABELS - 1 ? label == 0 : label != 0);
    }
}

static int full_lines;

static void take_line(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    full_lines += level == WEFT_LOG_WARN && strstr(line, "1023 labels already: 'label 102") != NULL;
}

TEST(the_ring_keeps_the_last_records_and_the_table_its_labels)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace_records = 64;
    weft_log_set(WEFT_LOG_WARN, take_line, NULL);
    ranks_as_threads(1, &config, overflows, NULL);
    CHECK_INT(full_lines, 1); /* said once, naming the first without one */
}

static void switched(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "switched", NULL);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    uint64_t before = weft_trace_count(world), under_way = weft_span_begin(world, 0, 1);
    weft_trace_enable(world, 0);
    weft_work work;
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    weft_span_end(world, weft_span_begin(world, 0, 2));
    weft_trace_step(world, 3, weft_trace_now(world));
    weft_span_end(world, under_way);
    CHECK_INT(weft_trace_count(world), before + 1);
    weft_trace_enable(world, 1);
    weft_trace_step_as(world, 4, weft_trace_now(world), weft_trace_label(world, "serial"));
    weft_trace_record r[3];
    CHECK_INT(weft_trace_read(world, before, r, 3, NULL), 2);
    CHECK_INT(r[0].number, 1);
    CHECK_INT(r[0].result, WEFT_OK);
    CHECK_INT(r[1].kind, WEFT_TRACE_STEP);
    CHECK_INT(r[1].number, 4);
    CHECK_STR(weft_trace_label_text(world, r[1].label), "serial");
    weft_comm_destroy(comm);
}

TEST(what_happens_while_it_is_off_leaves_no_record)
{
    ranks_as_threads(2, NULL, switched, NULL);
}

/* Of each batch in a file all messages are told, numbered by peer, channel and direction. */
static void exchanged(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = all_ranks(world, "pair", NULL);
    uint64_t first = weft_trace_count(world);
    for (uint64_t i = 1; i <= 2; i++) {
        float in[2] = {0}, out[2] = {0};
        weft_p2p m[] = {
            {.kind = WEFT_SEND, .peer = 1 - rank, .dtype = WEFT_FP32, .buffer = out, .count = 1},
            {.kind = WEFT_RECV, .peer = 1 - rank, .dtype = WEFT_FP32, .buffer = in, .count = 1},
            {.kind = WEFT_SEND, .peer = 1 - rank, .channel = 1, .dtype = WEFT_FP32, .buffer = out, .count = 2},
            {.kind = WEFT_RECV, .peer = 1 - rank, .channel = 1, .dtype = WEFT_FP32, .buffer = in, .count = 2}};
        CHECK_OK(run_messages(comm, m, 4));
        weft_trace_record r[5];
        CHECK_INT(weft_trace_read(world, first, r, 5, &first), 5);
        CHECK_INT(r[0].kind, WEFT_TRACE_P2P);
        CHECK_INT(r[0].messages, 4);
        CHECK_INT(r[0].bytes, 24);
        for (int k = 0; k < 4; k++) {
            CHECK_INT(r[k + 1].kind, WEFT_TRACE_MESSAGE);
            CHECK_INT(r[k + 1].operation, m[k].kind);
            CHECK_INT(r[k + 1].late_rank, 1 - rank);
            CHECK_INT(r[k + 1].messages, m[k].channel);
            CHECK_INT(r[k + 1].number, i);
            CHECK_INT(r[k + 1].bytes, 4 * m[k].count);
            CHECK_INT(r[k + 1].comm_entry, r[0].comm_entry);
        }
    }
    weft_comm_destroy(comm);
}

/* A quarter of the ring are recorded one by one; of one more the batch alone is, and the next goes on behind them. */
static void exchanged_many(weft_world *world, void *argument)
{
    (void)argument;
    enum { MOST = 16 };
    static const uint32_t counts[] = {MOST, MOST + 1, 1};
    weft_comm *comm = all_ranks(world, "many", NULL);
    uint64_t first = weft_trace_count(world), sent = 0;
    for (int i = 0; i < 3; i++) {
        float value = 0;
        weft_p2p m[MOST + 1];
        for (int k = 0; k <= MOST; k++)
            m[k] = (weft_p2p){.kind = weft_world_rank(world) ? WEFT_RECV : WEFT_SEND,
                              .peer = 1 - weft_world_rank(world),
                              .dtype = WEFT_FP32,
                              .buffer = &value,
                              .count = k == 0};
        CHECK_OK(run_messages(comm, m, counts[i]));
        bool told = counts[i] <= MOST;
        weft_trace_record r[MOST + 2];
        CHECK_INT(weft_trace_read(world, first, r, MOST + 2, &first), told ? 1 + counts[i] : 1);
        CHECK_INT(r[0].kind, WEFT_TRACE_P2P);
        CHECK_INT(r[0].result, WEFT_OK);
        CHECK_INT(r[0].bytes, 4);
        CHECK_INT(r[0].messages, told ? counts[i] : 0);
        CHECK_INT(r[0].number, told ? 0 : counts[i]);
        for (uint32_t k = 1; told && k <= counts[i]; k++)
            CHECK_INT(r[k].number, sent + k);
        sent += counts[i];
    }
    weft_comm_destroy(comm);
}

static void record_in_files(uint32_t records, rank_body body)
{
    char folder[] = "/tmp/weft-trace-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace = folder;
    config.trace_records = records;
    ranks_as_processes(2, &config, body, NULL);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(path, sizeof path, "%s/trace.%d.weft", folder, rank);
        CHECK(unlink(path) == 0);
    }
    rmdir(folder);
}

TEST(messages_are_recorded_in_files)
{
    record_in_files(0, exchanged);
}

TEST(so_many_messages_that_they_would_fill_the_ring_are_counted)
{
    record_in_files(64, exchanged_many);
}

static void killed(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "doomed", NULL);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_work work;
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        raise(SIGKILL);
    }
    pause_ms(100);
    weft_comm_destroy(comm);
}

static char *read_whole(const char *path, size_t *bytes_out)
{
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    struct stat info;
    CHECK(fstat(fd, &info) == 0);
    char *file = malloc((size_t)info.st_size);
    CHECK(read(fd, file, (size_t)info.st_size) == info.st_size);
    close(fd);
    *bytes_out = (size_t)info.st_size;
    return file;
}

TEST(the_file_is_readable_after_a_kill)
{
    char folder[] = "/tmp/weft-trace-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace = folder;
    rank_group group = ranks_start(2, &config, killed, NULL);
    ranks_wait(&group, 0);
    ranks_expect_passed(&group, 1);
    size_t bytes;
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/trace.0.weft", folder);
    char *file = read_whole(path, &bytes);
    unlink(path);
    rmdir(folder);
    weft_trace_header h;
    memcpy(&h, file, sizeof h);
    CHECK(h.magic == WEFT_TRACE_MAGIC);
    CHECK_INT(h.version, WEFT_TRACE_VERSION);
    CHECK_INT(h.rank, 0);
    CHECK_INT(h.size, 2);
    CHECK_INT(h.record_bytes, sizeof(weft_trace_record));
    CHECK_STR(h.clock, "CLOCK_MONOTONIC");
    size_t ring_at = h.header_bytes + (size_t)h.labels * h.label_bytes;
    size_t comms_at = ring_at + (size_t)h.capacity * h.record_bytes;
    CHECK_INT(bytes, comms_at + (size_t)h.comms * h.comm_bytes);
    CHECK_INT(h.next, 2);
    weft_trace_record r[2];
    memcpy(r, file + ring_at, sizeof r);
    CHECK_INT(r[0].sequence, 1);
    CHECK_INT(r[0].result, WEFT_OK);
    CHECK_INT(r[1].sequence, 2);
    CHECK_INT(r[1].result, WEFT_PENDING);
    CHECK_STR(file + h.header_bytes + (size_t)r[1].comm * h.label_bytes, "doomed");
    weft_trace_comm comms[2];
    memcpy(comms, file + comms_at, sizeof comms);
    CHECK_INT(r[0].comm_entry, 1);
    CHECK_INT(comms[1].label, r[0].comm);
    CHECK_INT(comms[1].rank, 0);
    CHECK_INT(comms[1].size, 2);
    CHECK_INT(comms[1].incarnation, 1);
    free(file);
}

TEST(a_trace_that_cannot_be_written_is_an_error_that_names_it)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace = "/proc/no/such/folder";
    weft_world *world;
    CHECK_RESULT(weft_world_open(&config, &world), WEFT_E_SYSTEM);
    CHECK_HAS(weft_last_error(), "/proc/no/such/folder");
    config.trace = NULL;
    config.trace_records = 100;
    CHECK_RESULT(weft_world_open(&config, &world), WEFT_E_INVALID);
}
