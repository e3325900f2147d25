/* SPDX-License-Identifier: Apache-2.0 */
/* The first operations of a comm are compared before they run. NCCL compares nothing: ranks that ask for different
 * things hang in it, or get wrong values. So what each asks for is gathered by the lane itself, in front of the
 * operation, and a call of the host in between holds the lane if it differs, until the comm has been aborted. The host
 * of no rank waits for another. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/nccl/nccl_backend.h"

/* ------------------------------------------------------------------------------------------- in the lane */

static void describe(const weft__nccl_core *core, int other)
{
    const weft__nccl_word *a = &core->told[other], *b = &core->told[0];
    char a_text[96], b_text[96];
    if (a->number != b->number) {
        snprintf((char *)core->difference, sizeof core->difference,
                 "rank %d is at its operation %llu, rank %d at its operation %llu", core->ranks[other],
                 (unsigned long long)a->number, core->ranks[0], (unsigned long long)b->number);
        return;
    }
    weft_backend_tell_asked(&a->asked, a_text, sizeof a_text);
    weft_backend_tell_asked(&b->asked, b_text, sizeof b_text);
    snprintf((char *)core->difference, sizeof core->difference, "operation %llu: rank %d asks for %s, rank %d for %s",
             (unsigned long long)a->number, core->ranks[other], a_text, core->ranks[0], b_text);
}

/* If any two differ, one of them differs from member 0. */
static void CUDART_CB look(void *memory)
{
    weft__nccl_core *core = memory;
    int other = 1;
    while (other < core->count && memcmp(&core->told[other], &core->told[0], sizeof *core->told) == 0)
        other++;
    if (other == core->count || atomic_load(&core->ending))
        return;
    describe(core, other);
    atomic_store(&core->differs, true);
    while (!atomic_load(&core->ending))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ------------------------------------------------------------------------------------------- of the host */

weft_result weft__nccl_compare(weft__nccl_comm *nc, const weft_op *op)
{
    weft__nccl_core *core = nc->core;
    const weft__nccl_lane *lane = &core->lanes[WEFT__NCCL_COLLECTIVES];
    weft__nccl_word *mine = &core->mine[op->number % core->works]; /* that of an operation that has ended */
    *mine = (weft__nccl_word){op->number, weft_backend_asked(&op->what)};
    weft__nccl_word *all = core->words + 1;
    cudaError_t error = cudaMemcpyAsync(core->words, mine, sizeof *mine, cudaMemcpyHostToDevice, lane->stream);
    if (error == cudaSuccess) {
        ncclResult_t result = ncclAllGather(core->words, all, sizeof *all, ncclUint8, lane->comm, lane->stream);
        if (result != ncclSuccess)
            return weft__nccl_told(nc->name, "comparing operations", result);
        error =
            cudaMemcpyAsync(core->told, all, (size_t)core->count * sizeof *all, cudaMemcpyDeviceToHost, lane->stream);
    }
    if (error == cudaSuccess)
        error = cudaLaunchHostFunc(lane->stream, look, core);
    return weft__nccl_cuda_told(nc->name, "comparing operations", error);
}

void weft__nccl_tell_difference(weft__nccl_comm *nc)
{
    if (atomic_load(&nc->core->differs) && !atomic_load(&nc->core->ending))
        weft_backend_fail(nc->comm, WEFT_E_MISMATCH, "comm %s, %s", nc->name, nc->core->difference);
}
