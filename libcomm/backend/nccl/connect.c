/* SPDX-License-Identifier: Apache-2.0 */
/* Making communicators, and with them every connection that their operations will use: NCCL makes connections when
 * an operation first wants them, in a call that waits for the other ranks, and that must not be a call of the caller.
 * Which ones an operation wants depends on how NCCL carries it: on the algorithm, which it chooses by kind and size,
 * or, for messages, on the pair of ranks. */
#include "backend/nccl/nccl_backend.h"

/* Bytes of the operations: for latency, in between, and for bandwidth. */
static const size_t sizes[] = {4, 64 << 10, WEFT__NCCL_SCRATCH_BYTES};

/* All collectives that reduce or gather, small and large. The rest is a broadcast in which way ever: a ring. */
static ncclResult_t use_algorithms(const weft__nccl_core *core, const weft__nccl_lane *lane)
{
    unsigned char *scratch = core->scratch;
    ncclResult_t result = ncclBroadcast(scratch, scratch, 1, ncclUint8, 0, lane->comm, lane->stream);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && result == ncclSuccess; i++) {
        size_t count = sizes[i] / sizeof(float), part = count / (size_t)core->count;
        part = part > 0 ? part : 1; /* the scratch has room for an element of each rank */
        float *all = (float *)(void *)scratch, *own = all + part * (size_t)core->rank;
        result = ncclAllReduce(all, all, count, ncclFloat32, ncclSum, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclReduceScatter(all, own, part, ncclFloat32, ncclSum, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclAllGather(own, all, part, ncclFloat32, lane->comm, lane->stream);
    }
    return result;
}

/* A byte to and from each of them; both ends connect at once. */
static ncclResult_t use_pairs(const weft__nccl_core *core, const weft__nccl_lane *lane, const int *peers,
                              uint32_t peer_count)
{
    unsigned char *scratch = core->scratch + 1; /* the first byte is for barriers */
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

void weft__nccl_connect_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++)
        if (!connect_lane(core, i))
            return;
}
