/* SPDX-License-Identifier: Apache-2.0 */
/* Two elements become one. The reduction is a constant where this is called. Minimum and maximum are NaN if either
 * element is, and the second of two equal ones (0 and -0); integers wrap; an average is a sum until its end. */
#ifndef WEFT_DEVICE_REDUCE_MATH_H
#define WEFT_DEVICE_REDUCE_MATH_H
#include <weft/dtype.h>

#include "device/formula.h"

WEFT_MATH float weft__combine_float(float a, float b, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        return ((a < b) | (a != a)) ? a : b;
    case WEFT_MAX:
        return ((a > b) | (a != a)) ? a : b;
    case WEFT_PRODUCT:
        return a * b;
    case WEFT_SUM:
    case WEFT_AVERAGE:
        break;
    }
    return a + b;
}

WEFT_MATH double weft__combine_double(double a, double b, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        return ((a < b) | (a != a)) ? a : b;
    case WEFT_MAX:
        return ((a > b) | (a != a)) ? a : b;
    case WEFT_PRODUCT:
        return a * b;
    case WEFT_SUM:
    case WEFT_AVERAGE:
        break;
    }
    return a + b;
}

WEFT_MATH int32_t weft__combine_int32(int32_t a, int32_t b, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_PRODUCT:
        return (int32_t)((uint32_t)a * (uint32_t)b);
    case WEFT_SUM:
    case WEFT_AVERAGE:
        break;
    }
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

WEFT_MATH int64_t weft__combine_int64(int64_t a, int64_t b, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case WEFT_SUM:
    case WEFT_AVERAGE:
        break;
    }
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

WEFT_MATH uint8_t weft__combine_uint8(uint8_t a, uint8_t b, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_PRODUCT:
        return (uint8_t)(a * b);
    case WEFT_SUM:
    case WEFT_AVERAGE:
        break;
    }
    return (uint8_t)(a + b);
}

#endif
