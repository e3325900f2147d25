/* SPDX-License-Identifier: Apache-2.0 */
/* Naive arithmetic of every type. */
#include "values.h"

static uint32_t noise(size_t i, int rank)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x * 3266489917u;
}

static bool is_16_bit(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_FP16;
}

/* fp16: a number r * 2^q of 11 bits, the exponent as low as it can be. */
static uint16_t narrow_fp16(float f)
{
    unsigned sign = signbit(f) ? 0x8000 : 0;
    double a = fabs((double)f);
    int e;
    if (f != f)
        return 0x7e00;
    if (a >= 65520)
        return (uint16_t)(sign | 0x7c00);
    (void)frexp(a, &e);
    int q = e - 11 < -24 ? -24 : e - 11;
    unsigned r = (unsigned)rint(ldexp(a, -q));
    return (uint16_t)(sign | (r < 1024 ? r : (unsigned)(q + 25) * 1024 + r - 1024)); /* 2048 goes over by itself */
}

static float widen_fp16(uint16_t value)
{
    int e = value >> 10 & 31, m = value & 1023;
    double a = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(value & 0x8000 ? -a : a);
}

static uint16_t narrow(float f, weft_dtype dtype)
{
    uint32_t bits;
    if (dtype == WEFT_FP16)
        return narrow_fp16(f);
    if (f != f)
        return 0x7fc0;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t value, weft_dtype dtype)
{
    uint32_t bits = (uint32_t)value << 16;
    float f;
    if (dtype == WEFT_FP16)
        return widen_fp16(value);
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double real(size_t i, int rank)
{
    uint32_t x = noise(i, rank);
    if (x % 997 == 0)
        return (double)NAN;
    return (double)(int32_t)x / 4294967296.0 * (double)(1 << x % 7);
}

void value_write(void *to, weft_dtype dtype, size_t i, int rank)
{
    uint32_t x = noise(i, rank);
    switch (dtype) {
    case WEFT_FP32:
        *(float *)to = (float)real(i, rank);
        break;
    case WEFT_FP64:
        *(double *)to = real(i, rank);
        break;
    case WEFT_BF16:
    case WEFT_FP16:
        *(uint16_t *)to = narrow((float)real(i, rank), dtype);
        break;
    case WEFT_INT32:
        *(int32_t *)to = (int32_t)x;
        break;
    case WEFT_INT64:
        *(int64_t *)to = (int64_t)((uint64_t)x << (x & 31));
        break;
    case WEFT_UINT8:
        *(uint8_t *)to = (uint8_t)x;
        break;
    }
}

#define COMBINE(type, wrapping)                                                                                   \
    static type combine_##type(type a, type b, weft_reduction reduction)                                          \
    {                                                                                                             \
        if (reduction == WEFT_MIN || reduction == WEFT_MAX)                                                       \
            return a != a ? a : b != b ? b : (reduction == WEFT_MIN) == (a < b) ? a : b;                          \
        return reduction == WEFT_PRODUCT ? (type)((wrapping)a * (wrapping)b) : (type)((wrapping)a + (wrapping)b); \
    }
COMBINE(float, float)
COMBINE(double, double)
COMBINE(int32_t, uint32_t)
COMBINE(int64_t, uint64_t)
COMBINE(uint8_t, uint8_t)

#define REDUCE(type, read, divide)                                                     \
    do {                                                                               \
        type all = 0;                                                                  \
        for (int m = 0; m < s.machines; m++) {                                         \
            type sum = 0;                                                              \
            for (int k = 0; k < s.per_machine; k++) {                                  \
                type one;                                                              \
                read(one, m *s.per_machine + k);                                       \
                sum = k ? combine_##type(sum, one, reduction) : one;                   \
            }                                                                          \
            all = m ? combine_##type(all, sum, reduction) : sum;                       \
        }                                                                              \
        result_##type = divide && reduction == WEFT_AVERAGE ? all / (type)ranks : all; \
    } while (0)
#define READ(one, rank) value_write(&one, dtype, i, rank)
#define READ_16(one, rank)             \
    uint16_t raw;                      \
    value_write(&raw, dtype, i, rank); \
    one = widen(raw, dtype)

void value_reduce(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, shape s)
{
    int ranks = s.machines * s.per_machine;
    float result_float;
    double result_double;
    int32_t result_int32_t;
    int64_t result_int64_t;
    uint8_t result_uint8_t;
    switch (dtype) {
    case WEFT_FP32:
        REDUCE(float, READ, true);
        memcpy(to, &result_float, sizeof result_float);
        break;
    case WEFT_FP64:
        REDUCE(double, READ, true);
        memcpy(to, &result_double, sizeof result_double);
        break;
    case WEFT_BF16:
    case WEFT_FP16:
        REDUCE(float, READ_16, true);
        memcpy(to, &(uint16_t){narrow(result_float, dtype)}, sizeof(uint16_t));
        break;
    case WEFT_INT32:
        REDUCE(int32_t, READ, false);
        memcpy(to, &result_int32_t, sizeof result_int32_t);
        break;
    case WEFT_INT64:
        REDUCE(int64_t, READ, false);
        memcpy(to, &result_int64_t, sizeof result_int64_t);
        break;
    case WEFT_UINT8:
        REDUCE(uint8_t, READ, false);
        memcpy(to, &result_uint8_t, sizeof result_uint8_t);
        break;
    }
}

static bool is_nan(const void *value, weft_dtype dtype)
{
    if (is_16_bit(dtype)) {
        float f = widen(*(const uint16_t *)value, dtype);
        return f != f;
    }
    if (dtype == WEFT_FP32)
        return *(const float *)value != *(const float *)value;
    return dtype == WEFT_FP64 && *(const double *)value != *(const double *)value;
}

bool value_is(const void *got, const void *want, weft_dtype dtype)
{
    return memcmp(got, want, weft_dtype_bytes(dtype)) == 0 || (is_nan(got, dtype) && is_nan(want, dtype));
}
