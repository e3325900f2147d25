/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers of one kind of message on a stage, and the message that an action starts. */
#include "channel.h"

#include <stdlib.h>
#include <weft/memory.h>

#include "base/error.h"
#include "base/memory.h"

weft_result weft__channel_open(weft__channel *channel, weft_world *world, weft_device device, uint32_t credits,
                               size_t count, weft_dtype dtype)
{
    size_t element_bytes = weft_dtype_bytes(dtype);
    if (count > SIZE_MAX / 16 / element_bytes)
        return weft__fail(WEFT_E_RANGE, "a pipeline cannot send %zu elements of %s", count, weft_dtype_string(dtype));
    *channel = (weft__channel){.world = world, .dtype = dtype, .count = count};
    if (credits == 0)
        return WEFT_OK;
    channel->buffers = weft__alloc(credits * sizeof *channel->buffers);
    if (!channel->buffers)
        return WEFT_E_NO_MEMORY;
    for (; channel->credits < credits; channel->credits++) {
        weft__buffer *buffer = &channel->buffers[channel->credits];
        WEFT_TRY(weft_memory_alloc_on(world, device, count * element_bytes, &buffer->memory));
        buffer->batch = WEFT__BATCH_NONE;
    }
    return WEFT_OK;
}

void weft__channel_close(weft__channel *channel)
{
    for (uint32_t i = 0; i < channel->credits; i++)
        weft_memory_free(channel->world, channel->buffers[i].memory);
    free(channel->buffers);
    *channel = (weft__channel){0};
}

/* bit 63: it is a tag; 62: a gradient; 32 ... 61: the part that receives; 0 ... 31: the microbatch. */
static uint64_t tag_of(const weft_schedule *s, uint32_t stage, const weft_action *a)
{
    const weft__kind *kind = &weft__kinds[a->kind];
    weft__part to = {stage, a->chunk};
    if (kind->send)
        weft__neighbour(s, (weft__part){stage, a->chunk}, kind->forward, &to);
    uint64_t part = (uint64_t)to.chunk * s->stages + to.stage;
    return (uint64_t)1 << 63 | (uint64_t)kind->channel << 62 | part << 32 | a->microbatch;
}

weft_p2p weft__channel_message(const weft__channel *channel, const weft_schedule *s, uint32_t stage,
                               const weft_action *a)
{
    return (weft_p2p){.kind = weft__kinds[a->kind].send ? WEFT_SEND : WEFT_RECV,
                      .peer = (int)a->peer,
                      .channel = weft__kinds[a->kind].channel,
                      .dtype = channel->dtype,
                      .buffer = channel->buffers[a->buffer].memory,
                      .count = channel->count,
                      .tag = tag_of(s, stage, a)};
}
