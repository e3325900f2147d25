/* SPDX-License-Identifier: Apache-2.0 */
/* The first operations of a comm are compared before they run. NCCL compares nothing: ranks that ask for different
 * things hang in it, or get wrong values. So what each asks for is gathered by the lane itself, in front of the
 * operation, and a call of the host in between holds the lane if it differs, until the comm has been aborted or a few
 * seconds have passed. The host of no rank waits for another. In a graph the comparison is part of it, and comes with
 * every launch: so ranks of which some capture an operation and others do not differ too. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/nccl/nccl_backend.h"

/* ------------------------------------------------------------------------------------------- in the lane */

static void describe(const weft__nccl_comparing *comparing, int other)
{
    const weft__nccl_core *core = comparing->core;
    const weft__nccl_word *a = &comparing->told[other], *b = &comparing->told[0];
    char a_text[96], b_text[96];
    if (a->number != b->number) {
        snprintf((char *)core->difference, sizeof core->difference,
                 "rank %d is at its operation %llu, rank %d at its operation %llu", core->ranks[other],
                 (unsigned long long)a->number, core->ranks[0], (unsigned long long)b->number);
        return;
    }
    if (a->captured != b->captured) {
        int captures = core->ranks[a->captured ? other : 0], runs = core->ranks[a->captured ? 0 : other];
        snprintf((char *)core->difference, sizeof core->difference,
                 "operation %llu: rank %d captures it into a graph, rank %d does not", (unsigned long long)a->number,
                 captures, runs);
        return;
    }
    weft_backend_tell_asked(&a->asked, a_text, sizeof a_text);
    weft_backend_tell_asked(&b->asked, b_text, sizeof b_text);
    snprintf((char *)core->difference, sizeof core->difference, "operation %llu: rank %d asks for %s, rank %d for %s",
             (unsigned long long)a->number, core->ranks[other], a_text, core->ranks[0], b_text);
}

/* If any two differ, one of them differs from member 0. The lane is held for a while at most, so that nothing that
 * waits for the GPU in this rank's seat, where comms are aborted, waits for ever. */
static void CUDART_CB look(void *memory)
{
    enum { LOOKS_A_MS = 10 };
    const weft__nccl_comparing *comparing = memory;
    weft__nccl_core *core = comparing->core;
    int other = 1;
    while (other < core->count && memcmp(&comparing->told[other], &comparing->told[0], sizeof *comparing->told) == 0)
        other++;
    if (other == core->count || atomic_load(&core->ending))
        return;
    describe(comparing, other);
    atomic_store(&core->differs, true);
    for (long left = (long)core->hold_ms * LOOKS_A_MS; left > 0 && !atomic_load(&core->ending); left--)
        nanosleep(&(struct timespec){.tv_nsec = 1000000 / LOOKS_A_MS}, NULL);
}

/* ------------------------------------------------------------------------------------------- of the host */

/* Where this member says what it asks for: at the place of an operation that has ended; or for good, as a graph may be
 * launched at any time. NULL: there is no room. */
static weft__nccl_word *word_for(weft__nccl_core *core, const weft_op *op, bool captured)
{
    if (!captured)
        return &core->mine[op->number % core->works];
    return core->captured < WEFT__NCCL_CAPTURED_MOST ? &core->mine[core->works + core->captured++] : NULL;
}

weft_result weft__nccl_compare(weft__nccl_comm *nc, const weft_op *op)
{
    weft__nccl_core *core = nc->core;
    bool captured = ((const weft__nccl_op *)op->memory)->captured;
    const weft__nccl_lane *lane = &core->lanes[WEFT__NCCL_COLLECTIVES];
    weft__nccl_comparing *comparing = &core->comparing[captured];
    weft__nccl_word *mine = word_for(core, op, captured), *words = comparing->words;
    if (!mine)
        return weft_backend_error(WEFT_E_CAPTURE,
                                  "comm %s: operations are compared, and there is room for %d that are captured",
                                  nc->name, WEFT__NCCL_CAPTURED_MOST);
    *mine = (weft__nccl_word){op->number, weft_backend_asked(&op->what), captured};
    cudaError_t error = cudaMemcpyAsync(words, mine, sizeof *mine, cudaMemcpyHostToDevice, lane->stream);
    if (error == cudaSuccess) {
        ncclResult_t result = ncclAllGather(words, words + 1, sizeof *words, ncclUint8, lane->comm, lane->stream);
        if (result != ncclSuccess)
            return weft__nccl_told(nc->name, "comparing operations", result);
        error = cudaMemcpyAsync(comparing->told, words + 1, (size_t)core->count * sizeof *words, cudaMemcpyDeviceToHost,
                                lane->stream);
    }
    if (error == cudaSuccess)
        error = cudaLaunchHostFunc(lane->stream, look, comparing);
    return weft__nccl_cuda_told(nc->name, "comparing operations", error);
}

void weft__nccl_tell_difference(weft__nccl_comm *nc)
{
    if (atomic_load(&nc->core->differs) && !atomic_load(&nc->core->ending))
        weft_backend_fail(nc->comm, WEFT_E_MISMATCH, "comm %s, %s", nc->name, nc->core->difference);
}
