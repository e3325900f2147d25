/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on unevaluated sums of two doubles, without FMA (Dekker, "A floating-point technique for extending the
 * available precision"; Knuth, "The Art of Computer Programming" 4.2.2; Joldes, Muller & Popescu, "Tight and rigorous
 * error bounds for basic building blocks of double-word arithmetic", algorithms 4 and 6). Finite values only. */
#ifndef WEFT_DEVICE_DOUBLE2_MATH_H
#define WEFT_DEVICE_DOUBLE2_MATH_H
#include "device/formula.h"
#include "device/vector.h"

WEFT_MATH weft__double2 weft__double2_of(double high, double low)
{
    weft__double2 pair;
    pair.high = high;
    pair.low = low;
    return pair;
}

/* a + b, exactly. */
WEFT_MATH weft__double2 weft__two_sum(double a, double b)
{
    double sum = a + b;
    double b_part = sum - a;
    double a_part = sum - b_part;
    return weft__double2_of(sum, (a - a_part) + (b - b_part));
}

/* a + b, exactly, where |a| >= |b| or a = 0. */
WEFT_MATH weft__double2 weft__fast_two_sum(double a, double b)
{
    double sum = a + b;
    return weft__double2_of(sum, b - (sum - a));
}

/* value^2, exactly unless it overflows or its low half underflows. */
WEFT_MATH weft__double2 weft__exact_square(double value)
{
    double scaled = value * 134217729.0; /* 2^27 + 1: cuts 53 bits into 26 and 26 with a sign */
    double head = scaled - (scaled - value);
    double tail = value - head;
    double square = value * value;
    return weft__double2_of(square, ((head * head - square) + 2 * head * tail) + tail * tail);
}

WEFT_MATH weft__double2 weft__math_double2_add_double(weft__double2 sum, double x)
{
    weft__double2 s = weft__two_sum(sum.high, x);
    return weft__fast_two_sum(s.high, s.low + sum.low);
}

WEFT_MATH weft__double2 weft__math_double2_add(weft__double2 sum, weft__double2 x)
{
    weft__double2 high = weft__two_sum(sum.high, x.high);
    weft__double2 low = weft__two_sum(sum.low, x.low);
    weft__double2 s = weft__fast_two_sum(high.high, high.low + low.high);
    return weft__fast_two_sum(s.high, s.low + low.low);
}

#endif
