/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction of one element type. Included once for each, with these defined, which it undefines:
 *   TYPE         its name              ELEMENT   how it lies in memory        CAN_AVERAGE  0 for integers
 *   ACCUMULATOR  how it is summed up   WIDEN(x)  element to accumulator       NARROW(x)    and back
 *   COMBINE(a, b, reduction)           from reduce_math.h */

WEFT__INLINE ELEMENT WEFT__JOIN(finished, TYPE)(ACCUMULATOR sum, weft_reduction reduction, int divisor)
{
    return NARROW(CAN_AVERAGE && reduction == WEFT_AVERAGE ? sum / (ACCUMULATOR)divisor : sum);
}

WEFT__INLINE void WEFT__JOIN(pair_loop, TYPE)(ELEMENT *dst, const ELEMENT *a, const ELEMENT *b, size_t count,
                                              weft_reduction reduction, int divisor)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        dst[i] = WEFT__JOIN(finished, TYPE)(COMBINE(WIDEN(a[i]), WIDEN(b[i]), reduction), reduction, divisor);
}

/* Two sources, the most common number, need no memory for sums. */
static void WEFT__JOIN(pair, TYPE)(ELEMENT *dst, const ELEMENT *a, const ELEMENT *b, size_t count,
                                   weft_reduction reduction, int divisor)
{
    switch (reduction) {
    case WEFT_AVERAGE:
        WEFT__JOIN(pair_loop, TYPE)(dst, a, b, count, WEFT_AVERAGE, divisor);
        break;
    case WEFT_MIN:
        WEFT__JOIN(pair_loop, TYPE)(dst, a, b, count, WEFT_MIN, 1);
        break;
    case WEFT_MAX:
        WEFT__JOIN(pair_loop, TYPE)(dst, a, b, count, WEFT_MAX, 1);
        break;
    case WEFT_PRODUCT:
        WEFT__JOIN(pair_loop, TYPE)(dst, a, b, count, WEFT_PRODUCT, 1);
        break;
    case WEFT_SUM:
        WEFT__JOIN(pair_loop, TYPE)(dst, a, b, count, WEFT_SUM, 1);
        break;
    }
}

static void WEFT__JOIN(open, TYPE)(ACCUMULATOR *sum, const ELEMENT *source, size_t count)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        sum[i] = WIDEN(source[i]);
}

WEFT__INLINE void WEFT__JOIN(add_loop, TYPE)(ACCUMULATOR *sum, const ELEMENT *source, size_t count,
                                             weft_reduction reduction)
{
    WEFT__INDEPENDENT
    for (size_t i = 0; i < count; i++)
        sum[i] = COMBINE(sum[i], WIDEN(source[i]), reduction);
}

static void WEFT__JOIN(add, TYPE)(ACCUMULATOR *sum, const ELEMENT *source, size_t count, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_MIN:
        WEFT__JOIN(add_loop, TYPE)(sum, source, count, WEFT_MIN);
        break;
    case WEFT_MAX:
        WEFT__JOIN(add_loop, TYPE)(sum, source, count, WEFT_MAX);
        break;
    case WEFT_PRODUCT:
        WEFT__JOIN(add_loop, TYPE)(sum, source, count, WEFT_PRODUCT);
        break;
    case WEFT_SUM:
    case WEFT_AVERAGE: /* divided at the end */
        WEFT__JOIN(add_loop, TYPE)(sum, source, count, WEFT_SUM);
        break;
    }
}

static void WEFT__JOIN(close, TYPE)(ELEMENT *dst, const ACCUMULATOR *sum, size_t count, weft_reduction reduction,
                                    int divisor)
{
    if (reduction == WEFT_AVERAGE) {
        WEFT__INDEPENDENT
        for (size_t i = 0; i < count; i++)
            dst[i] = WEFT__JOIN(finished, TYPE)(sum[i], WEFT_AVERAGE, divisor);
    } else {
        WEFT__INDEPENDENT
        for (size_t i = 0; i < count; i++)
            dst[i] = WEFT__JOIN(finished, TYPE)(sum[i], WEFT_SUM, 1);
    }
}

static void WEFT__JOIN(reduce, TYPE)(ELEMENT *dst, const void *const *sources, int source_count, size_t count,
                                     weft_reduction reduction, int divisor)
{
    if (source_count == 2) {
        WEFT__JOIN(pair, TYPE)(dst, sources[0], sources[1], count, reduction, divisor);
        return;
    }
    ACCUMULATOR sum[WEFT__BLOCK];
    for (size_t begin = 0; begin < count; begin += WEFT__BLOCK) {
        size_t n = weft__block(count, begin);
        WEFT__JOIN(open, TYPE)(sum, (const ELEMENT *)sources[0] + begin, n);
        for (int k = 1; k < source_count; k++)
            WEFT__JOIN(add, TYPE)(sum, (const ELEMENT *)sources[k] + begin, n, reduction);
        WEFT__JOIN(close, TYPE)(dst + begin, sum, n, reduction, divisor);
    }
}

#undef TYPE
#undef ELEMENT
#undef ACCUMULATOR
#undef WIDEN
#undef NARROW
#undef COMBINE
#undef CAN_AVERAGE
