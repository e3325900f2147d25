/* SPDX-License-Identifier: Apache-2.0 */
/* One answer from one array: the sum of squares, and where the first value is that is not finite. */
#include <math.h>

#include "device/double2_math.h"
#include "device/nonfinite_math.h"
#include "device/vector_host.h"

/* Element i belongs to sum i % LANES, whatever the instruction set. A sum takes STEPS squares, then its halves are made
 * to fit each other again. */
enum { LANES = 32, STEPS = 16 };
_Static_assert(WEFT__BLOCK % (LANES * STEPS) == 0, "blocks must leave no sum in the middle of its steps");

typedef struct sums {
    double high[LANES], low[LANES];
} sums;

WEFT__INLINE weft__double2 square_at(const void *src, size_t i, weft_dtype dtype)
{
    if (dtype == WEFT_FP64)
        return weft__exact_square(((const double *)src)[i]);
    double value = (double)((const float *)src)[i];
    return weft__double2_of(value * value, 0);
}

WEFT__INLINE void add_step(sums *sum, const void *src, size_t begin, size_t count, weft_dtype dtype)
{
    WEFT__INDEPENDENT
    for (size_t lane = 0; lane < count; lane++) {
        weft__double2 square = square_at(src, begin + lane, dtype);
        weft__double2 high = weft__two_sum(sum->high[lane], square.high);
        sum->high[lane] = high.high;
        sum->low[lane] += dtype == WEFT_FP64 ? high.low + square.low : high.low;
    }
}

static void settle(sums *sum)
{
    WEFT__INDEPENDENT
    for (int lane = 0; lane < LANES; lane++) {
        weft__double2 settled = weft__fast_two_sum(sum->high[lane], sum->low[lane]);
        sum->high[lane] = settled.high;
        sum->low[lane] = settled.low;
    }
}

WEFT__INLINE void add_squares(sums *sum, const void *src, size_t count, weft_dtype dtype)
{
    size_t whole = count - count % LANES;
    for (size_t begin = 0; begin < whole;) {
        for (int step = 0; step < STEPS && begin < whole; step++, begin += LANES)
            add_step(sum, src, begin, LANES, dtype);
        settle(sum);
    }
    add_step(sum, src, whole, count - whole, dtype);
    settle(sum);
}

static void add_squares_by_blocks(sums *sum, const void *src, size_t count, weft_dtype dtype)
{
    float stage[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        weft__widen(stage, weft__at(src, begin, dtype), dtype, n);
        add_squares(sum, stage, n, WEFT_FP32);
    }
}

/* An infinity turns the errors of sums into NaN: leave them out, and what remains is what IEEE arithmetic says. */
static __attribute__((cold)) double plain_sum_of_squares(const void *src, size_t count, weft_dtype dtype)
{
    double sum = 0, stage[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        weft__cast(stage, WEFT_FP64, weft__at(src, begin, dtype), dtype, n);
        for (size_t i = 0; i < n; i++)
            sum += stage[i] * stage[i];
    }
    return sum;
}

weft__double2 weft__sum_of_squares(const void *src, size_t count, weft_dtype dtype)
{
    if (!weft__vector_takes("sum of squares", dtype))
        return weft__double2_of(NAN, 0);
    sums sum = {{0}, {0}};
    if (dtype == WEFT_FP64)
        add_squares(&sum, src, count, WEFT_FP64);
    else if (dtype == WEFT_FP32)
        add_squares(&sum, src, count, WEFT_FP32);
    else
        add_squares_by_blocks(&sum, src, count, dtype);
    weft__double2 total = {0, 0};
    for (size_t lane = 0; lane < LANES && lane < count; lane++) /* the others are exactly zero */
        total = weft__double2_add(total, weft__double2_of(sum.high[lane], sum.low[lane]));
    return isfinite(total.high) ? total : weft__double2_of(plain_sum_of_squares(src, count, dtype), 0);
}

WEFT__INLINE uint32_t nonfinite_at(const void *src, size_t i, weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BF16:
        return weft__nonfinite_bf16(((const uint16_t *)src)[i]);
    case WEFT_FP16:
        return weft__nonfinite_fp16(((const uint16_t *)src)[i]);
    case WEFT_FP64:
        return weft__nonfinite_double(((const double *)src)[i]);
    case WEFT_FP32:
        return weft__nonfinite_float(((const float *)src)[i]);
    case WEFT_INT32:
    case WEFT_INT64:
    case WEFT_UINT8:
        break; /* all are finite */
    }
    return 0;
}

WEFT__INLINE size_t first_nonfinite_loop(const void *src, size_t count, weft_dtype dtype)
{
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t end = begin + weft__block(count, begin);
        uint32_t any = 0;
        for (size_t i = begin; i < end; i++)
            any |= nonfinite_at(src, i, dtype);
        if (any >> 31 == 0)
            continue;
        for (size_t i = begin; i < end; i++)
            if (nonfinite_at(src, i, dtype) >> 31)
                return i;
    }
    return count;
}

size_t weft__first_nonfinite(const void *src, size_t count, weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BF16:
        return first_nonfinite_loop(src, count, WEFT_BF16);
    case WEFT_FP16:
        return first_nonfinite_loop(src, count, WEFT_FP16);
    case WEFT_FP64:
        return first_nonfinite_loop(src, count, WEFT_FP64);
    case WEFT_FP32:
        return first_nonfinite_loop(src, count, WEFT_FP32);
    case WEFT_INT32:
    case WEFT_INT64:
    case WEFT_UINT8:
        break; /* all are finite */
    }
    return count;
}
