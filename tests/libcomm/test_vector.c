/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise functions of every instruction set against arithmetic on single elements, everywhere in an array. */
#include <limits.h>

#include <weft/log.h>
#include <weft/result.h>

#include "everywhere.h"

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

TEST(long_copies_past_the_cache_are_whole)
{
    enum { LONG = 5 * 16384 + 777 };
    static _Alignas(64) unsigned char from[LONG + 64], to[LONG + 128];
    const weft__vector *v;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 37 + i / 251);
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (size_t shift = 0; shift < 64; shift += 21) {
            memset(to, 0xa5, sizeof to);
            v->copy_past(to + shift, from + 64 - shift, LONG);
            CHECK(memcmp(to + shift, from + 64 - shift, LONG) == 0);
            for (size_t i = 0; i < sizeof to; i++)
                CHECK((i >= shift && i < shift + LONG) || to[i] == 0xa5);
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
