/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares against sums without any error, and the search for what is not finite. */
#include <stdlib.h>

#include "test_vector.h"

/* A sum that loses nothing: a number of base 2^32 whose digit 0 counts 2^LOWEST. */
enum { DIGITS = 80, LOWEST = -1280 };

typedef struct exact {
    int64_t digits[DIGITS];
} exact;

static void carry(exact *sum)
{
    for (int i = 0; i + 1 < DIGITS; i++) {
        int64_t low = sum->digits[i] & 0xffffffff;
        sum->digits[i + 1] += (sum->digits[i] - low) / 0x100000000;
        sum->digits[i] = low;
    }
}

/* Add sign * number * 2^exponent; the number has at most 32 bits. */
static void add_word(exact *sum, int sign, uint64_t number, int exponent)
{
    int digit = (exponent - LOWEST) / 32, shift = (exponent - LOWEST) % 32;
    CHECK(exponent >= LOWEST && digit + 1 < DIGITS);
    sum->digits[digit] += sign * (int64_t)(number << shift & 0xffffffff);
    sum->digits[digit + 1] += sign * (int64_t)(number << shift >> 32);
}

/* A double as a whole number times a power of two. */
static uint64_t whole_of(double value, int *exponent_out)
{
    int exponent;
    uint64_t whole = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53);
    *exponent_out = exponent - 53;
    return whole;
}

static void add_square(exact *sum, double value)
{
    int exponent;
    uint64_t whole = whole_of(value, &exponent), high = whole >> 27, low = whole & 0x7ffffff;
    if (value == 0)
        return;
    uint64_t parts[] = {low * low, 2 * high * low, high * high};
    for (int i = 0; i < 3; i++) {
        add_word(sum, 1, parts[i] & 0xffffffff, 2 * exponent + 27 * i);
        add_word(sum, 1, parts[i] >> 32, 2 * exponent + 27 * i + 32);
    }
    carry(sum);
}

static void subtract(exact *sum, double value)
{
    int exponent, sign = value < 0 ? 1 : -1;
    uint64_t whole = whole_of(value, &exponent);
    if (value == 0)
        return;
    add_word(sum, sign, whole & 0xffffffff, exponent);
    add_word(sum, sign, whole >> 32, exponent + 32);
    carry(sum);
}

/* |sum|, to the precision of a double. */
static double size_of(exact sum)
{
    double size = 0;
    if (sum.digits[DIGITS - 1] < 0) {
        for (int i = 0; i < DIGITS; i++)
            sum.digits[i] = -sum.digits[i];
        carry(&sum);
    }
    for (int i = DIGITS - 1; i >= 0; i--)
        size += ldexp((double)sum.digits[i], LOWEST + 32 * i);
    return size;
}

static exact exact_sum_of_squares(const void *src, size_t count, weft_dtype dtype)
{
    exact sum = {{0}};
    for (size_t i = 0; i < count; i++)
        add_square(&sum, value_at(src, i, dtype));
    return sum;
}

/* The pair fits together, is as near as promised, and its float is the one nearest to the exact sum. */
static void check_sum(weft__double2 got, exact want, size_t count, const char *what)
{
    exact error = want, float_error = want;
    float rounded = (float)got.high;
    CHECK(got.high + got.low == got.high);
    subtract(&error, got.high);
    subtract(&error, got.low);
    CHECK_MSG(size_of(error) <= ldexp((double)(count + 1000), -104) * size_of(want),
              "%s of %zu: error %g of %g is too large", what, count, size_of(error), size_of(want));
    subtract(&float_error, (double)rounded);
    double ulp = (double)nextafterf(rounded, INFINITY) - (double)rounded;
    CHECK_MSG(isinf(rounded) || size_of(float_error) <= ulp / 2, "%s of %zu: %a is not the nearest float", what, count,
              (double)rounded);
}

/* The largest magnitudes whose squares, and their low halves, are doubles. */
static int limit_of_type(weft_dtype dtype)
{
    return dtype == WEFT_FP16 ? 14 : dtype == WEFT_FP64 ? 200 : 120;
}

enum { MOST = 5000, ROOM = MOST + 64 };
static uint64_t values[ROOM], shifted[ROOM];

TEST(a_sum_of_squares_is_within_its_bound)
{
    static const size_t counts[] = {1, 2, 31, 32, 33, 130, 511, 512, 513, 1023, 1024, 1025, 2600, MOST};
    static const int limits[] = {2, 14, 40, 200};
    const weft__vector *v;
    for (int t = 0; t < COUNT_OF(floating_types); t++)
        for (int c = 0; c < COUNT_OF(counts); c++)
            for (int l = 0; l < COUNT_OF(limits); l++) {
                weft_dtype dtype = floating_types[t];
                int limit = limits[l] < limit_of_type(dtype) ? limits[l] : limit_of_type(dtype);
                random_finite(values, counts[c], dtype, limit, (uint64_t)(100 * c + l));
                exact want = exact_sum_of_squares(values, counts[c], dtype);
                for (int s = 0; (v = weft__vector_host_at(s)); s++)
                    check_sum(v->sum_of_squares(values, counts[c], dtype), want, counts[c], weft_dtype_string(dtype));
            }
}

TEST(one_square_is_exact)
{
    const weft__vector *v;
    for (int t = 0; t < COUNT_OF(floating_types); t++) {
        weft_dtype dtype = floating_types[t];
        random_finite(values, 300, dtype, limit_of_type(dtype), 5);
        for (size_t i = 0; i < 300; i++)
            for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                const void *element = (const char *)values + i * weft_dtype_bytes(dtype);
                weft__double2 square = v->sum_of_squares(element, 1, dtype);
                exact rest = exact_sum_of_squares(element, 1, dtype);
                subtract(&rest, square.high);
                subtract(&rest, square.low);
                CHECK_NEAR(size_of(rest), 0, 0);
            }
    }
}

TEST(a_sum_of_squares_is_the_same_from_every_set_at_every_offset)
{
    const weft__vector *v;
    for (int t = 0; t < COUNT_OF(floating_types); t++)
        for (size_t count = 0; count <= 130; count++) {
            weft_dtype dtype = floating_types[t];
            size_t bytes = weft_dtype_bytes(dtype);
            random_finite(values, count, dtype, 14, count);
            weft__double2 want = weft__vector_host_at(0)->sum_of_squares(values, count, dtype);
            for (size_t offset = 0; offset < 64; offset++) {
                void *moved = (char *)shifted + offset * bytes;
                memcpy(moved, values, count * bytes);
                for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                    weft__double2 got = v->sum_of_squares(moved, count, dtype);
                    CHECK_MSG(got.high == want.high && got.low == want.low, "%s %s: %zu elements at offset %zu differ",
                              v->name, weft_dtype_string(dtype), count, offset);
                }
            }
        }
}

/* Sum the parts of values[0, count) between random cuts, each by another set, at another alignment. */
static weft__double2 sum_in_parts(uint64_t *state, size_t count, weft_dtype dtype, int parts)
{
    size_t bytes = weft_dtype_bytes(dtype), begin = 0;
    weft__double2 sum = {0, 0};
    for (int part = 0; part < parts; part++) {
        size_t left = count - begin, n = part == parts - 1 ? left : random_below(state, left + 1);
        const weft__vector *v = weft__vector_host_at((int)random_below(state, 3));
        void *moved = (char *)shifted + random_below(state, 64) * bytes;
        memcpy(moved, (const char *)values + begin * bytes, n * bytes);
        sum = weft__double2_add(sum, (v ? v : weft__vector_host())->sum_of_squares(moved, n, dtype));
        begin += n;
    }
    return sum;
}

static void check_splits(weft_dtype dtype, size_t count, uint64_t seed)
{
    uint64_t state = seed + 1;
    exact want = exact_sum_of_squares(values, count, dtype);
    weft__double2 whole = weft__vector_host()->sum_of_squares(values, count, dtype);
    check_sum(whole, want, count, "the whole");
    for (int trial = 0; trial < 60; trial++) {
        weft__double2 sum = sum_in_parts(&state, count, dtype, 1 + trial % 9);
        check_sum(sum, want, count, "the parts");
        CHECK_MSG((float)sum.high == (float)whole.high && (float)sqrt(sum.high) == (float)sqrt(whole.high),
                  "%s, %zu elements in %d parts: %a, not %a", weft_dtype_string(dtype), count, 1 + trial % 9, sum.high,
                  whole.high);
    }
}

TEST(however_an_array_is_split_its_parts_add_up_to_the_same_float)
{
    for (int t = 0; t < COUNT_OF(floating_types); t++)
        for (int limit = 1; limit <= limit_of_type(floating_types[t]); limit = 3 * limit + 1) {
            size_t count = 1000 + 997 * (size_t)t;
            random_finite(values, count, floating_types[t], limit, (uint64_t)limit);
            check_splits(floating_types[t], count, (uint64_t)limit);
        }
}

/* 1 and 2^-12 are squares that end halfway between two floats; all the others together, 2^-42, decide. A sum in double
 * that begins with 1 loses every one of them. */
TEST(many_small_squares_decide_beside_a_large_one)
{
    enum { COUNT = 4098 };
    static const int places[] = {0, 1, 33, COUNT / 2, COUNT - 2};
    float *x = (float *)(void *)values;
    for (int p = 0; p < COUNT_OF(places); p++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = 0x1p-27f;
        x[places[p]] = 1;
        x[places[p] + 1] = 0x1p-12f;
        CHECK_NEAR((float)weft__vector_host()->sum_of_squares(x, COUNT, WEFT_FP32).high, 0x1.000002p0, 0);
        check_splits(WEFT_FP32, COUNT, (uint64_t)p);
    }
}

/* About 106 random bits near 2^exponent. */
static weft__double2 random_pair(uint64_t *state, int exponent)
{
    double high = ldexp(1 + ldexp((double)(random_bits(state) >> 12), -52), exponent);
    double low = ldexp((double)(int64_t)random_bits(state), exponent - 53 - 63);
    return (weft__double2){high, low};
}

static void check_pair_sum(weft__double2 a, weft__double2 b)
{
    exact rest = {{0}};
    weft__double2 sum = weft__double2_add(a, b);
    CHECK(sum.high + sum.low == sum.high);
    const double parts[] = {-a.high, -a.low, -b.high, -b.low, sum.high, sum.low};
    for (int i = 0; i < COUNT_OF(parts); i++)
        subtract(&rest, parts[i]);
    CHECK_MSG(size_of(rest) <= ldexp(fabs(sum.high), -104), "error %g of %g", size_of(rest), sum.high);
}

TEST(pairs_are_added_within_their_bound)
{
    uint64_t state = 99;
    for (int trial = 0; trial < 20000; trial++) {
        weft__double2 a = random_pair(&state, (int)random_below(&state, 120) - 60);
        weft__double2 b = random_pair(&state, (int)random_below(&state, 120) - 60);
        weft__double2 less = {-a.high * (1 + 0x1p-52), -b.low}; /* cancels all but the last bits */
        check_pair_sum(a, b);
        check_pair_sum(a, (weft__double2){-b.high, -b.low});
        if (fabs(less.low) <= fabs(less.high) * 0x1p-54)
            check_pair_sum(a, less);
    }
}

TEST(infinity_and_nan_show_in_a_sum_of_squares)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < COUNT_OF(floating_types); t++)
            for (size_t place = 0; place < 2000; place += 333) {
                weft_dtype dtype = floating_types[t];
                v->fill(values, 2000, dtype, 1);
                put_value(values, place, dtype, -(double)INFINITY);
                CHECK_NEAR(v->sum_of_squares(values, 2000, dtype).low, 0, 0);
                CHECK(isinf(v->sum_of_squares(values, 2000, dtype).high));
                put_value(values, (place + 1000) % 2000, dtype, (double)NAN);
                CHECK(isnan(v->sum_of_squares(values, 2000, dtype).high));
            }
    double huge[] = {1, 1e200};
    CHECK(isinf(weft__vector_host()->sum_of_squares(huge, 2, WEFT_FP64).high));
    weft__double2 infinite = {(double)INFINITY, 0}, one = {1, 0}, nan = {(double)NAN, 0};
    CHECK(isinf(weft__double2_add(infinite, one).high) && isinf(weft__double2_add(one, infinite).high));
    CHECK(isinf(weft__double2_add(weft__double2_add(one, infinite), one).high));
    CHECK(isnan(weft__double2_add(infinite, nan).high));
}

static void check_search(const weft__vector *v, const void *array, size_t count, weft_dtype dtype, size_t want)
{
    size_t got = v->first_nonfinite(array, count, dtype);
    CHECK_MSG(got == want, "%s %s of %zu: found %zu, not %zu", v->name, weft_dtype_string(dtype), count, got, want);
}

/* The bits of the least NaN, infinity, and their negatives. */
static uint64_t nonfinite_bits(weft_dtype dtype, int kind)
{
    format f = format_of(dtype);
    uint64_t infinity = ((1ull << f.exponent_bits) - 1) << f.fraction_bits;
    uint64_t sign = (uint64_t)(kind & 1) << (f.exponent_bits + f.fraction_bits);
    return sign | (infinity + (uint64_t)(kind >> 1));
}

TEST(the_first_value_that_is_not_finite_is_found_everywhere)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < COUNT_OF(floating_types); t++)
            for (size_t count = 1; count <= 130; count++)
                for (size_t place = 0; place < count; place++) {
                    weft_dtype dtype = floating_types[t];
                    size_t offset = (count + 3 * place) % 64;
                    void *array = (char *)values + offset * weft_dtype_bytes(dtype);
                    memset(array, 0, count * weft_dtype_bytes(dtype));
                    put_bits(array, place, dtype, nonfinite_bits(dtype, (int)(place + count) % 4));
                    check_search(v, array, count, dtype, place);
                    check_search(v, array, place, dtype, place);
                }
}

TEST(of_several_values_that_are_not_finite_the_first_is_found)
{
    static const size_t places[] = {0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 4000, MOST - 1};
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < COUNT_OF(floating_types); t++)
            for (int p = 0; p < COUNT_OF(places); p++)
                for (int q = p; q < COUNT_OF(places); q++) {
                    memset(values, 0, sizeof values);
                    put_bits(values, places[q], floating_types[t], nonfinite_bits(floating_types[t], 0));
                    put_bits(values, places[p], floating_types[t], nonfinite_bits(floating_types[t], 2));
                    check_search(v, values, MOST, floating_types[t], places[p]);
                }
}

TEST(finite_values_of_any_size_are_no_find)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < COUNT_OF(floating_types); t++) {
            weft_dtype dtype = floating_types[t];
            for (size_t i = 0; i < MOST; i++)
                put_bits(values, i, dtype, nonfinite_bits(dtype, (int)(i % 2)) - 1 - (i % 3 ? i % 5000 : 0));
            check_search(v, values, MOST, dtype, MOST);
        }
}
