/* SPDX-License-Identifier: Apache-2.0 */
/* Making communicators, and with them every connection that their operations will use: NCCL makes connections when
 * an operation first wants them, in a call that waits for the other ranks, and that must not be a call of the caller.
 * Which there are, is read in the sources of NCCL 2.28.9:
 * - An algorithm is connected as a whole, on all its channels and for all protocols, by the first collective that takes
 *   it (ncclPrepareTasks() in enqueue.cc: initAlgoChannels; before 2.22, or with NCCL_RUNTIME_CONNECT=0, when the
 *   communicator is made: init.cc).
 * - A collective takes the algorithm that a model finds fastest: a latency, and bytes by a bandwidth
 *   (topoGetAlgoInfo(), ncclTopoGetAlgoTime()). Broadcasts and reduces take rings alone; trees and multicast trees are
 *   for all-reduces, PAT is for reduce-scatters and all-gathers (ncclTopoTuneModel() in graph/tuning.cc); multicast
 *   (NVLS) carries some types and reductions only, sums of fp32 among them and no products (ncclNvlsSupported() in
 *   device.h): what it does not carry takes at the same size another one.
 * - A pair of ranks is connected in each direction on all channels it may use, whatever the size (p2pTaskAppend()).
 * So sums, products and gathers of all sizes, a factor of four apart, take whatever there is: every algorithm is the
 * fastest in a range wider than that, or not worth a connection. */
#include <stdlib.h>
#include <string.h>

#include "backend/nccl/nccl_backend.h"

static bool are_connected_when_made(void)
{
    const char *set = getenv("NCCL_RUNTIME_CONNECT");
    return set && strcmp(set, "0") == 0;
}

/* What an algorithm that is for large operations alone, as multicast trees are between many hosts, is worth from: where
 * their latencies, some 20 us more for each doubling of the hosts, are made up for. 0: there is nothing to connect. */
static size_t largest_bytes(const weft__nccl_core *core)
{
    if (are_connected_when_made())
        return 0;
    return (size_t)(core->count < 4 ? 4 : core->count <= 64 ? 16 : 64) << 20;
}

static ncclResult_t use_size(const weft__nccl_core *core, const weft__nccl_lane *lane, size_t bytes)
{
    static const ncclRedOp_t reductions[] = {ncclSum, ncclProd};
    size_t count = bytes / sizeof(float), part = count / (size_t)core->count;
    part = part > 0 ? part : 1; /* the scratch has room for an element of each rank */
    float *all = (float *)(void *)core->scratch, *own = all + part * (size_t)core->rank;
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions && result == ncclSuccess; i++) {
        result = ncclAllReduce(all, all, count, ncclFloat32, reductions[i], lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclReduceScatter(all, own, part, ncclFloat32, reductions[i], lane->comm, lane->stream);
    }
    return result == ncclSuccess ? ncclAllGather(own, all, part, ncclFloat32, lane->comm, lane->stream) : result;
}

static ncclResult_t use_algorithms(const weft__nccl_core *core, const weft__nccl_lane *lane)
{
    const size_t factor = 4, all_kinds_to = (size_t)4 << 20, largest = largest_bytes(core);
    if (!largest)
        return ncclSuccess;
    ncclResult_t result = ncclBroadcast(core->scratch, core->scratch, 1, ncclUint8, 0, lane->comm, lane->stream);
    for (size_t bytes = sizeof(float); bytes <= all_kinds_to && result == ncclSuccess; bytes *= factor)
        result = use_size(core, lane, bytes);
    for (size_t bytes = all_kinds_to * factor; bytes <= largest && result == ncclSuccess; bytes *= factor)
        result = ncclAllReduce(core->scratch, core->scratch, bytes / sizeof(float), ncclFloat32, ncclSum, lane->comm,
                               lane->stream);
    return result;
}

/* A byte to and from each of them; both ends connect at once. */
static ncclResult_t use_pairs(const weft__nccl_core *core, const weft__nccl_lane *lane, const int *peers,
                              uint32_t peer_count)
{
    unsigned char *scratch = core->scratch;
    ncclResult_t result = ncclGroupStart();
    for (uint32_t i = 0; i < peer_count && result == ncclSuccess; i++) {
        int peer = peers ? peers[i] : (int)i;
        if (peer == core->rank)
            continue;
        result = ncclSend(scratch, 1, ncclUint8, peer, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclRecv(scratch + 1 + i, 1, ncclUint8, peer, lane->comm, lane->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static ncclResult_t use_collectives(const weft__nccl_core *core, const weft__nccl_lane *lane)
{
    ncclResult_t result = use_algorithms(core, lane);
    if (result == ncclSuccess && core->exchanges)
        result = use_pairs(core, lane, NULL, (uint32_t)core->count);
    return result;
}

/* Streams of collectives come first: computing waits for them as a whole. */
static cudaError_t make_streams(weft__nccl_core *core)
{
    cudaError_t error = cudaEventCreateWithFlags(&core->entry, cudaEventDisableTiming);
    for (uint32_t i = 0; i < core->lane_count && error == cudaSuccess; i++)
        error = cudaStreamCreateWithPriority(&core->lanes[i].stream, cudaStreamNonBlocking, core->priority);
    return error;
}

static cudaError_t make_memory(weft__nccl_core *core)
{
    size_t count = (size_t)core->count, words = 1 + count;
    size_t largest = largest_bytes(core), each = 4 * count + 4; /* a word of each member, or a byte and one more */
    size_t mine = (core->works + (size_t)WEFT__NCCL_CAPTURED_MOST) * sizeof *core->mine;
    cudaError_t error = cudaMalloc((void **)&core->scratch, largest > each ? largest : each);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&core->byte, 1);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&core->words, 2 * words * sizeof *core->words);
    if (error == cudaSuccess)
        error = cudaHostAlloc((void **)&core->told, 2 * count * sizeof *core->told, cudaHostAllocPortable);
    if (error == cudaSuccess)
        error = cudaHostAlloc((void **)&core->mine, mine, cudaHostAllocPortable);
    for (size_t i = 0; i < 2; i++)
        core->comparing[i] = (weft__nccl_comparing){core, core->words + i * words, core->told + i * count};
    return error;
}

static ncclResult_t make(const weft__nccl_core *core, uint32_t index, ncclComm_t *comm_out)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (core->least_ctas)
        config.minCTAs = (int)core->least_ctas;
    if (core->most_ctas)
        config.maxCTAs = (int)core->most_ctas;
    return ncclCommInitRankConfig(comm_out, core->count, core->ids[index], core->rank, &config);
}

static bool connect_lane(weft__nccl_core *core, uint32_t index)
{
    weft__nccl_lane *lane = &core->lanes[index];
    if (!lane->comm && weft__nccl_failed(core, "making a communicator", make(core, index, &lane->comm)))
        return false;
    ncclResult_t result = index == WEFT__NCCL_COLLECTIVES ? use_collectives(core, lane)
                                                          : use_pairs(core, lane, core->peers, core->peer_count);
    return !weft__nccl_failed(core, index == WEFT__NCCL_COLLECTIVES ? "the first collectives" : "the first messages",
                              result) &&
           !weft__nccl_failed_in_cuda(core, "waiting for the first use", cudaStreamSynchronize(lane->stream));
}

static bool connect_lanes(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++)
        if (!connect_lane(core, i))
            return false;
    return true;
}

void weft__nccl_connect_all(weft__nccl_core *core)
{
    if (weft__nccl_failed_in_cuda(core, "streams of a comm", make_streams(core)) ||
        weft__nccl_failed_in_cuda(core, "memory for a comm", make_memory(core)) || !connect_lanes(core))
        return;
    (void)cudaFree(core->scratch);
    core->scratch = NULL;
}
