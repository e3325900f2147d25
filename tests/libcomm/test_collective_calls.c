/* SPDX-License-Identifier: Apache-2.0 */
/* The short calls, one for each collective: each asks for what its name says, by values worked out by hand. */
#include "harness/ranks.h"

enum { RANKS = 3, COUNT = 2, ALL = RANKS * COUNT };

/* Element `i` of rank `r` is 10 r + i. */
static void fill(int32_t *send, int rank)
{
    for (int i = 0; i < ALL; i++)
        send[i] = 10 * rank + i;
}

#define FINISHED(start)                         \
    do {                                        \
        CHECK_OK(start);                        \
        CHECK_OK(weft_work_finish(work, host)); \
    } while (0)

static void started(weft_comm *comm, int32_t recv[][ALL])
{
    int32_t send[ALL];
    weft_work work;
    const weft_stream host = WEFT_STREAM_HOST;
    fill(send, weft_comm_rank(comm));
    FINISHED(weft_all_reduce_start(comm, send, recv[WEFT_ALL_REDUCE], COUNT, WEFT_INT32, WEFT_SUM, host, &work));
    FINISHED(
        weft_reduce_scatter_start(comm, send, recv[WEFT_REDUCE_SCATTER], COUNT, WEFT_INT32, WEFT_SUM, host, &work));
    FINISHED(weft_all_gather_start(comm, send, recv[WEFT_ALL_GATHER], COUNT, WEFT_INT32, host, &work));
    FINISHED(weft_broadcast_start(comm, send, recv[WEFT_BROADCAST], COUNT, WEFT_INT32, 1, host, &work));
    FINISHED(weft_reduce_start(comm, send, recv[WEFT_REDUCE], COUNT, WEFT_INT32, WEFT_MAX, 2, host, &work));
    FINISHED(weft_all_to_all_start(comm, send, recv[WEFT_ALL_TO_ALL], COUNT, WEFT_INT32, host, &work));
    FINISHED(weft_barrier_start(comm, host, &work));
}

static void run(weft_comm *comm, int32_t recv[][ALL])
{
    int32_t send[ALL];
    const weft_stream host = WEFT_STREAM_HOST;
    fill(send, weft_comm_rank(comm));
    CHECK_OK(weft_all_reduce_run(comm, send, recv[WEFT_ALL_REDUCE], COUNT, WEFT_INT32, WEFT_SUM, host));
    CHECK_OK(weft_reduce_scatter_run(comm, send, recv[WEFT_REDUCE_SCATTER], COUNT, WEFT_INT32, WEFT_SUM, host));
    CHECK_OK(weft_all_gather_run(comm, send, recv[WEFT_ALL_GATHER], COUNT, WEFT_INT32, host));
    CHECK_OK(weft_broadcast_run(comm, send, recv[WEFT_BROADCAST], COUNT, WEFT_INT32, 1, host));
    CHECK_OK(weft_reduce_run(comm, send, recv[WEFT_REDUCE], COUNT, WEFT_INT32, WEFT_MAX, 2, host));
    CHECK_OK(weft_all_to_all_run(comm, send, recv[WEFT_ALL_TO_ALL], COUNT, WEFT_INT32, host));
    CHECK_OK(weft_barrier_run(comm, host));
}

/* What rank @p rank gets of each; 0 = left as it was. */
static const int32_t want[RANKS][WEFT_COLLECTIVE_KINDS][ALL] = {
    {[WEFT_ALL_REDUCE] = {30, 33},
     [WEFT_REDUCE_SCATTER] = {30, 33},
     [WEFT_ALL_GATHER] = {0, 1, 10, 11, 20, 21},
     [WEFT_BROADCAST] = {10, 11},
     [WEFT_ALL_TO_ALL] = {0, 1, 10, 11, 20, 21}},
    {[WEFT_ALL_REDUCE] = {30, 33},
     [WEFT_REDUCE_SCATTER] = {36, 39},
     [WEFT_ALL_GATHER] = {0, 1, 10, 11, 20, 21},
     [WEFT_BROADCAST] = {10, 11},
     [WEFT_ALL_TO_ALL] = {2, 3, 12, 13, 22, 23}},
    {[WEFT_ALL_REDUCE] = {30, 33},
     [WEFT_REDUCE_SCATTER] = {42, 45},
     [WEFT_ALL_GATHER] = {0, 1, 10, 11, 20, 21},
     [WEFT_BROADCAST] = {10, 11},
     [WEFT_REDUCE] = {20, 21},
     [WEFT_ALL_TO_ALL] = {4, 5, 14, 15, 24, 25}},
};

static void try_calls(weft_world *world, void *calls)
{
    weft_comm *comm = all_ranks(world, "calls", NULL);
    int32_t recv[WEFT_COLLECTIVE_KINDS][ALL] = {{0}};
    int rank = weft_world_rank(world);
    (*(void (**)(weft_comm *, int32_t[][ALL]))calls)(comm, recv);
    for (int k = 0; k < WEFT_COLLECTIVE_KINDS; k++)
        for (int i = 0; i < ALL; i++)
            CHECK_MSG(recv[k][i] == want[rank][k][i], "%s on rank %d: element %d is %d, not %d",
                      weft_collective_string((weft_collective_kind)k), rank, i, recv[k][i], want[rank][k][i]);
    weft_comm_destroy(comm);
}

TEST(each_call_asks_for_what_its_name_says)
{
    void (*calls[])(weft_comm *, int32_t[][ALL]) = {started, run};
    for (int i = 0; i < 2; i++)
        ranks_as_threads(RANKS, NULL, try_calls, &calls[i]);
}
