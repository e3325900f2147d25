/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on flat arrays: one table of functions a device. It knows no bucket and no rank.
 *
 * Every element-wise function gives one result per element whatever its position, the length, the alignment and the
 * instruction set: no contraction, no reassociation. (Of a NaN only that it is one.) Formulas stand in the *_math.h
 * files, once for all devices. Arrays of one call are the same or apart; they may be misaligned to anything but their
 * element; counts are elements; a count of 0 is fine. Rounding is to nearest even. What is for floating types only does
 * nothing with others but tell of E_BUG: whoever takes dtypes from users checks them. */
#ifndef WEFT_DEVICE_VECTOR_H
#define WEFT_DEVICE_VECTOR_H
#include <stddef.h>
#include <stdint.h>
#include <weft/dtype.h>

/* An unevaluated sum high + low, |low| <= ulp(high)/2: about 106 bits. */
typedef struct weft__double2 {
    double high, low;
} weft__double2;

/* @p sum + @p x, within 2^-104 of it. Infinity and NaN as in the sum of two doubles. */
weft__double2 weft__double2_add(weft__double2 sum, weft__double2 x);

/* One step of AdamW (Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2; bias correction as in
 * Kingma & Ba, "Adam"): the state of each element is fp32. */
typedef struct weft__adamw {
    float lr, beta1, beta2, epsilon, weight_decay;
    float correction1, correction2; /* 1 - beta1^t, 1 - beta2^t */
    float grad_scale;               /* multiplied into the gradient first: the clip coefficient */
} weft__adamw;

typedef struct weft__vector {
    const char *name; /* "baseline", "avx2", "avx512", ... */

    /* dst[i] = value, rounded to the type; integer types take the nearest value they have, and 0 for NaN. */
    void (*fill)(void *dst, size_t count, weft_dtype dtype, double value);
    /* dst[i] *= factor; 16-bit types are multiplied in fp32 and rounded; floating types only. */
    void (*scale)(void *dst, size_t count, weft_dtype dtype, double factor);
    /* dst[i] = src[i], rounded once; between floating types. dst == src is fine if the sizes are equal. */
    void (*cast)(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count);
    /* dst[i] += src[i], in fp32. */
    void (*accumulate)(float *dst, const void *src, weft_dtype from, size_t count);
    /* dst[i] = sources[0][i] (+) sources[1][i] (+) ..., in that order; 16-bit types in fp32, fp64 in fp64, integers
     * wrap; rounded once at the end, after the division by @p divisor (WEFT_AVERAGE, of floating types; ignored
     * otherwise). Minimum and maximum are NaN if any source is. dst may be one of the sources. source_count >= 1. */
    void (*reduce)(void *dst, const void *const *sources, int source_count, size_t count, weft_dtype dtype,
                   weft_reduction reduction, int divisor);
    /* A copy whose result does not come into the cache: for what nobody reads soon. It is there for others when it
     * returns. */
    void (*copy_past)(void *dst, const void *src, size_t bytes);
    /* The same of a reduction, whose result goes to each of dsts. A dst may be one of the sources. @p sources itself is
     * changed meanwhile. */
    void (*reduce_past)(void *const *dsts, int dst_count, const void **sources, int source_count, size_t count,
                        weft_dtype dtype, weft_reduction reduction, int divisor);
    /* Sums of two arrays, the most common, to two places at once; each may be one of the arrays. */
    void (*sum_to_both)(float *first, float *second, const float *a, const float *b, size_t count);
    /* The sum of squares of a floating array, the same bits from every table. No square is rounded (of fp64: unless its
     * low half underflows). The error is below (count + 1000) * 2^-104 of the sum, also if an array is split and the
     * parts are added with weft__double2_add(). What is infinite or NaN in double arithmetic is so here; NaN for
     * other types. */
    weft__double2 (*sum_of_squares)(const void *src, size_t count, weft_dtype dtype);
    /* Index of the first NaN or infinity; count if there is none (in arrays of integers there never is). */
    size_t (*first_nonfinite)(const void *src, size_t count, weft_dtype dtype);
    /* One AdamW step: updates master, m, v and writes the rounded master to @p param_out (may be NULL, or master). */
    void (*adamw)(const weft__adamw *step, size_t count, float *master, float *m, float *v, const float *grad,
                  void *param_out, weft_dtype param_dtype);
} weft__vector;

/* The host's table for the best instruction set of this machine. */
const weft__vector *weft__vector_host(void);
/* The table for one instruction set, for tests; NULL behind the last or where this machine cannot run it. */
const weft__vector *weft__vector_host_at(int index);

/* For the types that C lacks: exact, and rounded to nearest even. */
float weft__bf16_to_float(uint16_t bits);
uint16_t weft__float_to_bf16(float value);
float weft__fp16_to_float(uint16_t bits);
uint16_t weft__float_to_fp16(float value);

#endif
