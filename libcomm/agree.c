/* SPDX-License-Identifier: Apache-2.0 */
/* Agreeing: all ranks of a comm learn whether all are well, and else why the lowest that is not has failed. */
#include <stdio.h>
#include <weft/collective.h>

#include "base/error.h"
#include "base/verdict.h"
#include "comm.h"
#include "device/gpu.h"

/* On a comm of a GPU the bytes go there and back by its stream. */
static weft_result to_gpu(weft_comm *comm, const void *data, size_t bytes)
{
    return weft__gpu_told_all(comm, weft__gpu_copy(comm->world, comm->gpu_word->memory, data, bytes));
}

static weft_result from_gpu(weft_comm *comm, void *data, size_t bytes)
{
    return weft__gpu_told_all(comm, weft__gpu_copy(comm->world, data, comm->gpu_word->memory, bytes));
}

static weft_result find_lowest(weft_comm *comm, int32_t *lowest)
{
    void *where = comm->gpu ? comm->gpu_word->memory : lowest;
    if (comm->gpu)
        WEFT_TRY(to_gpu(comm, lowest, sizeof *lowest));
    WEFT_TRY(weft_all_reduce_run(comm, where, where, 1, WEFT_INT32, WEFT_MIN, WEFT_STREAM_HOST));
    return comm->gpu ? from_gpu(comm, lowest, sizeof *lowest) : WEFT_OK;
}

static weft_result spread(weft_comm *comm, weft__verdict *verdict, int root)
{
    void *where = comm->gpu ? comm->gpu_word->memory : verdict;
    if (comm->gpu)
        WEFT_TRY(to_gpu(comm, verdict, sizeof *verdict));
    WEFT_TRY(weft_broadcast_run(comm, where, where, sizeof *verdict, WEFT_UINT8, root, WEFT_STREAM_HOST));
    return comm->gpu ? from_gpu(comm, verdict, sizeof *verdict) : WEFT_OK;
}

/* Without memory of its own: want of memory is one of the things that are agreed on. */
static weft_result exchange(weft_comm *comm, weft__verdict *verdict)
{
    int32_t lowest = verdict->result < 0 ? comm->rank : comm->size;
    WEFT_TRY(find_lowest(comm, &lowest));
    if (lowest == comm->size)
        return WEFT_OK;
    if (lowest == comm->rank && comm->size > 1)
        weft__verdict_sign(verdict, comm->world->rank);
    return spread(comm, verdict, lowest);
}

weft_result weft_comm_agree(weft_comm *comm, weft_result mine, const char *why)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "there is no comm to agree on");
    weft__verdict own = {0}, all;
    weft__verdict_add(&own, mine);
    if (why && mine < 0)
        snprintf(own.text, sizeof own.text, "%s", why);
    all = own;
    weft_result result = exchange(comm, &all);
    if (result != WEFT_OK && mine >= 0)
        return result;
    return weft__verdict_result(result == WEFT_OK ? &all : &own);
}
