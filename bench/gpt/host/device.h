/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: what its operations need besides their arguments. */
#ifndef WEFT_BENCH_GPT_HOST_DEVICE_H
#define WEFT_BENCH_GPT_HOST_DEVICE_H
#include "gpt/host/kernels.h"
#include "gpt/ops.h"

/* Queries that the attention takes at once: the block of scores stays in the cache, and most of what the future hides
 * is never computed. */
enum { GPT_QUERY_BLOCK = 64 };

typedef struct gpt_host {
    gpt_device device; /* first, so that a pointer to it is one to this */
    const gpt_kernels *kernels;
    float *weights;          /* the parameter at hand, widened */
    float *scores, *dscores; /* [GPT_QUERY_BLOCK][sequence] */
    float *cosines, *sines;  /* [sequence][channels / 2] */
    float *minus_sines;
    float rows[2][GPT_QUERY_BLOCK]; /* a number for each query of a block */
    float norm_epsilon;
} gpt_host;

static inline gpt_host *gpt_host_of(gpt_device *device)
{
    return (gpt_host *)device;
}

/* The attention, a file of its own. */
void gpt_host_attention(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum);
void gpt_host_attention_grad(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                             const float *logsum, const void *dcontext, void *dqkv);

#endif
