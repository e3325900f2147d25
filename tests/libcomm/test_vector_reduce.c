/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of every instruction set against arithmetic on single elements, everywhere in an array. */
#include "everywhere.h"

static uint64_t reduced_floating(const call *c, size_t i)
{
    double values[MOST_SOURCES];
    for (int k = 0; k < c->source_count; k++)
        values[k] = value_at(c->sources[k], i, c->dtype);
    double result = fold_floating(values, c->source_count, c->reduction, c->dtype);
    if (c->reduction == WEFT_AVERAGE)
        result = divide_floating(result, c->divisor, c->dtype);
    return bits_of_value(result, format_of(c->dtype));
}

static uint64_t reduced_integer(const call *c, size_t i)
{
    int64_t values[MOST_SOURCES];
    for (int k = 0; k < c->source_count; k++)
        values[k] = integer_at(c->sources[k], i, c->dtype);
    return (uint64_t)fold_integer(values, c->source_count, c->reduction);
}

static void run_reduce(const call *c, void *dst, size_t begin, size_t count)
{
    const void *sources[MOST_SOURCES];
    for (int k = 0; k < c->source_count; k++)
        sources[k] = source_at(c, k, begin);
    c->vector->reduce(dst, sources, c->source_count, count, c->dtype, c->reduction, c->divisor);
}

static void check_reductions(weft_dtype dtype)
{
    static uint64_t expected[ELEMENTS];
    call c = {.run = run_reduce, .dtype = dtype, .source_dtype = dtype, .expected = expected};
    for (int k = 0; k < MOST_SOURCES; k++)
        c.sources[k] = random_source(k, dtype);
    static const int source_counts[] = {1, 2, 3, MOST_SOURCES};
    for (int r = 0; r < WEFT_REDUCTIONS; r++) {
        if (!weft__can_reduce(dtype, (weft_reduction)r))
            continue;
        c.reduction = (weft_reduction)r;
        c.what = weft_reduction_string(c.reduction);
        for (int n = 0; n < COUNT_OF(source_counts); n++) {
            c.source_count = source_counts[n];
            c.divisor = r == WEFT_AVERAGE ? c.source_count : 1;
            for (size_t i = 0; i < ELEMENTS; i++)
                put_bits(expected, i, dtype,
                         weft__is_floating(dtype) ? reduced_floating(&c, i) : reduced_integer(&c, i));
            check_on_all_sets(&c);
        }
    }
}

TEST(fp32_is_reduced_alike_everywhere)
{
    check_reductions(WEFT_FP32);
}

TEST(bf16_is_reduced_alike_everywhere)
{
    check_reductions(WEFT_BF16);
}

TEST(fp16_is_reduced_alike_everywhere)
{
    check_reductions(WEFT_FP16);
}

TEST(fp64_is_reduced_alike_everywhere)
{
    check_reductions(WEFT_FP64);
}

TEST(integers_are_reduced_alike_everywhere)
{
    check_reductions(WEFT_INT32);
    check_reductions(WEFT_INT64);
    check_reductions(WEFT_UINT8);
}

TEST(a_result_may_take_the_place_of_any_source)
{
    enum { LONG = 3001, SOURCES = 3 };
    static uint64_t arrays[SOURCES][LONG], expected[LONG];
    const weft__vector *v;
    for (int t = 0; t < WEFT_DTYPES; t++)
        for (int n = 2; n <= SOURCES; n++)
            for (int place = 0; place < n; place++)
                for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                    const void *sources[SOURCES];
                    for (int k = 0; k < n; k++) {
                        sources[k] = arrays[k];
                        random_elements(arrays[k], LONG, (weft_dtype)t, (uint64_t)k);
                    }
                    v->reduce(expected, sources, n, LONG, (weft_dtype)t, WEFT_SUM, 1);
                    v->reduce(arrays[place], sources, n, LONG, (weft_dtype)t, WEFT_SUM, 1);
                    for (size_t i = 0; i < LONG; i++)
                        CHECK_MSG(same_element(arrays[place], i, expected, i, (weft_dtype)t),
                                  "%s, %s, source %d of %d: element %zu differs", v->name,
                                  weft_dtype_string((weft_dtype)t), place, n, i);
                }
}

/* Sums that go past the cache: what one call with ordinary stores gives, in every place, and nothing beside it. */
static void check_past(const weft__vector *v, weft_dtype dtype, weft_reduction reduction, int n, size_t shift)
{
    enum { LONG = 70000 / 8, SOURCES = 3, PLACES = 3, GUARD = 16 };
    static _Alignas(64) uint64_t arrays[SOURCES][LONG], expected[LONG], room[PLACES][LONG + 2 * GUARD];
    size_t element = weft_dtype_bytes(dtype), count = sizeof expected / element - 5;
    const void *sources[SOURCES], *before[SOURCES];
    for (int k = 0; k < n; k++) {
        random_elements(arrays[k], count, dtype, (uint64_t)k);
        sources[k] = before[k] = arrays[k];
    }
    v->reduce(expected, sources, n, count, dtype, reduction, n);
    for (int places = 1; places <= PLACES; places++) {
        void *dsts[PLACES];
        memset(room, 0xa5, sizeof room);
        for (int p = 0; p < places; p++) /* the last one lies otherwise than the first */
            dsts[p] = (char *)(room[p] + GUARD) + (shift + (p == 2)) * element;
        v->reduce_past(dsts, places, sources, n, count, dtype, reduction, n);
        for (int p = 0; p < places; p++) {
            const unsigned char *begin = dsts[p], *end = begin + count * element;
            for (size_t i = memcmp(begin, expected, count * element) == 0 ? count : 0; i < count; i++)
                CHECK_MSG(same_element(dsts[p], i, expected, i, dtype), "%s, %s %s of %d, place %d of %d: element %zu",
                          v->name, weft_dtype_string(dtype), weft_reduction_string(reduction), n, p, places, i);
            for (size_t i = 0; i < 64; i++)
                CHECK_MSG(begin[-1 - (ptrdiff_t)i] == 0xa5 && end[i] == 0xa5, "%s wrote beside place %d", v->name, p);
        }
        CHECK(memcmp(sources, before, (size_t)n * sizeof *sources) == 0);
    }
}

TEST(sums_past_the_cache_are_those_of_ordinary_stores)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < WEFT_DTYPES; t++)
            for (int n = 1; n <= 3; n++)
                for (size_t shift = 0; shift < 2; shift++)
                    check_past(v, (weft_dtype)t, n == 2 && t == WEFT_INT64 ? WEFT_MAX : WEFT_SUM, n, shift);
}

TEST(sums_to_both_places_are_the_same_in_each)
{
    enum { LONG = 1003 };
    static float a[LONG], b[LONG], own_a[LONG], own_b[LONG], expected[LONG], first[LONG + 1], second[LONG + 1];
    const weft__vector *v;
    random_elements(a, LONG, WEFT_FP32, 1);
    random_elements(b, LONG, WEFT_FP32, 2);
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        v->reduce(expected, (const void *[]){a, b}, 2, LONG, WEFT_FP32, WEFT_SUM, 1);
        first[LONG] = second[LONG] = 5;
        v->sum_to_both(first, second, a, b, LONG);
        CHECK(memcmp(first, expected, sizeof expected) == 0 && memcmp(second, expected, sizeof expected) == 0);
        CHECK(first[LONG] == 5 && second[LONG] == 5);
        memcpy(own_a, a, sizeof a);
        memcpy(own_b, b, sizeof b);
        v->sum_to_both(own_a, own_b, own_a, own_b, LONG);
        CHECK(memcmp(own_a, expected, sizeof expected) == 0 && memcmp(own_b, expected, sizeof expected) == 0);
    }
}

TEST(long_arrays_are_reduced_as_short_ones_are)
{
    enum { LONG = 5000, SOURCES = 5 };
    static uint64_t arrays[SOURCES][LONG], whole[LONG], parts[LONG];
    const weft__vector *v;
    for (int t = 0; t < WEFT_DTYPES; t++)
        for (int n = 1; n <= SOURCES; n++)
            for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                size_t bytes = weft_dtype_bytes((weft_dtype)t);
                const void *sources[SOURCES];
                for (int k = 0; k < n; k++) {
                    random_elements(arrays[k], LONG, (weft_dtype)t, (uint64_t)k);
                    sources[k] = arrays[k];
                }
                v->reduce(whole, sources, n, LONG, (weft_dtype)t, WEFT_SUM, 1);
                for (size_t begin = 0; begin < LONG; begin += 100) {
                    for (int k = 0; k < n; k++)
                        sources[k] = (const char *)arrays[k] + begin * bytes;
                    v->reduce((char *)parts + begin * bytes, sources, n, 100, (weft_dtype)t, WEFT_SUM, 1);
                }
                for (size_t i = 0; i < LONG; i++)
                    CHECK_MSG(same_element(whole, i, parts, i, (weft_dtype)t), "%s, %s of %d: element %zu differs",
                              v->name, weft_dtype_string((weft_dtype)t), n, i);
            }
}

TEST(sixteen_bit_sums_are_kept_in_fp32_and_rounded_once)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        uint16_t one = weft__float_to_bf16(1), large = weft__float_to_bf16(256), result;
        const void *ones[] = {&one, &one, &one};
        v->reduce(&result, ones, 3, 1, WEFT_BF16, WEFT_AVERAGE, 3);
        CHECK_INT(result, one);
        /* In bf16 256 + 1 is 256, however often. */
        const void *uneven[] = {&large, &one, &one, &one, &one, &one, &one, &one};
        v->reduce(&result, uneven, 8, 1, WEFT_BF16, WEFT_SUM, 1);
        CHECK_NEAR(weft__bf16_to_float(result), 264, 0);
        uint16_t sixty = weft__float_to_fp16(60000);
        const void *sixties[] = {&sixty, &sixty};
        v->reduce(&result, sixties, 2, 1, WEFT_FP16, WEFT_AVERAGE, 2);
        CHECK_NEAR(weft__fp16_to_float(result), 60000, 0);
        v->reduce(&result, sixties, 2, 1, WEFT_FP16, WEFT_SUM, 1);
        CHECK_INT(result, 0x7c00);
    }
}

TEST(minimum_and_maximum_are_nan_whichever_source_is)
{
    enum { WIDE = 40 };
    const weft__vector *v;
    for (int t = 0; t < COUNT_OF(floating_types); t++)
        for (int n = 1; n <= 4; n++)
            for (int position = 0; position < n; position++)
                for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                    weft_dtype dtype = floating_types[t];
                    uint64_t arrays[4][WIDE], result[WIDE];
                    const void *sources[4] = {arrays[0], arrays[1], arrays[2], arrays[3]};
                    for (int k = 0; k < n; k++)
                        v->fill(arrays[k], WIDE, dtype, k == position ? (double)NAN : k - 1.5);
                    for (int r = WEFT_MIN; r <= WEFT_MAX; r++) {
                        v->reduce(result, sources, n, WIDE, dtype, (weft_reduction)r, 1);
                        for (size_t i = 0; i < WIDE; i++)
                            CHECK_MSG(isnan(value_at(result, i, dtype)), "%s %s: NaN in source %d of %d is lost",
                                      v->name, weft_dtype_string(dtype), position, n);
                    }
                }
}

TEST(integers_wrap)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        int32_t a32 = INT32_MAX, b32 = 2, r32;
        v->reduce(&r32, (const void *[]){&a32, &b32}, 2, 1, WEFT_INT32, WEFT_SUM, 1);
        CHECK_INT(r32, INT32_MIN + 1);
        v->reduce(&r32, (const void *[]){&a32, &b32}, 2, 1, WEFT_INT32, WEFT_PRODUCT, 1);
        CHECK_INT(r32, -2);
        int64_t a64 = INT64_MIN, b64 = -1, r64;
        v->reduce(&r64, (const void *[]){&a64, &b64}, 2, 1, WEFT_INT64, WEFT_SUM, 1);
        CHECK_INT(r64, INT64_MAX);
        v->reduce(&r64, (const void *[]){&a64, &b64}, 2, 1, WEFT_INT64, WEFT_MAX, 1);
        CHECK_INT(r64, -1);
        uint8_t a8 = 200, b8 = 100, r8;
        v->reduce(&r8, (const void *[]){&a8, &b8}, 2, 1, WEFT_UINT8, WEFT_SUM, 1);
        CHECK_INT(r8, 44);
        v->reduce(&r8, (const void *[]){&a8, &b8}, 2, 1, WEFT_UINT8, WEFT_MIN, 1);
        CHECK_INT(r8, 100);
    }
}
