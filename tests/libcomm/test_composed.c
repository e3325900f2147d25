/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, scatter and all_to_allv against a plain computation of what each rank ought to hold. */
#include <stdlib.h>
#include <weft/composed.h>

#include "harness/ranks.h"

enum { MOST_RANKS = 8, MOST_COUNT = 5000 };
static const size_t counts[] = {0, 1, 7, 1000, MOST_COUNT};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Element @p i of what rank @p from has for rank @p to. */
static int32_t value(int from, int to, size_t i)
{
    return (int32_t)((size_t)from * 1000003 + (size_t)to * 10007 + i);
}

typedef struct memory {
    int32_t *send, *recv;
    size_t elements; /* of each */
    weft_world *world;
    bool in_heap;
} memory;

static memory take_memory(weft_world *world, size_t elements, bool in_heap)
{
    memory m = {.elements = elements, .world = world, .in_heap = in_heap};
    void *send, *recv;
    if (in_heap) {
        CHECK_OK(weft_memory_alloc(world, elements * sizeof(int32_t), &send));
        CHECK_OK(weft_memory_alloc(world, elements * sizeof(int32_t), &recv));
    } else {
        send = malloc(elements * sizeof(int32_t));
        recv = malloc(elements * sizeof(int32_t));
        CHECK(send && recv);
    }
    m.send = send;
    m.recv = recv;
    return m;
}

static void give_memory(memory *m)
{
    if (m->in_heap) {
        weft_memory_free(m->world, m->send);
        weft_memory_free(m->world, m->recv);
    } else {
        free(m->send);
        free(m->recv);
    }
}

static void spoil(int32_t *at, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        at[i] = -1;
}

static void check_untouched(const int32_t *at, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        CHECK_INT(at[i], -1);
}

/* ------------------------------------------------------------------------------------------- gather, scatter */

typedef struct trial {
    weft_comm *comm;
    int rank, ranks, root;
    size_t count;
    bool in_place; /* on the root */
    bool halves;   /* start and finish, not run */
} trial;

static void gather_once(const trial *t, const int32_t *send, int32_t *recv)
{
    weft_work work;
    if (!t->halves) {
        CHECK_OK(weft_gather_run(t->comm, send, recv, t->count, WEFT_INT32, t->root, WEFT_STREAM_HOST));
        return;
    }
    CHECK_OK(weft_gather_start(t->comm, send, recv, t->count, WEFT_INT32, t->root, WEFT_STREAM_HOST, &work));
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
}

static void scatter_once(const trial *t, const int32_t *send, int32_t *recv)
{
    weft_work work;
    if (!t->halves) {
        CHECK_OK(weft_scatter_run(t->comm, send, recv, t->count, WEFT_INT32, t->root, WEFT_STREAM_HOST));
        return;
    }
    CHECK_OK(weft_scatter_start(t->comm, send, recv, t->count, WEFT_INT32, t->root, WEFT_STREAM_HOST, &work));
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
}

static void try_gather(const trial *t, const memory *m)
{
    bool is_root = t->rank == t->root;
    int32_t *own = is_root && t->in_place ? m->recv + (size_t)t->rank * t->count : m->send;
    spoil(m->recv, m->elements);
    for (size_t i = 0; i < t->count; i++)
        own[i] = value(t->rank, t->root, i);
    gather_once(t, own, is_root ? m->recv : NULL);
    size_t got = is_root ? t->count * (size_t)t->ranks : 0;
    for (size_t i = 0; i < got; i++)
        CHECK_INT(m->recv[i], value((int)(i / t->count), t->root, i % t->count));
    check_untouched(m->recv + got, m->elements - got);
}

static void try_scatter(const trial *t, const memory *m)
{
    bool is_root = t->rank == t->root;
    int32_t *to = is_root && t->in_place ? m->send + (size_t)t->rank * t->count : m->recv;
    spoil(m->recv, m->elements);
    for (size_t i = 0; i < t->count * (size_t)t->ranks; i++)
        m->send[i] = value(t->root, (int)(i / t->count), i % t->count);
    scatter_once(t, is_root ? m->send : NULL, to);
    for (size_t i = 0; i < t->count; i++)
        CHECK_INT(to[i], value(t->root, t->rank, i));
    check_untouched(m->recv + (to == m->recv ? t->count : 0), m->elements - (to == m->recv ? t->count : 0));
}

/* Which of many alike to try where all takes long. */
static bool is_left_out(int number)
{
    return test_is_slow() && number % 5;
}

static void exchange_with_roots(weft_world *world, void *argument)
{
    (void)argument;
    trial t = {.comm = all_ranks(world, "roots", NULL)};
    t.rank = weft_comm_rank(t.comm);
    t.ranks = weft_comm_size(t.comm);
    int number = 0;
    for (int heap = 0; heap < 2; heap++) {
        memory m = take_memory(world, (size_t)t.ranks * MOST_COUNT + 3, heap);
        for (t.root = 0; t.root<t.ranks; t.root += t.ranks> 4 ? 3 : 1)
            for (int c = 0; c < COUNTS; c++)
                for (int way = 0; way < 4; way++) {
                    t.count = counts[c];
                    t.in_place = way & 1;
                    t.halves = way & 2;
                    if (is_left_out(number++))
                        continue;
                    try_gather(&t, &m);
                    try_scatter(&t, &m);
                }
        give_memory(&m);
    }
    weft_comm_destroy(t.comm);
}

TEST(a_root_gathers_and_scatters_parts_of_every_size)
{
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        ranks_as_threads(ranks, NULL, exchange_with_roots, NULL);
    ranks_as_processes(3, NULL, exchange_with_roots, NULL);
}

/* ------------------------------------------------------------------------------------------- all_to_allv */

/* Elements that rank @p from has for rank @p to: none for some, different for all others. */
static size_t uneven(int from, int to, int salt)
{
    int kind = (from * 3 + to * 5 + salt) % 4;
    return kind == 0 ? 0 : (size_t)(from * 7 + to * 11 + kind * 100);
}

typedef struct lists {
    size_t send_counts[MOST_RANKS], send_offsets[MOST_RANKS], recv_counts[MOST_RANKS], recv_offsets[MOST_RANKS];
} lists;

/* Parts side by side, or with gaps and in falling order. */
static lists make_lists(int rank, int ranks, int salt, bool packed)
{
    lists l = {{0}, {0}, {0}, {0}};
    size_t sent = 0, received = 0;
    for (int k = 0; k < ranks; k++) {
        int r = packed ? k : ranks - 1 - k;
        l.send_counts[r] = uneven(rank, r, salt);
        l.recv_counts[r] = uneven(r, rank, salt);
        l.send_offsets[r] = sent + !packed;
        l.recv_offsets[r] = received + !packed;
        sent = l.send_offsets[r] + l.send_counts[r] + !packed;
        received = l.recv_offsets[r] + l.recv_counts[r] + !packed;
    }
    return l;
}

static void try_uneven(weft_comm *comm, const memory *m, int salt, bool packed, bool halves)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    lists l = make_lists(rank, ranks, salt, packed);
    const size_t *send_offsets = packed ? NULL : l.send_offsets, *recv_offsets = packed ? NULL : l.recv_offsets;
    weft_work work;
    spoil(m->recv, m->elements);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < l.send_counts[r]; i++)
            m->send[l.send_offsets[r] + i] = value(rank, r, i);
    if (halves) {
        CHECK_OK(weft_all_to_allv_start(comm, m->send, l.send_counts, send_offsets, m->recv, l.recv_counts,
                                        recv_offsets, WEFT_INT32, WEFT_STREAM_HOST, &work));
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    } else {
        CHECK_OK(weft_all_to_allv_run(comm, m->send, l.send_counts, send_offsets, m->recv, l.recv_counts, recv_offsets,
                                      WEFT_INT32, WEFT_STREAM_HOST));
    }
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < l.recv_counts[r]; i++) {
            int32_t *got = &m->recv[l.recv_offsets[r] + i];
            CHECK_INT(*got, value(r, rank, i));
            *got = -1;
        }
    check_untouched(m->recv, m->elements); /* the gaps too */
}

static void exchange_uneven(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "uneven", NULL);
    for (int heap = 0; heap < 2; heap++) {
        memory m = take_memory(world, (size_t)MOST_RANKS * 600, heap);
        for (int salt = 0; salt < 4; salt++)
            for (int way = 0; way < 4; way++)
                try_uneven(comm, &m, salt, way & 1, way & 2);
        give_memory(&m);
    }
    weft_comm_destroy(comm);
}

TEST(every_rank_gets_its_uneven_parts_and_nothing_else_is_touched)
{
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        ranks_as_threads(ranks, NULL, exchange_uneven, NULL);
    ranks_as_processes(4, NULL, exchange_uneven, NULL);
}

/* An exchange of more messages than a batch of the caller's may have. */
static void exchange_with_many(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "many", NULL);
    enum { MANY = WEFT_P2P_BATCH_MAX / 2 + 2 };
    int rank = weft_comm_rank(comm);
    size_t ones[MANY];
    int32_t send[MANY], recv[MANY];
    for (int r = 0; r < MANY; r++)
        ones[r] = 1, send[r] = value(rank, r, 0);
    CHECK_OK(weft_all_to_allv_run(comm, send, ones, NULL, recv, ones, NULL, WEFT_INT32, WEFT_STREAM_HOST));
    for (int r = 0; r < MANY; r++)
        CHECK_INT(recv[r], value(r, rank, 0));
    weft_comm_destroy(comm);
}

TEST(an_exchange_of_more_ranks_than_a_batch_has_room_for)
{
    ranks_as_threads(WEFT_P2P_BATCH_MAX / 2 + 2, NULL, exchange_with_many, NULL);
}

/* ------------------------------------------------------------------------------------------- beside other messages */

/* Many in flight at once, of different kinds, and a message of one's own between them: in order on their channel. */
static void keep_in_flight(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "flight", NULL);
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    int32_t part = rank, all[MOST_RANKS] = {0}, spread[MOST_RANKS], mine = -1, token = 100 + rank, got = -1;
    weft_work works[4];
    for (int r = 0; r < ranks; r++)
        spread[r] = 10 * r;
    CHECK_OK(weft_gather_start(comm, &part, all, 1, WEFT_INT32, 0, WEFT_STREAM_HOST, &works[0]));
    CHECK_OK(weft_isend(comm, &token, 1, WEFT_INT32, next, WEFT_STREAM_HOST, &works[1]));
    CHECK_OK(weft_irecv(comm, &got, 1, WEFT_INT32, previous, WEFT_STREAM_HOST, &works[2]));
    CHECK_OK(weft_scatter_start(comm, spread, &mine, 1, WEFT_INT32, ranks - 1, WEFT_STREAM_HOST, &works[3]));
    for (int i = 3; i >= 0; i--)
        CHECK_OK(weft_work_finish(works[i], WEFT_STREAM_HOST));
    CHECK_INT(mine, 10 * rank);
    CHECK_INT(got, 100 + previous);
    for (int r = 0; rank == 0 && r < ranks; r++)
        CHECK_INT(all[r], r);
    weft_comm_destroy(comm);
}

TEST(exchanges_and_messages_in_flight_keep_their_order)
{
    ranks_both_ways(3, keep_in_flight, NULL);
    ranks_as_threads(2, NULL, keep_in_flight, NULL);
}

/* ------------------------------------------------------------------------------------------- errors */

static void ask_for_nonsense(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "nonsense", NULL);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.flags = WEFT_COMM_NO_P2P;
    weft_comm *without = all_ranks(world, "without", &config);
    int32_t buffer[8] = {0};
    size_t ones[2] = {1, 1}, huge[2] = {1, SIZE_MAX / 2}, zeros[2] = {0, 0};
    weft_work work;
    const weft_stream host = WEFT_STREAM_HOST;
    CHECK_RESULT(weft_gather_run(comm, buffer, buffer + 4, 1, WEFT_INT32, 2, host), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "gather with root 2 of 2");
    CHECK_RESULT(weft_scatter_run(comm, buffer, buffer + 4, 1, WEFT_INT32, -1, host), WEFT_E_RANGE);
    CHECK_RESULT(weft_gather_run(comm, buffer, buffer + 4, 1, (weft_dtype)99, 0, host), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "dtype 99");
    CHECK_RESULT(weft_gather_run(comm, buffer, buffer + 4, SIZE_MAX / 8, WEFT_INT32, 0, host), WEFT_E_RANGE);
    CHECK_RESULT(weft_gather_run(comm, NULL, buffer, 1, WEFT_INT32, 0, host), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "gather without a send buffer");
    CHECK_RESULT(weft_scatter_run(comm, buffer, NULL, 1, WEFT_INT32, 0, host), WEFT_E_INVALID);
    CHECK_RESULT(weft_gather_run(comm, (char *)buffer + 1, buffer + 4, 1, WEFT_INT32, 0, host), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "not aligned");
    CHECK_RESULT(weft_gather_start(comm, buffer, buffer + 4, 1, WEFT_INT32, 0, host, NULL), WEFT_E_INVALID);
    if (weft_comm_rank(comm) == 0) {
        CHECK_RESULT(weft_gather_run(comm, buffer + 1, buffer, 1, WEFT_INT32, 0, host), WEFT_E_INVALID);
        CHECK_HAS(weft_last_error(), "gather: the buffers overlap, but not as in place");
    }
    CHECK_RESULT(weft_all_to_allv_run(comm, buffer, ones, NULL, buffer + 1, ones, NULL, WEFT_INT32, host),
                 WEFT_E_INVALID);
    CHECK_RESULT(weft_all_to_allv_run(comm, buffer, NULL, NULL, buffer + 4, ones, NULL, WEFT_INT32, host),
                 WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "all_to_allv without send_counts");
    CHECK_RESULT(weft_all_to_allv_run(comm, buffer, ones, NULL, buffer + 4, huge, NULL, WEFT_INT32, host),
                 WEFT_E_RANGE);
    CHECK_RESULT(weft_all_to_allv_run(comm, buffer, ones, huge, buffer + 4, ones, NULL, WEFT_INT32, host),
                 WEFT_E_RANGE);
    CHECK_RESULT(weft_gather_start(without, buffer, buffer + 4, 1, WEFT_INT32, 0, host, &work), WEFT_E_UNSUPPORTED);
    /* Nothing has happened, so all is well. */
    CHECK_OK(weft_all_to_allv_run(comm, NULL, zeros, NULL, NULL, zeros, NULL, WEFT_INT32, host));
    weft_comm_destroy(without);
    weft_comm_destroy(comm);
}

TEST(nonsense_is_refused_by_name_before_anything_starts)
{
    ranks_both_ways(2, ask_for_nonsense, NULL);
}

static void disagree(weft_world *world, void *argument)
{
    const int *about = argument;
    weft_comm *comm = all_ranks(world, "disagree", NULL);
    int rank = weft_comm_rank(comm);
    int32_t send[8] = {0}, recv[8];
    weft_result result;
    if (*about == 0) /* the size of the parts */
        result = weft_gather_run(comm, send, recv, rank ? 2 : 3, WEFT_INT32, 0, WEFT_STREAM_HOST);
    else if (rank == 0) /* the kind of exchange: the parts have the same size */
        result = weft_gather_run(comm, send, recv, 1, WEFT_INT32, 0, WEFT_STREAM_HOST);
    else
        result = weft_scatter_run(comm, send, recv, 1, WEFT_INT32, 1, WEFT_STREAM_HOST);
    if (rank == 0) /* which receives */
        CHECK_RESULT(result, WEFT_E_MISMATCH);
    weft_comm_destroy(comm);
}

TEST(parts_of_another_size_or_kind_fail_the_comm)
{
    for (int about = 0; about < 2; about++)
        ranks_both_ways(2, disagree, &about);
}
