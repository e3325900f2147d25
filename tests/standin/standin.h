/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a GPU: libcudart, libcublas and libnccl that run on threads of the host, for as much of them as weft
 * uses. Streams are really asynchronous, and who runs next is drawn by a seed; every operation says which memory it
 * reads and writes, and one that is not ordered behind those it must not meet is reported as a race, however the draw
 * went. Kernels are run by bodies for the host, which whoever launches them makes known.
 *
 * Environment: STANDIN_DEVICES (how many there are, 8), STANDIN_NO_DRIVER (where there are none: no driver either),
 * STANDIN_SEED (of the draw, 1), STANDIN_QUEUES ("streams", or "one": all streams of a device are one in-order queue,
 * the strictest that CUDA allows), STANDIN_FAULT ("wait:N": the Nth wait of a stream of device 0 for an event is left
 * out; "record:N": its Nth event is recorded on another stream; "swap:N": its Nth operation of NCCL changes places with
 * the next of its communicator; "async:N": its Nth question for errors of NCCL is answered with one; "slow:N": to end
 * its Nth communicator takes long), to see that faults are found. */
#ifndef STANDIN_H
#define STANDIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define STANDIN_API __attribute__((visibility("default")))

/* A run of bytes that an operation reads, or writes (and may read). */
typedef struct standin_range {
    const void *memory;
    size_t bytes;
    bool writes;
} standin_range;

enum { STANDIN_RANGES = 16 }; /* of one kernel, at most */

/* A kernel with one argument, a struct that is passed by value. */
typedef struct standin_kernel {
    const void *entry; /* what cudaLaunchKernel() is given */
    const char *name;
    size_t argument_bytes;
    size_t (*touches)(const void *argument, standin_range *ranges); /* how many */
    void (*body)(const void *argument);
} standin_kernel;

/* Make kernels known; borrowed for ever. */
STANDIN_API void standin_kernels_add(const standin_kernel *kernels, size_t count);

/* Races go to @p report instead of ending the process with STANDIN_EXIT; NULL = end it. */
enum { STANDIN_EXIT = 86 };
STANDIN_API void standin_on_race(void (*report)(const char *text));
/* How many there were. */
STANDIN_API uint64_t standin_races(void);

/* Is this the call that STANDIN_FAULT names? @p kind: static text. Counts the calls of device 0. */
STANDIN_API bool standin_fault(const char *kind);

/* For libraries that stand on this one: an operation of a stream. `step` is called until it answers true, by a thread
 * of the device, while others go on; then `done`, if not NULL. */
typedef struct standin_task {
    const char *what; /* static text */
    const standin_range *ranges;
    size_t range_count;
    bool (*step)(void *state);
    void (*done)(void *state);
    void *state;
} standin_task;
/* How often more shared memory was asked for, for a kernel of this process on a device. */
STANDIN_API int standin_shared_asked(void);
/* How often this process has asked whether an event has come. */
STANDIN_API uint64_t standin_event_queries(void);
/* Communicators that this process has made, and not ended. */
STANDIN_API int standin_nccl_alive(void);
/* Buffers that communicators of this process know. */
STANDIN_API int standin_nccl_registered(void);
/* What a communicator, an ncclComm_t, was told that its operations take. */
STANDIN_API void standin_nccl_ctas(void *comm, int *least_out, int *most_out);
/* Queue it; a cudaError_t. @p stream is a cudaStream_t. */
STANDIN_API int standin_queue(void *stream, const standin_task *task);

#ifdef __cplusplus
}
#endif
#endif
