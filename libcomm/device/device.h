/* SPDX-License-Identifier: Apache-2.0 */
/* A device: memory, streams and events, and arithmetic on flat arrays in the order of a stream. The host needs none of
 * this: its stream is the calling thread, and its arithmetic is vector.h. A device is a module, found at run time.
 *
 * Nothing here but `alloc`, `release`, `open`, `close` and what says so waits for the device. Errors are results with a
 * message; what fails later, in a stream, is told by `idle` and `reached`. Arrays are the device's memory;
 * counts are elements; a count of 0 is fine. Of a table each call comes from any thread. */
#ifndef WEFT_DEVICE_DEVICE_H
#define WEFT_DEVICE_DEVICE_H
#include <stddef.h>
#include <stdint.h>
#include <weft/dtype.h>
#include <weft/result.h>
#include <weft/stream.h>

#include "device/vector.h"

#define WEFT__DEVICE_ABI 2

/* One device, open. */
typedef struct weft__device weft__device;
/* A moment of a stream. */
typedef struct weft__event weft__event;

/* A sum of squares under way: so many parts that are added up at the end, in their order. */
#define WEFT__DEVICE_PARTS 256
typedef struct weft__device_sum {
    weft__double2 parts[WEFT__DEVICE_PARTS];
} weft__device_sum;

/* How a step is clipped, and the rates that its bias corrections come from. */
typedef struct weft__step_rule {
    float clip; /* 0 = not clipped */
    float clip_epsilon;
    float beta1, beta2;
} weft__step_rule;

/* What decides about a step. It lies where the step is computed: nothing of it has to come to the host before. */
typedef struct weft__step_verdict {
    uint64_t updates; /* steps that were not skipped, this one included */
    double norm;      /* of all gradients */
    float grad_scale; /* the clip coefficient */
    float correction1, correction2;
    uint32_t skipped; /* the norm is not finite: nothing is updated */
} weft__step_verdict;

typedef struct weft__device_calls {
    uint32_t abi; /* WEFT__DEVICE_ABI */
    size_t size;
    const char *name; /* "cuda" */
    weft_device kind; /* of its streams and memory */

    /* How many this process sees; E_NO_DEVICE says why there is none. */
    weft_result (*count)(int *count_out);
    /* Device number @p index of them. */
    weft_result (*open)(int index, weft__device **device_out);
    void (*close)(weft__device *device);
    int (*index)(weft__device *device);
    /* "cuda:0, sm_90, 132 multiprocessors, 0000:19:00.0, ...", cut at the room there is. */
    void (*describe)(weft__device *device, char *text, size_t text_bytes);

    /* The device's memory, zeroed, and the host's that it reaches by itself. Wait for the device. */
    weft_result (*alloc)(weft__device *device, size_t bytes, void **memory_out);
    void (*release)(weft__device *device, void *memory);
    weft_result (*alloc_host)(weft__device *device, size_t bytes, void **memory_out);
    void (*release_host)(weft__device *device, void *memory);
    /* Does @p memory belong to this device? */
    int (*owns)(weft__device *device, const void *memory);

    /* A stream of ours; an urgent one is served first. */
    weft_result (*stream_open)(weft__device *device, int urgent, weft_stream *stream_out);
    void (*stream_close)(weft__device *device, weft_stream stream);

    /* Has all come that was queued? WEFT_PENDING: not yet. */
    weft_result (*idle)(weft__device *device, weft_stream stream);

    weft_result (*event_open)(weft__device *device, weft__event **event_out);
    void (*event_close)(weft__device *device, weft__event *event);
    weft_result (*record)(weft__device *device, weft__event *event, weft_stream stream);
    /* What is queued next on @p stream runs after @p event as it was last recorded. */
    weft_result (*order)(weft__device *device, weft_stream stream, weft__event *event);
    /* Has it come? WEFT_PENDING: not yet. */
    weft_result (*reached)(weft__device *device, weft__event *event);
    /* Wait until it has, be it for ever: see weft__gpu_await(). */
    weft_result (*await)(weft__device *device, weft__event *event);

    /* Between the device's memory, and between it and the host's; arrays are apart. With memory that is not of
     * alloc_host() the call may wait until the bytes are read. */
    weft_result (*copy)(weft__device *device, void *to, const void *from, size_t bytes, weft_stream stream);

    /* dst[i] = the low bytes of @p bits; the others as in vector.h. */
    weft_result (*fill)(weft__device *device, void *dst, size_t count, size_t element_bytes, uint64_t bits,
                        weft_stream stream);
    weft_result (*scale)(weft__device *device, void *dst, size_t count, weft_dtype dtype, double factor,
                         weft_stream stream);
    weft_result (*cast)(weft__device *device, void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count,
                        weft_stream stream);
    weft_result (*accumulate)(weft__device *device, float *dst, const void *src, weft_dtype from, size_t count,
                              weft_stream stream);
    /* *sum += the sum of squares: the same bits whenever count and type are the same. */
    weft_result (*sum_of_squares)(weft__device *device, const void *src, size_t count, weft_dtype dtype,
                                  weft__device_sum *sum, weft_stream stream);
    /* *total += all parts of @p sum, in their order. */
    weft_result (*fold)(weft__device *device, const weft__device_sum *sum, weft__double2 *total, weft_stream stream);
    /* *first = min(*first, base + the index of the first NaN or infinity). */
    weft_result (*first_nonfinite)(weft__device *device, const void *src, size_t count, weft_dtype dtype, uint64_t base,
                                   uint64_t *first, weft_stream stream);
    /* Decide about a step from the sums of squares of all ranks, added in their order. */
    weft_result (*judge)(weft__device *device, const weft__double2 *sums, int ranks, const weft__step_rule *rule,
                         weft__step_verdict *verdict, weft_stream stream);
    /* As adamw() of vector.h, with clip coefficient and bias corrections of @p verdict; nothing if it says skipped.
     * Gradients may be of any floating type. */
    weft_result (*adamw)(weft__device *device, const weft__adamw *step, const weft__step_verdict *verdict, size_t count,
                         float *master, float *m, float *v, const void *grad, weft_dtype grad_dtype, void *param_out,
                         weft_dtype param_dtype, weft_stream stream);
} weft__device_calls;

/* Every device begins with its table. */
struct weft__device {
    const weft__device_calls *calls;
};

/* What a device's module exports. */
#define WEFT__DEVICE_MODULE weft__device_module
typedef const weft__device_calls *(weft__device_module_function)(void);

/* The table of a device by its name, its module loaded if need be. E_NO_DEVICE: there is no such module, or it cannot
 * be loaded here, and why. Any thread. */
weft_result weft__device_find(const char *name, const weft__device_calls **calls_out);
/* Tell of that module, wherever it is found until it can be loaded: @p why_not is NULL then. Any thread. */
void weft__device_tell(const char *name, void (*tell)(void *cookie, const char *path, const char *why_not),
                       void *cookie);
/* dst[i] = value, as in vector.h. */
weft_result weft__device_fill(weft__device *device, void *dst, size_t count, weft_dtype dtype, double value,
                              weft_stream stream);

#endif
