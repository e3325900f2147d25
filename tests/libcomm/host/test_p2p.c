/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to ranks of this machine and of others, in one batch and among collectives. */
#include "host.h"

static const size_t sizes[] = {0, 1, 1000, 16337, 70000, 0, 2, 200001};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 200001, RANKS = 4 };

static int32_t value(int from, int to, size_t n, size_t i)
{
    return (int32_t)(n * 1000003u + i * 7u + (size_t)from * 31u + (size_t)to);
}

static weft_p2p message(weft_p2p_kind kind, int peer, size_t n, int32_t *buffer)
{
    return (weft_p2p){.kind = kind,
                      .peer = peer,
                      .channel = (uint32_t)n % 2,
                      .dtype = WEFT_INT32,
                      .buffer = buffer,
                      .count = sizes[n],
                      .tag = n};
}

/* Everybody sends everybody messages of all sizes, itself included, in one batch each, and a sum goes on meanwhile. */
static void all_to_all(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = comm_of(world, "all", NULL, 0, "host");
    int32_t *out[SIZES][RANKS], *in[SIZES][RANKS];
    weft_work works[SIZES], sums[SIZES];
    int64_t one[SIZES];
    for (size_t n = 0; n < SIZES; n++) {
        weft_p2p batch[2 * RANKS];
        for (int peer = 0; peer < RANKS; peer++) {
            out[n][peer] = malloc(LARGEST * sizeof(int32_t));
            in[n][peer] = malloc(LARGEST * sizeof(int32_t));
            for (size_t i = 0; i < sizes[n]; i++)
                out[n][peer][i] = value(rank, peer, n, i);
            batch[(peer + rank) % RANKS] = message(WEFT_RECV, peer, n, in[n][peer]);
            batch[RANKS + peer] = message(WEFT_SEND, peer, n, out[n][peer]);
        }
        CHECK_OK(start_messages(comm, batch, 2 * RANKS, &works[n]));
        one[n] = (int64_t)n;
        CHECK_OK(weft_all_reduce_start(comm, &one[n], &one[n], 1, WEFT_INT64, WEFT_SUM, WEFT_STREAM_HOST, &sums[n]));
    }
    for (size_t n = SIZES; n-- > 0;) {
        CHECK_OK(weft_work_finish(works[n], WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(sums[n], WEFT_STREAM_HOST));
        CHECK_INT(one[n], (int64_t)n * RANKS);
        for (int peer = 0; peer < RANKS; peer++) {
            for (size_t i = 0; i < sizes[n]; i++)
                if (in[n][peer][i] != value(peer, rank, n, i))
                    FAIL("message %zu from %d to %d: element %zu is %d", n, peer, rank, i, (int)in[n][peer][i]);
            free(in[n][peer]);
            free(out[n][peer]);
        }
    }
    weft_comm_destroy(comm);
}

TEST(near_and_far_messages_share_batches)
{
    run_on((shape){2, 2}, all_to_all, NULL);
}

/* A message round all ranks, while another rank says nothing. */
static void ring(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    weft_comm *comm = comm_of(world, "all", NULL, 0, "host");
    for (int n = 0; n < 200; n++) {
        int32_t hop = n;
        weft_p2p in = {
            .kind = WEFT_RECV, .peer = (rank + ranks - 1) % ranks, .dtype = WEFT_INT32, .buffer = &hop, .count = 1};
        weft_p2p out = in;
        out.kind = WEFT_SEND;
        out.peer = (rank + 1) % ranks;
        if (rank > 0)
            CHECK_OK(run_messages(comm, &in, 1));
        hop += rank;
        CHECK_OK(run_messages(comm, &out, 1));
        if (rank > 0)
            continue;
        CHECK_OK(run_messages(comm, &in, 1));
        CHECK_INT(hop, n + ranks * (ranks - 1) / 2);
    }
    weft_comm_destroy(comm);
}

TEST(messages_go_round_all_ranks)
{
    run_on((shape){3, 2}, ring, NULL);
}
