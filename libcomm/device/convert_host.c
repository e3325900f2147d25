/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays from one floating type to another: by way of fp32, where neither end is. */
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "device/convert_math.h"
#include "device/vector_host.h"

/* fp16 has instructions of its own, which the compiler does not use for loops: how many elements they did. */
#if defined(__F16C__)
static size_t widen_fp16_by_8(float *dst, const uint16_t *src, size_t count)
{
    size_t whole = count - count % 8;
    for (size_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    return whole;
}

static size_t narrow_fp16_by_8(uint16_t *dst, const float *src, size_t count)
{
    size_t whole = count - count % 8;
    for (size_t i = 0; i < whole; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    return whole;
}
#else
static size_t widen_fp16_by_8(float *dst, const uint16_t *src, size_t count)
{
    (void)dst, (void)src, (void)count;
    return 0;
}

static size_t narrow_fp16_by_8(uint16_t *dst, const float *src, size_t count)
{
    (void)dst, (void)src, (void)count;
    return 0;
}
#endif

static void widen_fp16(float *dst, const uint16_t *src, size_t count)
{
    size_t done = widen_fp16_by_8(dst, src, count);
    WEFT__INDEPENDENT
    for (size_t i = done; i < count; i++)
        dst[i] = weft__math_fp16_to_float(src[i]);
}

static void narrow_fp16(uint16_t *dst, const float *src, size_t count)
{
    size_t done = narrow_fp16_by_8(dst, src, count);
    WEFT__INDEPENDENT
    for (size_t i = done; i < count; i++)
        dst[i] = weft__math_float_to_fp16(src[i]);
}

static void widen_bf16(float *dst, const uint16_t *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = weft__math_bf16_to_float(src[i]);
}

static void narrow_bf16(uint16_t *dst, const float *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = weft__math_float_to_bf16(src[i]);
}

static void narrow_double(float *dst, const double *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = (float)src[i];
}

static void narrow_double_to_odd(float *dst, const double *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = weft__math_double_to_odd_float(src[i]);
}

static void widen_to_double(double *dst, const float *src, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = (double)src[i];
}

void weft__widen(float *dst, const void *src, weft_dtype from, size_t count)
{
    switch (from) {
    case WEFT_BF16:
        widen_bf16(dst, src, count);
        break;
    case WEFT_FP16:
        widen_fp16(dst, src, count);
        break;
    case WEFT_FP64:
        narrow_double(dst, src, count);
        break;
    case WEFT_FP32:
        memmove(dst, src, count * sizeof *dst);
        break;
    case WEFT_INT32:
    case WEFT_INT64:
    case WEFT_UINT8:
        break; /* refused before */
    }
}

void weft__narrow(void *dst, weft_dtype to, const float *src, size_t count)
{
    switch (to) {
    case WEFT_BF16:
        narrow_bf16(dst, src, count);
        break;
    case WEFT_FP16:
        narrow_fp16(dst, src, count);
        break;
    case WEFT_FP64:
        widen_to_double(dst, src, count);
        break;
    case WEFT_FP32:
        memmove(dst, src, count * sizeof *src);
        break;
    case WEFT_INT32:
    case WEFT_INT64:
    case WEFT_UINT8:
        break; /* refused before */
    }
}

/* Neither type is fp32. A double goes to 16 bits by way of an fp32 that still tells which side of a tie it was on. */
static void cast_by_blocks(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count)
{
    float stage[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        if (from == WEFT_FP64)
            narrow_double_to_odd(stage, (const double *)src + begin, n);
        else
            weft__widen(stage, weft__at(src, begin, from), from, n);
        weft__narrow((char *)dst + begin * weft__dtype_bytes(to), to, stage, n);
    }
}

void weft__cast(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count)
{
    if (count == 0 || !weft__vector_takes("cast", to) || !weft__vector_takes("cast", from))
        return;
    if (to == from)
        memmove(dst, src, count * weft__dtype_bytes(to));
    else if (to == WEFT_FP32)
        weft__widen(dst, src, from, count);
    else if (from == WEFT_FP32)
        weft__narrow(dst, to, src, count);
    else
        cast_by_blocks(dst, to, src, from, count);
}
