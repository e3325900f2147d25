/* SPDX-License-Identifier: Apache-2.0 */
/* What is compiled once for all instruction sets: the formulas for single values, as functions, and the refusal. */
#include <math.h>

#include "base/error.h"
#include "device/convert_math.h"
#include "device/double2_math.h"
#include "device/vector_host.h"

weft__double2 weft__double2_add(weft__double2 sum, weft__double2 x)
{
    double plain = sum.high + x.high;
    return isfinite(plain) ? weft__math_double2_add(sum, x) : weft__double2_of(plain, 0);
}

float weft__bf16_to_float(uint16_t bits)
{
    return weft__math_bf16_to_float(bits);
}

uint16_t weft__float_to_bf16(float value)
{
    return weft__math_float_to_bf16(value);
}

float weft__fp16_to_float(uint16_t bits)
{
    return weft__math_fp16_to_float(bits);
}

uint16_t weft__float_to_fp16(float value)
{
    return weft__math_float_to_fp16(value);
}

bool weft__vector_takes(const char *what, weft_dtype dtype)
{
    if (weft__is_floating(dtype))
        return true;
    (void)weft__fail(WEFT_E_BUG, "%s of dtype %s, which is not a floating type", what, weft_dtype_string(dtype));
    return false;
}
