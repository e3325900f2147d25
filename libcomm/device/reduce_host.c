/* SPDX-License-Identifier: Apache-2.0 */
/* Several arrays become one, block by block: the sources stream through the cache while the sums stay in it. */
#include "device/convert_math.h"
#include "device/reduce_math.h"
#include "device/vector_host.h"

#define SAME(x) (x)

#define TYPE        fp32
#define ELEMENT     float
#define ACCUMULATOR float
#define WIDEN       SAME
#define NARROW      SAME
#define COMBINE     weft__combine_float
#define CAN_AVERAGE 1
#include "device/reduce_loops.h"

#define TYPE        bf16
#define ELEMENT     uint16_t
#define ACCUMULATOR float
#define WIDEN       weft__math_bf16_to_float
#define NARROW      weft__math_float_to_bf16
#define COMBINE     weft__combine_float
#define CAN_AVERAGE 1
#include "device/reduce_loops.h"

#define TYPE        fp64
#define ELEMENT     double
#define ACCUMULATOR double
#define WIDEN       SAME
#define NARROW      SAME
#define COMBINE     weft__combine_double
#define CAN_AVERAGE 1
#include "device/reduce_loops.h"

#define TYPE        int32
#define ELEMENT     int32_t
#define ACCUMULATOR int32_t
#define WIDEN       SAME
#define NARROW      SAME
#define COMBINE     weft__combine_int32
#define CAN_AVERAGE 0
#include "device/reduce_loops.h"

#define TYPE        int64
#define ELEMENT     int64_t
#define ACCUMULATOR int64_t
#define WIDEN       SAME
#define NARROW      SAME
#define COMBINE     weft__combine_int64
#define CAN_AVERAGE 0
#include "device/reduce_loops.h"

#define TYPE        uint8
#define ELEMENT     uint8_t
#define ACCUMULATOR uint8_t
#define WIDEN       SAME
#define NARROW      SAME
#define COMBINE     weft__combine_uint8
#define CAN_AVERAGE 0
#include "device/reduce_loops.h"

/* The instructions for fp16 work on whole stretches: so does this, with the loops of fp32. */
static void reduce_fp16(uint16_t *dst, const void *const *sources, int source_count, size_t count,
                        weft_reduction reduction, int divisor)
{
    float sum[WEFT__BLOCK], term[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        weft__widen(sum, (const uint16_t *)sources[0] + begin, WEFT_FP16, n);
        for (int k = 1; k < source_count; k++) {
            weft__widen(term, (const uint16_t *)sources[k] + begin, WEFT_FP16, n);
            add_fp32(sum, term, n, reduction);
        }
        if (reduction == WEFT_AVERAGE)
            close_fp32(sum, sum, n, reduction, divisor);
        weft__narrow(dst + begin, WEFT_FP16, sum, n);
    }
}

void weft__reduce(void *dst, const void *const *sources, int source_count, size_t count, weft_dtype dtype,
                  weft_reduction reduction, int divisor)
{
    switch (dtype) {
    case WEFT_FP32:
        reduce_fp32(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_BF16:
        reduce_bf16(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_FP16:
        reduce_fp16(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_FP64:
        reduce_fp64(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_INT32:
        reduce_int32(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_INT64:
        reduce_int64(dst, sources, source_count, count, reduction, divisor);
        break;
    case WEFT_UINT8:
        reduce_uint8(dst, sources, source_count, count, reduction, divisor);
        break;
    }
}
