/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPT computes, as one table of operations; the host has one, a GPU may have another. They know no rank and
 * return nothing: what can fail is opening the device.
 *
 * Precision. Parameters are fp32 or bf16; gradients of parameters are fp32 and are added to, never written over.
 * Activations are of the device's own type, which on the host is fp32, and so is what is computed there; what is
 * stored as a parameter or sent to another pipeline stage is rounded to its type. Where something multiplies bf16
 * faster than fp32, a bf16 parameter of a linear layer meets activations rounded to bf16 for this one product, and so
 * are both operands of its gradient; else, and everywhere besides, it is widened. All sums of products are fp32.
 * Statistics (norms, softmax, losses) are fp32 on every device, the sum of losses fp64.
 *
 * Activations are matrices of one row a token, tokens ordered [sequence][sample]; sizes are elements. */
#ifndef WEFT_BENCH_GPT_OPS_H
#define WEFT_BENCH_GPT_OPS_H
#include <stddef.h>
#include <stdint.h>
#include <weft/dtype.h>
#include <weft/stream.h>

#include "gpt/failure.h"
#include "gpt/shape.h"

typedef struct gpt_ops gpt_ops;

/* Where one rank computes: opened once, used by one thread. */
typedef struct gpt_device {
    const gpt_ops *ops;
    weft_dtype activation, parameter;
    weft_stream stream; /* in whose order everything below runs */
    char products[96];  /* who multiplies matrices, for people */
} gpt_device;

/* The attention of one rank: see gpt_shape for the layout of a row of queries, keys and values. */
typedef struct gpt_attention {
    size_t sequence, samples, groups, heads_per_group, channels;
} gpt_attention;

/* One rank's columns of the logits: tokens first ... first + columns - 1; those from `valid` on are padding. */
typedef struct gpt_vocabulary {
    size_t first, columns, valid;
} gpt_vocabulary;

struct gpt_ops {
    const char *name;
    void (*close)(gpt_device *device);

    /* y[rows][out] = x[rows][in] w[out][in]^T; dx = dy w; dw += dy^T x. Rows, in and out: a microbatch's tokens and a
     * layer's sizes in the shape that the device was opened for. */
    void (*linear)(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y);
    void (*linear_input_grad)(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *w,
                              void *dx);
    void (*linear_weight_grad)(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                               float *dw);

    /* y = x / root mean square of its row, times w; keeps 1 / that in @p scale. Backward: dx and dw are added to. */
    void (*norm)(gpt_device *device, size_t rows, size_t width, const void *x, const void *w, void *y, float *scale);
    void (*norm_grad)(gpt_device *device, size_t rows, size_t width, const void *dy, const void *x, const void *w,
                      const float *scale, void *dx, float *dw);

    /* Turn the queries and keys of @p qkv by their positions, in place; backward: turn their gradients back. */
    void (*rotate)(gpt_device *device, const gpt_attention *a, void *qkv);
    void (*rotate_back)(gpt_device *device, const gpt_attention *a, void *dqkv);

    /* Causal softmax attention, scaled by 1 / sqrt(channels). Kept for the backward: for each (head, sample, query) the
     * logarithm of the sum of its exponentials, in @p logsum. Backward: dqkv is written. */
    void (*attention)(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum);
    void (*attention_grad)(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                           const float *logsum, const void *dcontext, void *dqkv);

    /* Rows of @p gate_up: width gates, then width ups. y = silu(gate) * up. */
    void (*swiglu)(gpt_device *device, size_t rows, size_t width, const void *gate_up, void *y);
    void (*swiglu_grad)(gpt_device *device, size_t rows, size_t width, const void *gate_up, const void *dy,
                        void *dgate_up);

    /* y = the rows of table[columns][width] for the tokens that are this rank's, zero for others; dtable is added to.
     * */
    void (*embed)(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                  const void *table, void *y);
    void (*embed_grad)(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                       const void *dy, float *dtable);

    /* Cross entropy in pieces, with room for sums over ranks between them. Of each row of logits[rows][columns]:
     * largest: the largest valid logit.                     (then: the maximum of all ranks)
     * exponentials: exp(logit - largest) in place, 0 for padding; sums[row] = their sum, sums[rows + row] = the
     *     target's logit - largest, 0 if it is another rank's.          (then: the sums of all ranks)
     * loss: adds log(sum) - target of all rows to *total.
     * grad: the exponentials become gradients of the logits, times @p factor. */
    void (*entropy_largest)(gpt_device *device, const gpt_vocabulary *v, size_t rows, const void *logits,
                            float *largest);
    void (*entropy_exponentials)(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *logits,
                                 const int32_t *targets, const float *largest, float *sums);
    void (*entropy_loss)(gpt_device *device, size_t rows, const float *sums, double *total);
    void (*entropy_grad)(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *exponentials,
                         const int32_t *targets, const float *sums, float factor);

    /* Zeros; bytes of the host's own into this device's memory; y = a + b. */
    void (*clear)(gpt_device *device, size_t bytes, void *memory);
    void (*bring)(gpt_device *device, size_t bytes, const void *from_host, void *memory);
    void (*add)(gpt_device *device, size_t count, const void *a, const void *b, void *y);
    /* to[i] = from[i], rounded to nearest even; fp32 and bf16. */
    void (*convert)(gpt_device *device, size_t count, const void *from, weft_dtype from_dtype, void *to,
                    weft_dtype to_dtype);
};

#define GPT_HOST_ACTIVATION WEFT_FP32 /* The host's type of activations. */

/* Computes nothing and touches no memory; of the types that the host computes with. */
extern const gpt_ops gpt_nothing;
gpt_device gpt_nothing_device(const gpt_shape *shape);

/* Open the host for models of this shape. @p device_out is given: release it with device->ops->close(). */
int gpt_host_open(const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure);

#endif
