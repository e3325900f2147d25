/* SPDX-License-Identifier: Apache-2.0 */
/* One kind of message on a stage (RECV_F, say): shape, type and buffers. */
#ifndef WEFT_P2P_CHANNEL_H
#define WEFT_P2P_CHANNEL_H
#include <weft/world.h>

#include "schedule.h"

#define WEFT__BATCH_NONE UINT32_MAX

/* A credit: a message can be made or received when it has one. */
typedef struct weft__buffer {
    void *memory;
    uint32_t batch; /* the last that filled or read it; NONE */
} weft__buffer;

typedef struct weft__channel {
    weft_world *world;
    weft_dtype dtype;
    size_t count;
    weft__buffer *buffers;
    uint32_t credits; /* how many */
} weft__channel;

/* Take the memory of @p credits buffers. @p channel is zero before; close it in any case. E_RANGE, E_NO_MEMORY. */
weft_result weft__channel_open(weft__channel *channel, weft_world *world, weft_device device, uint32_t credits,
                               size_t count, weft_dtype dtype);
void weft__channel_close(weft__channel *channel);

/* The message of an action of stage @p stage. Its tag says whether activation or gradient, for which part of the model,
 * and which microbatch, so that both ends have the same. */
weft_p2p weft__channel_message(const weft__channel *channel, const weft_schedule *s, uint32_t stage,
                               const weft_action *a);

#endif
