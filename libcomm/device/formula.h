/* SPDX-License-Identifier: Apache-2.0 */
/* What every *_math.h needs. A formula is written once for all devices, as a pure function of single elements: in the
 * part of C that C++ shares, and without branches. It holds where operations round to nearest even, each by itself: so
 * no compiler may contract a product and a sum. */
#ifndef WEFT_DEVICE_FORMULA_H
#define WEFT_DEVICE_FORMULA_H
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define WEFT_MATH static __host__ __device__ __forceinline__
#else
#define WEFT_MATH static inline __attribute__((always_inline)) /* a loop around a call is not vectorised */
#endif

WEFT_MATH uint32_t weft__bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

WEFT_MATH float weft__float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

WEFT_MATH uint64_t weft__bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
