/* SPDX-License-Identifier: Apache-2.0 */
/* The comm of tensor parallel ranks that are threads: collectives between barriers, carried out when finished. */
#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <weft/collective.h>

#include "harness/test.h"

enum { RANKS = 8, IN_FLIGHT = 8 };

typedef struct operation {
    weft_collective_kind kind;
    weft_reduction reduction;
    const float *send;
    float *recv;
    size_t count;
} operation;

typedef struct team {
    pthread_barrier_t barrier;
    weft_comm *ranks[RANKS];
    int count;
} team;

struct weft_comm {
    team *team;
    int rank;
    uint64_t started, finished;
    operation operations[IN_FLIGHT];
    void (*body)(weft_comm *comm, void *argument);
    void *argument;
};

static _Thread_local weft_comm *mine; /* the comm of this thread's works */

static void *thread(void *argument)
{
    weft_comm *comm = mine = argument;
    comm->body(comm, comm->argument);
    CHECK_INT(comm->finished, comm->started);
    return NULL;
}

void ranks_run(int count, void (*body)(weft_comm *comm, void *argument), void *argument)
{
    team t = {.count = count};
    weft_comm comms[RANKS];
    pthread_t threads[RANKS];
    CHECK(count <= RANKS && pthread_barrier_init(&t.barrier, NULL, (unsigned)count) == 0);
    for (int i = 0; i < count; i++) {
        comms[i] = (weft_comm){.team = &t, .rank = i, .body = body, .argument = argument};
        t.ranks[i] = &comms[i];
    }
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, &comms[i]) == 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&t.barrier);
}

int weft_comm_rank(const weft_comm *comm)
{
    return comm->rank;
}

static weft_result start(weft_comm *comm, operation what, weft_work *work_out)
{
    CHECK(comm == mine && comm->started - comm->finished < IN_FLIGHT);
    comm->operations[comm->started % IN_FLIGHT] = what;
    work_out->value = ++comm->started;
    return WEFT_OK;
}

static float combine(weft_reduction reduction, float a, float b)
{
    return reduction == WEFT_MAX ? fmaxf(a, b) : a + b;
}

/* Element @p i of what rank @p rank receives. */
static float result(const team *t, uint64_t number, int rank, size_t i)
{
    const operation *first = &t->ranks[0]->operations[number % IN_FLIGHT];
    if (first->kind == WEFT_ALL_GATHER)
        return t->ranks[i / first->count]->operations[number % IN_FLIGHT].send[i % first->count];
    size_t at = first->kind == WEFT_REDUCE_SCATTER ? (size_t)rank * first->count + i : i;
    float value = first->send[at];
    for (int r = 1; r < t->count; r++)
        value = combine(first->reduction, value, t->ranks[r]->operations[number % IN_FLIGHT].send[at]);
    return value;
}

weft_result weft_work_finish(weft_work work, weft_stream before)
{
    (void)before;
    team *t = mine->team;
    CHECK_INT(work.value, ++mine->finished); /* in the order of the starts */
    uint64_t number = work.value - 1;
    operation *what = &mine->operations[number % IN_FLIGHT], *other = &t->ranks[0]->operations[number % IN_FLIGHT];
    size_t elements = what->count * (what->kind == WEFT_ALL_GATHER ? (size_t)t->count : 1);
    float *results = malloc(elements * sizeof *results);
    pthread_barrier_wait(&t->barrier);
    CHECK(what->kind == other->kind && what->count == other->count && what->reduction == other->reduction);
    for (size_t i = 0; i < elements; i++)
        results[i] = result(t, number, mine->rank, i);
    pthread_barrier_wait(&t->barrier);
    memcpy(what->recv, results, elements * sizeof *results);
    pthread_barrier_wait(&t->barrier);
    free(results);
    return WEFT_OK;
}

weft_result weft_all_reduce_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                  weft_reduction reduction, weft_stream after, weft_work *work_out)
{
    (void)after;
    CHECK(dtype == WEFT_FP32);
    return start(comm, (operation){WEFT_ALL_REDUCE, reduction, send, recv, count}, work_out);
}

weft_result weft_reduce_scatter_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                      weft_reduction reduction, weft_stream after, weft_work *work_out)
{
    (void)after;
    CHECK(dtype == WEFT_FP32);
    return start(comm, (operation){WEFT_REDUCE_SCATTER, reduction, send, recv, count}, work_out);
}

weft_result weft_all_gather_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                  weft_stream after, weft_work *work_out)
{
    (void)after;
    CHECK(dtype == WEFT_FP32);
    return start(comm, (operation){WEFT_ALL_GATHER, WEFT_SUM, send, recv, count}, work_out);
}

weft_result weft_all_reduce_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                weft_reduction reduction, weft_stream stream)
{
    weft_work work;
    weft_result started = weft_all_reduce_start(comm, send, recv, count, dtype, reduction, stream, &work);
    return started < 0 ? started : weft_work_finish(work, stream);
}

weft_result weft_reduce_scatter_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                    weft_reduction reduction, weft_stream stream)
{
    weft_work work;
    weft_result started = weft_reduce_scatter_start(comm, send, recv, count, dtype, reduction, stream, &work);
    return started < 0 ? started : weft_work_finish(work, stream);
}

weft_result weft_all_gather_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                weft_stream stream)
{
    weft_work work;
    weft_result started = weft_all_gather_start(comm, send, recv, count, dtype, stream, &work);
    return started < 0 ? started : weft_work_finish(work, stream);
}
