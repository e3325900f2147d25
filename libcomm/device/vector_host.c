/* SPDX-License-Identifier: Apache-2.0 */
/* Fill, scale, accumulate and AdamW, and the table of all loops for one instruction set. */
#include <float.h>

#include "device/adamw_math.h"
#include "device/convert_math.h"
#include "device/vector_host.h"

_Static_assert(FLT_EVAL_METHOD == 0, "float and double must be rounded after each operation");

static void fill_float(float *dst, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_uint16(uint16_t *dst, size_t count, uint16_t value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_double(double *dst, size_t count, double value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_int32(int32_t *dst, size_t count, int32_t value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_int64(int64_t *dst, size_t count, int64_t value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill_uint8(uint8_t *dst, size_t count, uint8_t value)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = value;
}

static void fill(void *dst, size_t count, weft_dtype dtype, double value)
{
    switch (dtype) {
    case WEFT_FP32:
        fill_float(dst, count, (float)value);
        break;
    case WEFT_BF16:
        fill_uint16(dst, count, weft__math_float_to_bf16(weft__math_double_to_odd_float(value)));
        break;
    case WEFT_FP16:
        fill_uint16(dst, count, weft__math_float_to_fp16(weft__math_double_to_odd_float(value)));
        break;
    case WEFT_FP64:
        fill_double(dst, count, value);
        break;
    case WEFT_INT32:
        fill_int32(dst, count, (int32_t)weft__math_double_to_int64(value, INT32_MIN, INT32_MAX));
        break;
    case WEFT_INT64:
        fill_int64(dst, count, weft__math_double_to_int64(value, INT64_MIN, INT64_MAX));
        break;
    case WEFT_UINT8:
        fill_uint8(dst, count, (uint8_t)weft__math_double_to_int64(value, 0, UINT8_MAX));
        break;
    }
}

static void scale_float(float *dst, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] *= factor;
}

static void scale_double(double *dst, size_t count, double factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] *= factor;
}

static void scale_by_blocks(void *dst, size_t count, weft_dtype dtype, float factor)
{
    float stage[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        char *at = (char *)dst + begin * weft__dtype_bytes(dtype);
        weft__widen(stage, at, dtype, n);
        scale_float(stage, n, factor);
        weft__narrow(at, dtype, stage, n);
    }
}

static void scale(void *dst, size_t count, weft_dtype dtype, double factor)
{
    if (!weft__vector_takes("scale", dtype))
        return;
    if (dtype == WEFT_FP64)
        scale_double(dst, count, factor);
    else if (dtype == WEFT_FP32)
        scale_float(dst, count, (float)factor);
    else
        scale_by_blocks(dst, count, dtype, (float)factor);
}

static void accumulate_float(float *dst, const float *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] += src[i];
}

static void accumulate(float *dst, const void *src, weft_dtype from, size_t count)
{
    if (!weft__vector_takes("accumulate", from))
        return;
    if (from == WEFT_FP32) {
        accumulate_float(dst, src, count);
        return;
    }
    float stage[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        weft__widen(stage, weft__at(src, begin, from), from, n);
        accumulate_float(dst + begin, stage, n);
    }
}

static void sum_to_both(float *first, float *second, const float *a, const float *b, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        first[i] = second[i] = a[i] + b[i];
}

static void adamw_float(weft__adamw_rates rates, size_t count, float *master, float *m, float *v, const float *grad)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        weft__adamw_state state = {master[i], m[i], v[i]};
        state = weft__adamw_step(rates, state, grad[i]);
        master[i] = state.master;
        m[i] = state.m;
        v[i] = state.v;
    }
}

static void adamw(const weft__adamw *step, size_t count, float *master, float *m, float *v, const float *grad,
                  void *param_out, weft_dtype param_dtype)
{
    if (param_out && !weft__vector_takes("adamw", param_dtype))
        return;
    weft__adamw_rates rates = weft__adamw_rates_of(step);
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        adamw_float(rates, n, master + begin, m + begin, v + begin, grad + begin);
        if (param_out)
            weft__narrow((char *)param_out + begin * weft__dtype_bytes(param_dtype), param_dtype, master + begin, n);
    }
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const weft__vector WEFT__JOIN(weft__vector, WEFT__SET) = {
    .name = TEXT(WEFT__SET),
    .fill = fill,
    .scale = scale,
    .cast = weft__cast,
    .accumulate = accumulate,
    .reduce = weft__reduce,
    .copy_past = weft__copy_past,
    .reduce_past = weft__reduce_past,
    .sum_to_both = sum_to_both,
    .sum_of_squares = weft__sum_of_squares,
    .first_nonfinite = weft__first_nonfinite,
    .adamw = adamw,
};
