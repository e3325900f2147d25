/* SPDX-License-Identifier: Apache-2.0 */
/* Naive reductions of every type. */
#include "harness/values.h"

/* Every sum, product and quotient of two floats is rounded right by way of double. */
static double rounded(double value, weft_dtype dtype)
{
    return dtype == WEFT_FP64 ? value : (double)(float)value;
}

double combine_floating(double a, double b, weft_reduction reduction, weft_dtype dtype)
{
    if (reduction == WEFT_MIN || reduction == WEFT_MAX)
        return isnan(a) || isnan(b) ? (double)NAN : (reduction == WEFT_MIN ? a < b : a > b) ? a : b;
    return rounded(reduction == WEFT_PRODUCT ? a * b : a + b, dtype);
}

double fold_floating(const double *values, int count, weft_reduction reduction, weft_dtype dtype)
{
    double result = values[0];
    for (int k = 1; k < count; k++)
        result = combine_floating(result, values[k], reduction, dtype);
    return result;
}

double divide_floating(double value, int divisor, weft_dtype dtype)
{
    return rounded(value / divisor, dtype);
}

int64_t fold_integer(const int64_t *values, int count, weft_reduction reduction)
{
    int64_t result = values[0];
    for (int k = 1; k < count; k++) {
        int64_t x = values[k];
        if (reduction == WEFT_SUM)
            result = (int64_t)((uint64_t)result + (uint64_t)x);
        else if (reduction == WEFT_PRODUCT)
            result = (int64_t)((uint64_t)result * (uint64_t)x);
        else
            result = (reduction == WEFT_MIN ? x < result : x > result) ? x : result;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------- of ranks */

enum { MOST = 16 }; /* machines, and ranks of one */

static uint32_t noise(size_t i, int rank)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return x * 3266489917u;
}

void value_write(void *to, weft_dtype dtype, size_t i, int rank)
{
    uint32_t x = noise(i, rank);
    if (!is_floating(dtype)) {
        put_bits(to, 0, dtype, dtype == WEFT_INT64 ? (uint64_t)x << (x & 31) : x);
        return;
    }
    double value = x % 997 == 0 ? (double)NAN : (double)(int32_t)x / 4294967296.0 * (double)(1 << x % 7);
    float as_float = (float)value;
    if (dtype == WEFT_FP64)
        memcpy(to, &value, sizeof value);
    else if (dtype == WEFT_FP32)
        memcpy(to, &as_float, sizeof as_float);
    else
        put_value(to, 0, dtype, value);
}

static void reduce_floating(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, shape s)
{
    double ranks[MOST] = {0}, machines[MOST] = {0};
    uint64_t bits;
    for (int m = 0; m < s.machines; m++) {
        for (int k = 0; k < s.per_machine; k++) {
            value_write(&bits, dtype, i, m * s.per_machine + k);
            ranks[k] = value_at(&bits, 0, dtype);
        }
        machines[m] = fold_floating(ranks, s.per_machine, reduction, dtype);
    }
    double result = fold_floating(machines, s.machines, reduction, dtype);
    if (reduction == WEFT_AVERAGE)
        result = divide_floating(result, s.machines * s.per_machine, dtype);
    put_value(to, 0, dtype, result);
}

/* The order does not matter. */
static void reduce_integers(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, int count)
{
    int64_t ranks[MOST * MOST] = {0};
    uint64_t bits;
    for (int r = 0; r < count; r++) {
        value_write(&bits, dtype, i, r);
        ranks[r] = integer_at(&bits, 0, dtype);
    }
    put_bits(to, 0, dtype, (uint64_t)fold_integer(ranks, count, reduction));
}

void value_reduce(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, shape s)
{
    CHECK(s.machines <= MOST && s.per_machine <= MOST);
    if (is_floating(dtype))
        reduce_floating(to, dtype, reduction, i, s);
    else
        reduce_integers(to, dtype, reduction, i, s.machines * s.per_machine);
}
