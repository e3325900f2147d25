/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the inputs of collectives, and judges their results, one element at a time. */
#include "perf/conform/values.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------- inputs */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Of either sign, from 2^-@p binades to 2^(@p binades + 1), with every bit of the fraction in use: the order of a sum
 * shows. */
static double spread(uint64_t random, int binades)
{
    double fraction = 1 + (double)(random & 0xfffffffffffffu) * 0x1p-52;
    int exponent = (int)(random >> 52 & 0xff) % (2 * binades + 1) - binades;
    return ldexp(random >> 63 ? -fraction : fraction, exponent);
}

perf_element conform_value(const conform_values *v, int rank, size_t index)
{
    uint64_t random = mix(v->seed + mix((uint64_t)rank << 48 ^ index % CONFORM_PERIOD));
    if (!v->reduces || perf_element_is_whole(v->dtype))
        return perf_element_cut(v->dtype, random);
    bool extreme = v->reduction == WEFT_MIN || v->reduction == WEFT_MAX;
    if (extreme && mix(random) % 64 == 0)
        return perf_element_of(v->dtype, NAN);
    double value = spread(random, v->reduction == WEFT_PRODUCT ? 1 : 6);
    return perf_element_of(v->dtype, v->dtype == WEFT_FP64 ? value : (float)value);
}

/* ------------------------------------------------------------------------------------------- in rank order */

static perf_element ordered_result(const conform_values *v, size_t index)
{
    perf_element elements[CONFORM_RANKS_MOST];
    for (int r = 0; r < v->ranks; r++)
        elements[r] = conform_value(v, r, index);
    return perf_element_reduce(v->dtype, v->reduction, elements, v->ranks, v->group);
}

/* ------------------------------------------------------------------------------------------- in any order */

static bool is_near(const conform_values *v, size_t index, double got)
{
    double own_ulp = perf_element_epsilon(v->dtype); /* of the last step, of the others that of fp32 or fp64 */
    double ulp = v->dtype == WEFT_FP64 ? own_ulp : perf_element_epsilon(WEFT_FP32);
    long double result = v->reduction == WEFT_PRODUCT, sizes = result;
    for (int r = 0; r < v->ranks; r++) {
        long double value = perf_element_number(v->dtype, conform_value(v, r, index));
        result = v->reduction == WEFT_PRODUCT ? result * value : result + value;
        sizes = v->reduction == WEFT_PRODUCT ? fabsl(result) : sizes + fabsl(value);
    }
    long double divisor = v->reduction == WEFT_AVERAGE ? v->ranks : 1;
    long double steps = (long double)(v->ranks + 1) * 1.01L;
    long double smallest = v->dtype == WEFT_FP16 ? 0x1p-25 : 0; /* half of the distance of subnormals */
    long double far = (steps * ulp * sizes + own_ulp * 1.01L * fabsl(result)) / divisor + smallest;
    return fabsl((long double)got - result / divisor) <= far;
}

bool conform_is_right(const conform_values *v, size_t index, perf_element got, perf_element *want_out)
{
    bool rounds = v->reduction != WEFT_MIN && v->reduction != WEFT_MAX;
    *want_out = ordered_result(v, index);
    if (got == *want_out)
        return true;
    if (perf_element_is_whole(v->dtype))
        return false;
    double got_number = perf_element_number(v->dtype, got);
    if (isnan(perf_element_number(v->dtype, *want_out)))
        return isnan(got_number);
    return !v->ordered && rounds && is_near(v, index, got_number);
}
