/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions of every instruction set against arithmetic on single elements, everywhere in an array. */
#include <limits.h>

#include <weft/log.h>
#include <weft/result.h>

#include "test_vector.h"

enum { OFFSETS = 64, LENGTHS = 130, ELEMENTS = OFFSETS + LENGTHS, GUARD = 64, MOST_SOURCES = 9 };

/* One call with all that it needs, to be made on any stretch of the elements. */
typedef struct call call;
struct call {
    const weft__vector *vector;
    void (*run)(const call *, void *dst, size_t begin, size_t count);
    const char *what;
    weft_dtype dtype;                  /* of the result */
    const void *expected;              /* ELEMENTS */
    const void *before;                /* what dst holds where it is also read; NULL: nothing */
    const void *sources[MOST_SOURCES]; /* ELEMENTS each, every one aligned in another way */
    int source_count;
    weft_dtype source_dtype;
    weft_reduction reduction;
    int divisor;
    double number;
};

/* A destination between guards, all of it known bytes before a call. */
enum { SPACE = GUARD + OFFSETS + LENGTHS + GUARD, UNTOUCHED = 0xa5 };

static void check_guards(const call *c, const unsigned char *space, size_t begin, size_t end, size_t offset)
{
    static unsigned char untouched[SPACE * 8];
    size_t bytes = SPACE * weft_dtype_bytes(c->dtype);
    if (!untouched[0])
        memset(untouched, UNTOUCHED, sizeof untouched);
    if (memcmp(space, untouched, begin) != 0 || memcmp(space + end, untouched, bytes - end) != 0)
        FAIL("%s %s %s of %d wrote beside the %zu bytes at offset %zu", c->vector->name, c->what,
             weft_dtype_string(c->dtype), c->source_count, end - begin, offset);
}

static void check_results(const call *c, const void *dst, size_t begin, size_t count, size_t offset)
{
    size_t bytes = weft_dtype_bytes(c->dtype);
    if (memcmp(dst, (const char *)c->expected + begin * bytes, count * bytes) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (!same_element(dst, i, c->expected, begin + i, c->dtype))
            FAIL("%s %s %s of %d: element %zu of %zu at offset %zu is %#llx, not %#llx", c->vector->name, c->what,
                 weft_dtype_string(c->dtype), c->source_count, i, count, offset,
                 (unsigned long long)bits_at(dst, i, c->dtype),
                 (unsigned long long)bits_at(c->expected, begin + i, c->dtype));
}

static void check_everywhere(const call *c)
{
    static _Alignas(64) unsigned char space[SPACE * 8];
    size_t bytes = weft_dtype_bytes(c->dtype);
    for (size_t offset = 0; offset < OFFSETS; offset++)
        for (size_t count = 1; count <= LENGTHS; count++) {
            size_t begin = (7 * offset + 3 * count) % OFFSETS;
            unsigned char *dst = space + (GUARD + offset) * bytes;
            memset(space, UNTOUCHED, SPACE * bytes);
            if (c->before)
                memcpy(dst, (const char *)c->before + begin * bytes, count * bytes);
            c->run(c, dst, begin, count);
            check_results(c, dst, begin, count, offset);
            check_guards(c, space, (size_t)(dst - space), (size_t)(dst - space) + count * bytes, offset);
        }
}

static void check_on_all_sets(call *c)
{
    for (int i = 0; (c->vector = weft__vector_host_at(i)); i++)
        check_everywhere(c);
}

/* Room for the sources; source k begins k elements behind a line. */
static void *source_room(int k, weft_dtype dtype)
{
    static _Alignas(64) unsigned char room[MOST_SOURCES][(ELEMENTS + MOST_SOURCES) * 8];
    return room[k] + (size_t)k * weft_dtype_bytes(dtype);
}

static const void *random_source(int k, weft_dtype dtype)
{
    void *room = source_room(k, dtype);
    random_elements(room, ELEMENTS, dtype, 1000 * (uint64_t)dtype + (uint64_t)k);
    return room;
}

static const void *source_at(const call *c, int k, size_t begin)
{
    return (const char *)c->sources[k] + begin * weft_dtype_bytes(c->source_dtype);
}

/* Every sum, product and quotient of two floats is rounded right by way of double. */
static double combine_floating(double a, double b, weft_reduction reduction, weft_dtype dtype)
{
    double result;
    if (reduction == WEFT_MIN || reduction == WEFT_MAX)
        return isnan(a) || isnan(b) ? (double)NAN : (reduction == WEFT_MIN ? a < b : a > b) ? a : b;
    result = reduction == WEFT_PRODUCT ? a * b : a + b;
    return dtype == WEFT_FP64 ? result : (double)(float)result;
}

static uint64_t reduced_floating(const call *c, size_t i)
{
    double result = value_at(c->sources[0], i, c->dtype);
    for (int k = 1; k < c->source_count; k++)
        result = combine_floating(result, value_at(c->sources[k], i, c->dtype), c->reduction, c->dtype);
    if (c->reduction == WEFT_AVERAGE)
        result = c->dtype == WEFT_FP64 ? result / c->divisor : (double)(float)(result / c->divisor);
    return bits_of_value(result, format_of(c->dtype));
}

/* Integers as numbers; sums and products are cut to the type when they are stored. */
static int64_t integer_at(const void *array, size_t i, weft_dtype dtype)
{
    uint64_t bits = bits_at(array, i, dtype);
    return dtype == WEFT_INT32 ? (int64_t)(bits ^ 0x80000000u) - 0x80000000ll : (int64_t)bits;
}

static uint64_t reduced_integer(const call *c, size_t i)
{
    int64_t result = integer_at(c->sources[0], i, c->dtype);
    for (int k = 1; k < c->source_count; k++) {
        int64_t x = integer_at(c->sources[k], i, c->dtype);
        if (c->reduction == WEFT_SUM)
            result = (int64_t)((uint64_t)result + (uint64_t)x);
        else if (c->reduction == WEFT_PRODUCT)
            result = (int64_t)((uint64_t)result * (uint64_t)x);
        else
            result = (c->reduction == WEFT_MIN ? x < result : x > result) ? x : result;
    }
    return (uint64_t)result;
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

static void run_fill(const call *c, void *dst, size_t begin, size_t count)
{
    (void)begin;
    c->vector->fill(dst, count, c->dtype, c->number);
}

TEST(fills_are_alike_everywhere)
{
    static uint64_t expected[ELEMENTS];
    for (int t = 0; t < WEFT_DTYPES; t++) {
        call c = {.run = run_fill, .what = "fill", .dtype = (weft_dtype)t, .expected = expected, .number = 100.1};
        for (size_t i = 0; i < ELEMENTS; i++)
            if (weft__is_floating(c.dtype))
                put_value(expected, i, c.dtype, 100.1);
            else
                put_bits(expected, i, c.dtype, 100);
        check_on_all_sets(&c);
    }
}

static void run_scale(const call *c, void *dst, size_t begin, size_t count)
{
    (void)begin;
    c->vector->scale(dst, count, c->dtype, c->number);
}

TEST(scaling_is_alike_everywhere)
{
    static uint64_t expected[ELEMENTS];
    for (int t = 0; t < COUNT_OF(floating_types); t++) {
        weft_dtype dtype = floating_types[t];
        call c = {.run = run_scale, .what = "scale", .dtype = dtype, .expected = expected, .number = 1 / 3.0};
        c.before = random_source(0, dtype);
        for (size_t i = 0; i < ELEMENTS; i++) {
            double x = value_at(c.before, i, dtype);
            double factor = dtype == WEFT_FP64 ? c.number : (double)(float)c.number;
            put_value(expected, i, dtype, combine_floating(x, factor, WEFT_PRODUCT, dtype));
        }
        check_on_all_sets(&c);
    }
}

static void run_cast(const call *c, void *dst, size_t begin, size_t count)
{
    c->vector->cast(dst, c->dtype, source_at(c, 0, begin), c->source_dtype, count);
}

TEST(casts_are_alike_everywhere)
{
    static uint64_t expected[ELEMENTS];
    for (int from = 0; from < COUNT_OF(floating_types); from++)
        for (int to = 0; to < COUNT_OF(floating_types); to++) {
            call c = {.run = run_cast, .what = "cast", .dtype = floating_types[to], .expected = expected};
            c.source_dtype = floating_types[from];
            c.source_count = 1;
            c.sources[0] = random_source(0, c.source_dtype);
            for (size_t i = 0; i < ELEMENTS; i++)
                put_value(expected, i, c.dtype, value_at(c.sources[0], i, c.source_dtype));
            check_on_all_sets(&c);
        }
}

static void run_accumulate(const call *c, void *dst, size_t begin, size_t count)
{
    c->vector->accumulate(dst, source_at(c, 0, begin), c->source_dtype, count);
}

static void run_copy_past(const call *c, void *dst, size_t begin, size_t count)
{
    c->vector->copy_past(dst, (const char *)c->sources[0] + begin * weft_dtype_bytes(c->dtype),
                         count * weft_dtype_bytes(c->dtype));
}

TEST(copies_past_the_cache_are_alike_everywhere)
{
    static unsigned char bytes[ELEMENTS * 8 + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + i / 256);
    const weft_dtype types[] = {WEFT_UINT8, WEFT_FP64};
    for (size_t t = 0; t < 2; t++) {
        call c = {.run = run_copy_past,
                  .what = "copy_past",
                  .dtype = types[t],
                  .expected = bytes + 1 - t,
                  .sources = {bytes + 1 - t},
                  .source_count = 1};
        check_on_all_sets(&c);
    }
}

TEST(accumulation_is_alike_everywhere)
{
    static uint64_t expected[ELEMENTS];
    for (int t = 0; t < COUNT_OF(floating_types); t++) {
        call c = {.run = run_accumulate, .what = "accumulate", .dtype = WEFT_FP32, .expected = expected};
        c.source_dtype = floating_types[t];
        c.source_count = 1;
        c.sources[0] = random_source(1, c.source_dtype);
        c.before = random_source(0, WEFT_FP32);
        for (size_t i = 0; i < ELEMENTS; i++) {
            double x = (double)(float)value_at(c.sources[0], i, c.source_dtype);
            put_value(expected, i, WEFT_FP32,
                      combine_floating(value_at(c.before, i, WEFT_FP32), x, WEFT_SUM, WEFT_FP32));
        }
        check_on_all_sets(&c);
    }
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

TEST(integers_are_filled_with_the_nearest_that_they_have)
{
    static const struct {
        double value;
        long long as_int32, as_int64, as_uint8;
    } cases[] = {{2.5, 2, 2, 2},
                 {3.5, 4, 4, 4},
                 {-0.75, -1, -1, 0},
                 {255.5, 256, 256, 255},
                 {3e9, INT32_MAX, 3000000000, 255},
                 {-1e300, INT32_MIN, LLONG_MIN, 0},
                 {1e300, INT32_MAX, LLONG_MAX, 255},
                 {(double)NAN, 0, 0, 0}};
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int i = 0; i < COUNT_OF(cases); i++) {
            int32_t r32;
            int64_t r64;
            uint8_t r8;
            v->fill(&r32, 1, WEFT_INT32, cases[i].value);
            v->fill(&r64, 1, WEFT_INT64, cases[i].value);
            v->fill(&r8, 1, WEFT_UINT8, cases[i].value);
            CHECK_INT(r32, cases[i].as_int32);
            CHECK_INT(r64, cases[i].as_int64);
            CHECK_INT(r8, cases[i].as_uint8);
        }
}

TEST(nothing_is_touched_where_there_are_no_elements)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        const void *sources[3] = {NULL, NULL, NULL};
        for (int n = 1; n <= 3; n++)
            v->reduce(NULL, sources, n, 0, WEFT_FP32, WEFT_SUM, 1);
        v->fill(NULL, 0, WEFT_BF16, 1);
        v->scale(NULL, 0, WEFT_FP16, 1);
        v->fill(NULL, 0, WEFT_UINT8, 1);
        v->cast(NULL, WEFT_FP32, NULL, WEFT_BF16, 0);
        v->cast(NULL, WEFT_FP32, NULL, WEFT_FP32, 0);
        v->accumulate(NULL, NULL, WEFT_FP16, 0);
        CHECK_INT(v->first_nonfinite(NULL, 0, WEFT_FP64), 0);
        CHECK_NEAR(v->sum_of_squares(NULL, 0, WEFT_FP32).high, 0, 0);
    }
}

TEST(the_host_uses_the_best_set_that_it_can_run)
{
    CHECK_STR(weft__vector_host_at(0)->name, "baseline");
    CHECK(weft__vector_host_at(-1) == NULL);
    CHECK(weft__vector_host_at(99) == NULL);
    int last = 0;
    while (weft__vector_host_at(last + 1))
        last++;
    CHECK_STR(weft__vector_host()->name, weft__vector_host_at(last)->name);
#if defined(__x86_64__)
    CHECK((weft__vector_host_at(1) != NULL) >= (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f")));
#endif
    test_note("%s", weft__vector_host()->name);
}

/* Integers, where only floating types go: told, and nothing is touched. */
TEST(what_is_for_floating_types_refuses_integers)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    const weft__vector *v;
    const weft__adamw step = {.lr = 1, .correction1 = 1, .correction2 = 1};
    for (int t = 0; t < WEFT_DTYPES; t++)
        for (int s = 0; !weft__is_floating((weft_dtype)t) && (v = weft__vector_host_at(s)); s++) {
            weft_dtype dtype = (weft_dtype)t;
            int64_t integers[4] = {1, 2, 3, 4};
            float floats[4] = {5, 6, 7, 8}, m[4] = {0}, u[4] = {0};
            v->scale(integers, 4, dtype, 2);
            CHECK_HAS(weft_last_error(), "scale of dtype");
            v->cast(integers, dtype, floats, WEFT_FP32, 4);
            v->cast(floats, WEFT_FP32, integers, dtype, 4);
            CHECK_HAS(weft_last_error(), "cast of dtype");
            v->accumulate(floats, integers, dtype, 4);
            CHECK_HAS(weft_last_error(), "accumulate of dtype");
            v->adamw(&step, 4, floats, m, u, floats, integers, dtype);
            CHECK_HAS(weft_last_error(), "adamw of dtype");
            CHECK(isnan(v->sum_of_squares(integers, 4, dtype).high));
            CHECK_HAS(weft_last_error(), weft_dtype_string(dtype));
            CHECK_INT(v->first_nonfinite(integers, 4, dtype), 4);
            for (int i = 0; i < 4; i++) {
                CHECK_INT(integers[i], i + 1);
                CHECK(floats[i] == (float)(i + 5) && m[i] == 0);
            }
        }
}
