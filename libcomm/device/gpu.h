/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of a rank. */
#ifndef WEFT_DEVICE_GPU_H
#define WEFT_DEVICE_GPU_H
#include <stdbool.h>
#include <weft/comm.h>

#include "base/verdict.h"
#include "device/device.h"

/* The number of "cuda:2"; -1: whichever is this rank's, by "cuda", "" or NULL. E_INVALID names @p what; nothing is
 * loaded. */
weft_result weft__gpu_read_name(const char *what, const char *text, int *index_out);
/* It, opened if it was not yet. E_NO_DEVICE, E_INVALID (no such kind of device). Any thread. */
weft_result weft__gpu_of(weft_world *world, weft_device kind, weft__device **gpu_out);
/* The stream for what weft computes there: arithmetic on what all buckets hold. Of one that is open. */
weft_stream weft__gpu_stream(const weft_world *world);
/* Is @p memory the GPU's? False if there is none, or it was not opened. */
bool weft__gpu_owns(weft_world *world, const void *memory);
/* Have operations of a comm there not been ended, but with E_STUCK? Then what waits for them never ends. */
bool weft__gpu_is_stuck(const weft_world *world);
/* Wait for an event, or for a stream. E_STUCK: one is stuck, and this has not come. */
weft_result weft__gpu_await(weft_world *world, weft__event *event);
weft_result weft__gpu_synchronize(weft_world *world, weft_stream stream);
/* Copy a few bytes between the GPU, which is open, and the host, and wait for it. */
weft_result weft__gpu_copy(weft_world *world, void *to, const void *from, size_t bytes);
/* Give back its memory, and the host's that it reaches, once no operation is in flight there; NULL is fine. If one is
 * stuck they are kept. */
void weft__gpu_release(weft_world *world, void *memory);
void weft__gpu_release_host(weft_world *world, void *memory);
/* All-gather of @p bytes of the host from each member of a comm of a GPU, for setting things up. */
weft_result weft__gpu_gather(weft_comm *comm, const void *mine, void *all, size_t bytes);
/* @p bytes at @p memory, of the GPU, will be the buffers of operations of this comm, on all its members: a library may
 * be told. Until the comm is destroyed, which comes before the memory is given back. */
weft_result weft__gpu_attach(weft_comm *comm, void *memory, size_t bytes);
/* Operations are going to run beside computing: warn, once, if CUDA is set to have them one after the other. */
void weft__gpu_warn_of_one_queue(void);
/* A failure of this rank between operations fails the comm, so that others do not wait for it. Returns @p result. */
weft_result weft__gpu_told_all(weft_comm *comm, weft_result result);

/* A little memory of the GPU, for agreeing. To make memory and to give it back may wait for the whole GPU, and so for
 * other ranks: words are made many at a time, before there is anything to wait for, and stay with the world. */
#define WEFT__GPU_WORD_BYTES sizeof(weft__verdict)
typedef struct weft__gpu_word {
    void *memory;
    bool is_free;
    struct weft__gpu_word *next;
} weft__gpu_word;

weft_result weft__gpu_word_take(weft_world *world, weft__device *gpu, weft__gpu_word **word_out);
/* @p unused: nothing on the GPU may still write to it. */
void weft__gpu_word_give(weft_world *world, weft__gpu_word *word, bool unused);
void weft__gpu_close(weft_world *world);

#endif
