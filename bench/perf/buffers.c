/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the memory of a rank into places for inputs and outputs. They lie a cache line more than their size apart,
 * so that they do not meet in the same sets of a cache. */
#include "perf/buffers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/memory.h>

enum { LINE = 64, RECV_STAGGER = 17 * LINE };

static size_t stride_of(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE + LINE;
}

size_t perf_cache_bytes(void)
{
    const size_t least = (size_t)32 << 20, most = (size_t)128 << 20;
    long found = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = found > 0 ? (size_t)found : least;
    return bytes < least ? least : bytes > most ? most : bytes;
}

static weft_result take(const perf_buffers *b, size_t bytes, void **memory)
{
    if (b->world)
        return weft_memory_alloc(b->world, bytes, memory);
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*memory)
        return WEFT_E_NO_MEMORY;
    memset(*memory, 0, bytes);
    return WEFT_OK;
}

weft_result perf_buffers_open(perf_buffers *b, weft_world *world, size_t most_bytes, size_t places, size_t rotate_bytes,
                              size_t shift_bytes)
{
    *b = (perf_buffers){.world = world, .rotate_bytes = rotate_bytes, .shift_bytes = shift_bytes};
    size_t half = rotate_bytes / 2, one = stride_of(most_bytes + shift_bytes);
    b->bytes = (half > one * places ? half : one * places) + RECV_STAGGER;
    void *sends = NULL, *recvs = NULL;
    weft_result result = take(b, b->bytes, &sends);
    if (result == WEFT_OK)
        result = take(b, b->bytes, &recvs);
    b->sends = sends;
    b->recvs = recvs;
    return result;
}

static void give(const perf_buffers *b, void *memory)
{
    if (b->world)
        weft_memory_free(b->world, memory);
    else
        free(memory);
}

void perf_buffers_close(perf_buffers *b)
{
    give(b, b->sends);
    give(b, b->recvs);
    *b = (perf_buffers){0};
}

void perf_buffers_divide(perf_buffers *b, size_t send_bytes, size_t recv_bytes, bool rotated, size_t least)
{
    b->send_stride = stride_of(send_bytes + b->shift_bytes);
    b->recv_stride = stride_of(recv_bytes + b->shift_bytes);
    size_t larger = b->send_stride > b->recv_stride ? b->send_stride : b->recv_stride;
    size_t room = (b->bytes - RECV_STAGGER) / larger;
    size_t wanted = rotated ? b->rotate_bytes / (b->send_stride + b->recv_stride) + 1 : 1;
    wanted = wanted < least ? least : wanted;
    b->places = wanted < room ? wanted : room;
}

char *perf_send_at(const perf_buffers *b, size_t number)
{
    return b->sends + number % b->places * b->send_stride + b->shift_bytes;
}

char *perf_recv_at(const perf_buffers *b, size_t number)
{
    return b->recvs + RECV_STAGGER + number % b->places * b->recv_stride + b->shift_bytes;
}
