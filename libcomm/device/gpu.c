/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the GPU that is a rank's when it is first asked for: a world that needs none loads no library for one. */
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>

#include "base/error.h"
#include "base/log.h"
#include "comm.h"

weft_result weft__gpu_read_name(const char *what, const char *text, int *index_out)
{
    static const char prefix[] = "cuda:";
    *index_out = -1;
    if (!text || !*text || strcmp(text, "cuda") == 0)
        return WEFT_OK;
    char *end = NULL;
    long index = strncmp(text, prefix, strlen(prefix)) == 0 ? strtol(text + strlen(prefix), &end, 10) : -1;
    if (!end || *end || end == text + strlen(prefix) || index < 0 || index > 1023)
        return weft__fail(WEFT_E_INVALID, "%s is '%s', not cuda or cuda:N", what, text);
    *index_out = (int)index;
    return WEFT_OK;
}

static weft_result open_gpu(weft_world *world)
{
    const weft__device_calls *calls;
    int index, count;
    WEFT_TRY(weft__gpu_read_name("the device", world->config.device, &index));
    WEFT_TRY(weft__device_find("cuda", &calls));
    WEFT_TRY(calls->count(&count));
    WEFT_TRY(calls->open(index < 0 ? weft_world_local_rank(world) % count : index, &world->gpu));
    weft_result result = calls->stream_open(world->gpu, 0, &world->gpu_stream);
    if (result != WEFT_OK) {
        calls->close(world->gpu);
        world->gpu = NULL;
    }
    return result;
}

weft_result weft__gpu_of(weft_world *world, weft_device kind, weft__device **gpu_out)
{
    if (kind != WEFT_DEVICE_CUDA)
        return weft__fail(WEFT_E_INVALID, "there is no device of kind %d", (int)kind);
    pthread_mutex_lock(&world->gpu_lock);
    weft_result result = world->gpu ? WEFT_OK : open_gpu(world);
    *gpu_out = world->gpu;
    pthread_mutex_unlock(&world->gpu_lock);
    return result;
}

weft_result weft_world_device(weft_world *world, weft_device device, int *index_out)
{
    weft__device *gpu;
    if (!world || !index_out)
        return weft__fail(WEFT_E_INVALID, "a device without a world, or without a place for its number");
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(weft__gpu_of(world, device, &gpu));
    *index_out = gpu->calls->index(gpu);
    return WEFT_OK;
}

weft_stream weft__gpu_stream(const weft_world *world)
{
    return world->gpu_stream;
}

bool weft__gpu_owns(weft_world *world, const void *memory)
{
    pthread_mutex_lock(&world->gpu_lock);
    bool owns = world->gpu && world->gpu->calls->owns(world->gpu, memory);
    pthread_mutex_unlock(&world->gpu_lock);
    return owns;
}

weft_result weft__gpu_told_all(weft_comm *comm, weft_result result)
{
    if (result < 0 && atomic_load(&comm->verdict) == WEFT_OK)
        weft_backend_fail(comm, result, "comm %s, rank %d: %s", comm->name, comm->world->rank, weft_last_error());
    return result;
}

static weft_result gather(weft_comm *comm, unsigned char *room, const void *mine, void *all, size_t bytes)
{
    WEFT_TRY(weft__gpu_copy(comm->world, room, mine, bytes));
    WEFT_TRY(weft_all_gather_run(comm, room, room + bytes, bytes, WEFT_UINT8, WEFT_STREAM_HOST));
    return weft__gpu_copy(comm->world, all, room + bytes, (size_t)comm->size * bytes);
}

weft_result weft__gpu_gather(weft_comm *comm, const void *mine, void *all, size_t bytes)
{
    weft__device *gpu = comm->gpu;
    unsigned char *room;
    WEFT_TRY(weft__gpu_told_all(comm, gpu->calls->alloc(gpu, (1 + (size_t)comm->size) * bytes, (void **)&room)));
    weft_result result = weft__gpu_told_all(comm, gather(comm, room, mine, all, bytes));
    weft__gpu_release(comm->world, room);
    return result;
}

weft_result weft__gpu_attach(weft_comm *comm, void *memory, size_t bytes)
{
    weft__progress_enter(comm->world);
    weft_result result = weft__wire_call(comm->instance)->attach(comm->backend_comm, memory, bytes);
    weft__progress_leave(comm->world);
    return result;
}

void weft__gpu_warn_of_one_queue(void)
{
    static _Atomic bool warned;
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (connections && strcmp(connections, "1") == 0 && !atomic_exchange(&warned, true))
        weft__log(WEFT_LOG_WARN, "CUDA_DEVICE_MAX_CONNECTIONS is 1: all streams of a GPU share one queue, in which "
                                 "computing waits behind reductions that wait for other ranks, so that little of them "
                                 "is hidden; leave it unset where gradients are reduced during the backward");
}

/* ------------------------------------------------------------------------------------------- words */

enum { WORDS_AT_ONCE = 256, WORD_ROOM = (WEFT__GPU_WORD_BYTES + 255) / 256 * 256 };

static bool make_words(weft_world *world, weft__device *gpu)
{
    weft__gpu_word *words = calloc(WORDS_AT_ONCE, sizeof *words);
    void *memory;
    if (!words || gpu->calls->alloc(gpu, (size_t)WORDS_AT_ONCE * WORD_ROOM, &memory) != WEFT_OK) {
        free(words);
        return false;
    }
    for (size_t i = 0; i < WORDS_AT_ONCE; i++)
        words[i] = (weft__gpu_word){(char *)memory + i * WORD_ROOM, true, &words[i] + 1};
    words[WORDS_AT_ONCE - 1].next = world->gpu_words;
    world->gpu_words = words;
    return true;
}

static weft__gpu_word *free_word(const weft_world *world)
{
    weft__gpu_word *word = world->gpu_words;
    while (word && !word->is_free)
        word = word->next;
    return word;
}

static void free_words(weft_world *world)
{
    for (weft__gpu_word *word = world->gpu_words, *next; word; word = next) {
        next = word[WORDS_AT_ONCE - 1].next; /* those made together lie side by side */
        weft__gpu_release(world, word->memory);
        free(word);
    }
    world->gpu_words = NULL;
}

weft_result weft__gpu_word_take(weft_world *world, weft__device *gpu, weft__gpu_word **word_out)
{
    pthread_mutex_lock(&world->gpu_lock);
    weft__gpu_word *word = free_word(world);
    if (!word && make_words(world, gpu))
        word = free_word(world);
    if (word)
        word->is_free = false;
    pthread_mutex_unlock(&world->gpu_lock);
    *word_out = word;
    return word ? WEFT_OK : weft__fail(WEFT_E_NO_MEMORY, "no memory of the GPU for a comm");
}

void weft__gpu_word_give(weft_world *world, weft__gpu_word *word, bool unused)
{
    pthread_mutex_lock(&world->gpu_lock);
    word->is_free = unused;
    pthread_mutex_unlock(&world->gpu_lock);
}

/* ------------------------------------------------------------------------------------------- the end */

void weft__gpu_close(weft_world *world)
{
    if (world->gpu) {
        free_words(world);
        if (!weft__gpu_is_stuck(world)) /* what it holds may never end */
            world->gpu->calls->stream_close(world->gpu, world->gpu_stream);
        world->gpu->calls->close(world->gpu);
    }
    pthread_mutex_destroy(&world->gpu_lock);
}
