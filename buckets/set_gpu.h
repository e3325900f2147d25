/* SPDX-License-Identifier: Apache-2.0 */
/* A set whose memory is a GPU's: in which stream it computes, and how that is ordered with the trainer's. */
#ifndef WEFT_BUCKETS_SET_GPU_H
#define WEFT_BUCKETS_SET_GPU_H
#include "device/device.h"
#include "set.h"

struct weft__set_gpu {
    weft__device *device;
    weft_stream stream;            /* the world's: reduced gradients are scaled, counted and stepped there */
    weft_stream launches;          /* ours: behind the marks of a bucket that came on several streams */
    weft__event *stepped;          /* what was computed for the last window has ended */
    weft__event *judged;           /* the norm of a window is known */
    weft__event *passed;           /* for passing from one stream to another */
    weft__event **gathered;        /* [bucket]: on the stream that it was first acquired for */
    weft_stream *gatherer;         /* [bucket]: that stream */
    weft__device_sum *sum;         /* of the squares of this window */
    weft__double2 *total, *totals; /* of this rank, and then of all */
};

/* Make it, or on a set of the host nothing; and give it back. */
weft_result weft__set_gpu_open(weft_buckets *set, weft_device device);
void weft__set_gpu_close(weft_buckets *set);

/* Tell the comms, which are made, of the memory behind the set. */
weft_result weft__set_gpu_attach(weft_buckets *set);

/* May @p stream be used with the set? E_UNSUPPORTED names the set. */
weft_result weft__set_takes(const weft_buckets *set, weft_stream stream);
/* Where the set computes: on the host the calling thread. */
weft_stream weft__set_stream(const weft_buckets *set);
/* What is queued next on @p to runs behind what @p from holds now. The host has waited for what it passes on, and waits
 * for what is passed to it. */
weft_result weft__set_pass(const weft_buckets *set, weft_stream from, weft_stream to);

/* norm.c: the norm of sets on a GPU, and what follows from it for a step, in the order of its stream. */
weft_result weft__norm_judge(weft_buckets *const *sets, uint32_t count, const weft__step_rule *rule,
                             weft__step_verdict *verdict);

/* Arithmetic in the order of @p stream, as in device/vector.h. */
weft_result weft__set_fill(const weft_buckets *set, void *dst, size_t count, weft_dtype dtype, double value,
                           weft_stream stream);
weft_result weft__set_scale(const weft_buckets *set, void *dst, size_t count, weft_dtype dtype, double factor);
weft_result weft__set_cast(const weft_buckets *set, void *dst, weft_dtype to, const void *src, weft_dtype from,
                           size_t count);

#endif
