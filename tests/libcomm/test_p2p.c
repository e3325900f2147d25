/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: order, independence, batches, sizes, and messages of a rank to itself. */
#include <stdlib.h>

#include "backend/local/page.h"
#include "comm.h"
#include "harness/ranks.h"

static weft_p2p message(weft_p2p_kind kind, int peer, uint32_t channel, float *buffer, size_t count)
{
    return (weft_p2p){
        .kind = kind, .peer = peer, .channel = channel, .dtype = WEFT_FP32, .buffer = buffer, .count = count};
}

static void run(weft_comm *comm, const weft_p2p *batch, size_t count)
{
    CHECK_OK(run_messages(comm, batch, count));
}

/* ------------------------------------------------------------------------------------------- every size and memory */

static void exchange_sizes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "sizes", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    enum { MOST = 100000 };
    void *heap;
    CHECK_OK(weft_memory_alloc(world, MOST * 8, &heap));
    float *plain = malloc(MOST * 8);
    static const size_t counts[] = {0, 1, 16, 1000, 1024, 1025, 5000, 8192, 40000, MOST};
    for (int memory = 0; memory < 4; memory++) {
        float *out = memory & 1 ? plain : heap, *in = (memory & 2 ? plain : (float *)heap) + MOST;
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            size_t n = counts[k];
            for (size_t i = 0; i < n; i++)
                out[i] = (float)((size_t)rank * 1000 + i % 777 + k);
            weft_p2p batch[] = {message(WEFT_SEND, next, 0, out, n), message(WEFT_RECV, prev, 0, in, n)};
            run(comm, batch, 2);
            for (size_t i = 0; i < n; i++)
                CHECK_MSG(in[i] == (float)((size_t)prev * 1000 + i % 777 + k), "element %zu of %zu", i, n);
            memset(out, 0xff, n * 4);
        }
    }
    weft_memory_free(world, heap);
    free(plain);
    weft_comm_destroy(comm);
}

TEST(messages_of_every_size_arrive)
{
    ranks_both_ways(2, exchange_sizes, NULL);
    ranks_both_ways(5, exchange_sizes, NULL);
}

/* ------------------------------------------------------------------------------------------- order and independence */

/* Many messages on several channels, received channel by channel in another order than sent: fifo within a channel, no
 * order between channels. The sender is far ahead of what a lane can hold. */
static void many_in_order(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.p2p_channels = 3;
    config.works = 512;
    weft_comm *comm = all_ranks(world, "order", &config);
    enum { EACH = 100 };
    static const size_t sizes[3] = {1, 1500, 9000};
    static weft_work works[2][3 * EACH];
    int rank = weft_comm_rank(comm);
    float *buffer = malloc(3 * EACH * 9000 * sizeof *buffer);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < EACH; i++) {
            float *b = buffer + (c * EACH + i) * 9000;
            for (size_t j = 0; j < sizes[c]; j++)
                b[j] = rank == 0 ? (float)(c * 1000 + i) : -1.0f;
        }
    for (int k = 0; k < 3 * EACH; k++) {
        int c = rank == 0 ? k % 3 : 2 - k / EACH, i = rank == 0 ? k / 3 : k % EACH;
        weft_p2p m =
            message(rank == 0 ? WEFT_SEND : WEFT_RECV, 1 - rank, (uint32_t)c, buffer + (c * EACH + i) * 9000, sizes[c]);
        CHECK_OK(start_messages(comm, &m, 1, &works[rank][k]));
    }
    for (int k = 0; k < 3 * EACH; k++)
        CHECK_OK(weft_work_finish(works[rank][3 * EACH - 1 - k], WEFT_STREAM_HOST));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < EACH; i++)
            for (size_t j = 0; j < sizes[c]; j++)
                CHECK_MSG(buffer[(c * EACH + i) * 9000 + (int)j] == (float)(c * 1000 + i), "channel %d message %d", c,
                          i);
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(messages_keep_their_order_within_a_channel_only)
{
    ranks_both_ways(2, many_in_order, NULL);
}

/* A large send on channel 0 that nobody receives yet does not hold up channel 1, the other direction or a
 * collective. */
static void lanes_are_independent(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "lanes", NULL);
    int rank = weft_comm_rank(comm);
    enum { LARGE = 200000 };
    float *large = calloc(LARGE, sizeof *large), small = (float)rank, got, sum;
    weft_work first;
    weft_p2p stuck = message(WEFT_SEND, 1, 0, large, LARGE);
    if (rank == 0)
        CHECK_OK(start_messages(comm, &stuck, 1, &first));
    for (int i = 0; i < 100; i++) {
        weft_p2p batch[] = {message(WEFT_SEND, 1 - rank, 1, &small, 1), message(WEFT_RECV, 1 - rank, 1, &got, 1)};
        run(comm, batch, 2);
        CHECK(got == (float)(1 - rank));
        CHECK_OK(weft_all_reduce_run(comm, &small, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
        CHECK(sum == 1.0f);
    }
    if (rank == 0)
        CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
    else
        CHECK_OK(weft_irecv(comm, large, LARGE, WEFT_FP32, 0, WEFT_STREAM_HOST, &first));
    if (rank == 1)
        CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
    free(large);
    weft_comm_destroy(comm);
}

TEST(a_message_that_waits_holds_up_nothing_else)
{
    ranks_both_ways(2, lanes_are_independent, NULL);
}

/* ------------------------------------------------------------------------------------------- batches */

/* Next and previous are the same peer: on two channels the two directions of a pipeline cannot be taken for each
 * other, with equal sizes (where a swap would be silent) and with others. */
static void two_stages(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "stages", NULL);
    int rank = weft_comm_rank(comm), other = 1 - rank;
    static const size_t sizes[][2] = {{3, 3}, {3, 5}};
    for (int k = 0; k < 2; k++) {
        size_t f = sizes[k][0], b = sizes[k][1];
        float forward[5], backward[5], got_forward[5], got_backward[5];
        for (int i = 0; i < 5; i++) {
            forward[i] = (float)(10 + rank);
            backward[i] = (float)(20 + rank);
        }
        weft_p2p batch[] = {message(WEFT_SEND, other, 1, backward, b), message(WEFT_RECV, other, 0, got_forward, f),
                            message(WEFT_SEND, other, 0, forward, f), message(WEFT_RECV, other, 1, got_backward, b)};
        run(comm, batch, 4);
        CHECK(got_forward[f - 1] == (float)(10 + other));
        CHECK(got_backward[b - 1] == (float)(20 + other));
    }
    weft_comm_destroy(comm);
}

TEST(two_stages_do_not_swap_their_directions)
{
    ranks_both_ways(2, two_stages, NULL);
}

/* One side batches, the other does one thing after the other. */
static void grouped_differently(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "grouped", NULL);
    int rank = weft_comm_rank(comm);
    float out[2000], in[2000];
    for (int i = 0; i < 2000; i++)
        out[i] = (float)(rank + i);
    if (rank == 0) {
        weft_p2p batch[] = {message(WEFT_SEND, 1, 0, out, 2000), message(WEFT_RECV, 1, 0, in, 2000)};
        run(comm, batch, 2);
    } else {
        weft_p2p receive = message(WEFT_RECV, 0, 0, in, 2000), send = message(WEFT_SEND, 0, 0, out, 2000);
        run(comm, &receive, 1);
        run(comm, &send, 1);
    }
    CHECK(in[1999] == (float)(1 - rank + 1999));
    weft_comm_destroy(comm);
}

TEST(ranks_may_group_their_messages_differently)
{
    ranks_both_ways(2, grouped_differently, NULL);
}

/* Both send first; neither batches, but both are in flight before either is waited for. */
static void both_send_first(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "first", NULL);
    int rank = weft_comm_rank(comm);
    enum { MIB8 = 2 << 20 };
    float *out = malloc(MIB8 * sizeof *out), *in = malloc(MIB8 * sizeof *in);
    for (int i = 0; i < MIB8; i++)
        out[i] = (float)(rank + i % 1000);
    weft_work sent, received;
    CHECK_OK(weft_isend(comm, out, MIB8, WEFT_FP32, 1 - rank, WEFT_STREAM_HOST, &sent));
    CHECK_OK(weft_irecv(comm, in, MIB8, WEFT_FP32, 1 - rank, WEFT_STREAM_HOST, &received));
    CHECK_OK(weft_work_finish(sent, WEFT_STREAM_HOST));
    CHECK_OK(weft_work_finish(received, WEFT_STREAM_HOST));
    CHECK(in[MIB8 - 1] == (float)(1 - rank + (MIB8 - 1) % 1000));
    free(out);
    free(in);
    weft_comm_destroy(comm);
}

TEST(both_may_send_first)
{
    ranks_both_ways(2, both_send_first, NULL);
}

/* The very first thing on a comm of four is an exchange of two; the others have done nothing yet. */
static void pair_comes_first(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "pair", NULL);
    int rank = weft_comm_rank(comm);
    float out = (float)rank, in = -1, sum, one = 1;
    if (rank == 1 || rank == 2) {
        weft_p2p batch[] = {message(WEFT_SEND, 3 - rank, 0, &out, 1), message(WEFT_RECV, 3 - rank, 0, &in, 1)};
        run(comm, batch, 2);
        CHECK(in == (float)(3 - rank));
    }
    CHECK_OK(weft_all_reduce_run(comm, &one, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK(sum == 4.0f);
    weft_comm_destroy(comm);
}

TEST(two_ranks_may_exchange_before_the_others_have_come)
{
    ranks_both_ways(4, pair_comes_first, NULL);
}

/* ------------------------------------------------------------------------------------------- to oneself */

static void to_oneself(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "self", NULL);
    int rank = weft_comm_rank(comm);
    float out[2] = {1 + (float)rank, 2 + (float)rank}, in[2] = {0, 0}, three[3];
    weft_p2p batch[] = {message(WEFT_RECV, rank, 0, &in[0], 1), message(WEFT_SEND, rank, 0, &out[0], 1),
                        message(WEFT_SEND, rank, 0, &out[1], 1), message(WEFT_RECV, rank, 0, &in[1], 1)};
    run(comm, batch, 4);
    CHECK(in[0] == out[0] && in[1] == out[1]);
    weft_work work;
    CHECK_RESULT(start_messages(comm, &batch[1], 1, &work), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "without its receive");
    weft_p2p sizes[] = {message(WEFT_SEND, rank, 0, out, 2), message(WEFT_RECV, rank, 0, three, 3)};
    CHECK_RESULT(start_messages(comm, sizes, 2, &work), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "sends itself 8 bytes and receives 12");
    CHECK_RESULT(start_messages(comm, &(weft_p2p){.kind = WEFT_SEND, .peer = 9}, 1, &work), WEFT_E_RANGE);
    weft_p2p channel = message(WEFT_SEND, rank, 2, out, 1);
    CHECK_RESULT(start_messages(comm, &channel, 1, &work), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "channel 2 of 2");
    weft_comm_destroy(comm);
}

TEST(a_rank_may_send_to_itself_in_one_batch)
{
    ranks_as_threads(1, NULL, to_oneself, NULL);
    ranks_both_ways(2, to_oneself, NULL);
}

/* ------------------------------------------------------------------------------------------- small ones */

/* After more small messages than a lane holds at a time, all received: one whose receiver waits for the sender. */
static void small_after_many(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 5000;
    weft_comm *comm = all_ranks(world, "small", &config);
    bool sends = weft_comm_rank(comm) == 0;
    enum { COUNT = 256 };
    void *memory;
    CHECK_OK(weft_memory_alloc(world, COUNT * sizeof(float), &memory));
    float heard = 0;
    for (int i = 0; i < 100; i++) {
        weft_p2p one = message(sends ? WEFT_SEND : WEFT_RECV, sends, 0, memory, COUNT);
        weft_p2p answer = message(sends ? WEFT_RECV : WEFT_SEND, sends, 1, &heard, 1);
        run(comm, &one, 1);
        run(comm, &answer, 1);
    }
    weft_p2p last = message(sends ? WEFT_SEND : WEFT_RECV, sends, 0, memory, COUNT);
    if (sends)
        run(comm, &last, 1);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (!sends)
        run(comm, &last, 1);
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(a_small_message_is_done_at_once_however_many_came_before)
{
    ranks_both_ways(2, small_after_many, NULL);
}

/* ------------------------------------------------------------------------------------------- comms without p2p */

static void without_p2p(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.flags = WEFT_COMM_NO_P2P;
    weft_comm *comm = all_ranks(world, "plain", &config), *other = all_ranks(world, "other", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    float v = 1, sum;
    CHECK_OK(weft_all_reduce_run(comm, &v, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK(sum == (float)ranks);
    weft_p2p m[] = {message(WEFT_SEND, rank, 0, &v, 1), message(WEFT_RECV, rank, 0, &sum, 1)};
    weft_work work;
    CHECK_RESULT(start_messages(comm, m, 2, &work), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "comm plain was made without p2p");
    weft_comm_config got = WEFT_COMM_CONFIG_INIT;
    CHECK_OK(weft_comm_config_get(comm, &got));
    CHECK_INT(got.p2p_channels, 0);
    CHECK_INT(got.flags, WEFT_COMM_NO_P2P);
    CHECK(comm->slots->stride < other->slots->stride);
    config.p2p_channels = 3;
    weft_comm *never;
    CHECK_RESULT(weft_comm_create(world, "never", &rank, 1, &config, &never), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "p2p_channels is 3");
    weft_comm_destroy(comm);
    weft_comm_destroy(other);
}

TEST(a_comm_without_p2p_refuses_messages_and_keeps_no_room_for_them)
{
    ranks_as_threads(1, NULL, without_p2p, NULL);
    ranks_both_ways(2, without_p2p, NULL);
    weft__page_layout with = weft__page_lay_out(8, 2, 4096), without = weft__page_lay_out(8, 0, 4096);
    CHECK(without.total + 8 * 2 * with.mail_bytes < with.total);
}

/* ------------------------------------------------------------------------------------------- differences */

static void sizes_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "differ", NULL);
    int rank = weft_comm_rank(comm);
    float *heap, buffer[8] = {0};
    void *memory;
    CHECK_OK(weft_memory_alloc(world, 1 << 20, &memory));
    heap = memory;
    weft_p2p m = rank == 0 ? message(WEFT_SEND, 1, 0, buffer, 8) : message(WEFT_RECV, 0, 0, buffer, 4);
    weft_result result = run_messages(comm, &m, 1);
    if (rank == 1) {
        CHECK_INT(result, WEFT_E_MISMATCH);
        CHECK_HAS(weft_last_error(), "rank 0 sends 32 bytes, rank 1 receives 16 bytes");
    } else {
        /* A small message may have left before; the next one tells. */
        weft_p2p again = message(WEFT_SEND, 1, 1, heap, 100000);
        CHECK_RESULT(run_messages(comm, &again, 1), WEFT_E_MISMATCH);
        CHECK_HAS(weft_last_error(), "rank 0 sends 32 bytes, rank 1 receives 16 bytes");
    }
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(a_message_of_another_size_names_both_ranks)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    ranks_both_ways(2, sizes_differ, NULL);
}

static void tags_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "tags", NULL);
    int rank = weft_comm_rank(comm);
    float v = 1;
    weft_p2p m = message(rank ? WEFT_RECV : WEFT_SEND, 1 - rank, 0, &v, 1);
    m.tag = 7;
    run(comm, &m, 1);
    m.tag = rank ? 0x12 : 0x11;
    weft_result result = run_messages(comm, &m, 1);
    if (rank == 1) {
        CHECK_INT(result, WEFT_E_MISMATCH);
        CHECK_HAS(weft_last_error(), "sends tag 0x11, rank 1 receives 0x12");
    }
    weft_comm_destroy(comm);
}

TEST(a_message_with_another_tag_is_refused)
{
    ranks_both_ways(2, tags_differ, NULL);
}

/* What one rank has reduced goes on to the next as soon as it is there. */
static void after_a_sum(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *sums = all_ranks(world, "sums", NULL), *messages = all_ranks(world, "messages", NULL);
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    for (int round = 0; round < 50; round++) {
        float mine = (float)(rank + round), sum = -1, got = -1;
        weft_work reduced, sent;
        CHECK_OK(weft_all_reduce_start(sums, &mine, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &reduced));
        weft_p2p both[2] = {
            {.kind = WEFT_SEND, .peer = (rank + 1) % ranks, .dtype = WEFT_FP32, .buffer = &sum, .count = 1},
            {.kind = WEFT_RECV, .peer = (rank + ranks - 1) % ranks, .dtype = WEFT_FP32, .buffer = &got, .count = 1}};
        weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
        batch.messages = both;
        batch.count = 2;
        batch.after = reduced;
        CHECK_OK(weft_p2p_start(messages, &batch, WEFT_STREAM_HOST, &sent));
        CHECK_OK(weft_work_finish(sent, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(reduced, WEFT_STREAM_HOST));
        CHECK(got == (float)(ranks * round + ranks * (ranks - 1) / 2));
        CHECK_RESULT(weft_p2p_start(messages, &batch, WEFT_STREAM_HOST, &sent), WEFT_E_TWICE);
    }
    weft_comm_destroy(sums);
    weft_comm_destroy(messages);
}

TEST(a_batch_may_run_after_a_work_of_another_comm)
{
    ranks_both_ways(3, after_a_sum, NULL);
}
