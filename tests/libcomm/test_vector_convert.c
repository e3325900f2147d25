/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between floating types: every 16-bit value, and every place where rounding turns. */
#include "test_vector.h"

enum { ALL = 65536 };

static const weft_dtype short_types[] = {WEFT_BF16, WEFT_FP16};

static uint16_t bits16[ALL], back[ALL];
static float singles[3 * ALL];
static double doubles[3 * ALL];
static uint16_t expected[3 * ALL], rounded[3 * ALL];

static void all_patterns(void)
{
    for (uint32_t i = 0; i < ALL; i++)
        bits16[i] = (uint16_t)i;
}

TEST(every_16_bit_value_survives_fp32_and_back)
{
    const weft__vector *v;
    all_patterns();
    for (int t = 0; t < 2; t++)
        for (int s = 0; (v = weft__vector_host_at(s)); s++) {
            weft_dtype dtype = short_types[t];
            v->cast(singles, WEFT_FP32, bits16, dtype, ALL);
            v->cast(back, dtype, singles, WEFT_FP32, ALL);
            v->cast(doubles, WEFT_FP64, bits16, dtype, ALL);
            for (size_t i = 0; i < ALL; i++) {
                double want = value_at(bits16, i, dtype);
                bool same_sign = !signbit(singles[i]) == !signbit(want);
                CHECK_MSG(isnan(want) ? isnan(singles[i]) : (double)singles[i] == want && same_sign,
                          "%s %s %#zx is %g, not %g", v->name, weft_dtype_string(dtype), i, (double)singles[i], want);
                CHECK_MSG(isnan(want) ? isnan(doubles[i]) : doubles[i] == want, "%s %s %#zx is %g in fp64, not %g",
                          v->name, weft_dtype_string(dtype), i, doubles[i], want);
                CHECK_MSG(same_element(back, i, bits16, i, dtype), "%s %s %#zx came back as %#x", v->name,
                          weft_dtype_string(dtype), i, (unsigned)back[i]);
            }
        }
}

TEST(single_values_are_converted_as_arrays_are)
{
    all_patterns();
    weft__vector_host_at(0)->cast(singles, WEFT_FP32, bits16, WEFT_BF16, ALL);
    weft__vector_host_at(0)->cast(singles + ALL, WEFT_FP32, bits16, WEFT_FP16, ALL);
    for (uint32_t i = 0; i < ALL; i++) {
        float a = weft__bf16_to_float((uint16_t)i), b = weft__fp16_to_float((uint16_t)i);
        CHECK(same_element(&a, 0, singles, i, WEFT_FP32));
        CHECK(same_element(&b, 0, singles + ALL, i, WEFT_FP32));
        CHECK(isnan(a) || weft__float_to_bf16(a) == i);
        CHECK(isnan(b) || weft__float_to_fp16(b) == i);
    }
}

/* Every value halfway between two neighbours in a 16-bit type, and the next ones below and above it, as doubles that
 * @p below and @p above make; what each must become. Returns how many. */
static size_t turning_points(weft_dtype dtype, double (*below)(double), double (*above)(double))
{
    format f = format_of(dtype);
    uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
    size_t n = 0;
    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000)
        for (uint32_t low = 0; low < infinity; low++) {
            double a = value_of_bits(low, f);
            double b = low + 1 < infinity ? value_of_bits(low + 1, f) : ldexp(1, 1 << (f.exponent_bits - 1));
            double middle = (a + b) / 2, points[] = {below(middle), middle, above(middle)};
            uint32_t results[] = {low, low + (low & 1), low + 1};
            for (int i = 0; i < 3; i++) {
                doubles[n] = sign ? -points[i] : points[i];
                expected[n++] = (uint16_t)(sign | results[i]);
            }
        }
    return n;
}

static double below_single(double x)
{
    return (double)nextafterf((float)x, 0);
}

static double above_single(double x)
{
    return (double)nextafterf((float)x, INFINITY);
}

static double below_double(double x)
{
    return nextafter(x, 0);
}

static double above_double(double x)
{
    return nextafter(x, (double)INFINITY);
}

static void check_turning_points(weft_dtype from, const void *values, weft_dtype to, size_t count)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        v->cast(rounded, to, values, from, count);
        for (size_t i = 0; i < count; i++)
            CHECK_MSG(rounded[i] == expected[i], "%s %s %a became %s %#x, not %#x", v->name, weft_dtype_string(from),
                      doubles[i], weft_dtype_string(to), (unsigned)rounded[i], (unsigned)expected[i]);
    }
}

TEST(fp32_rounds_to_the_nearest_and_halfway_to_even)
{
    for (int t = 0; t < 2; t++) {
        size_t n = turning_points(short_types[t], below_single, above_single);
        for (size_t i = 0; i < n; i++)
            singles[i] = (float)doubles[i];
        check_turning_points(WEFT_FP32, singles, short_types[t], n);
    }
}

TEST(fp64_is_rounded_once_to_16_bits)
{
    for (int t = 0; t < 2; t++)
        check_turning_points(WEFT_FP64, doubles, short_types[t],
                             turning_points(short_types[t], below_double, above_double));
}

TEST(random_values_round_to_the_nearest)
{
    const weft__vector *v;
    enum { MANY = 3 * ALL };
    for (int from = 0; from < COUNT_OF(floating_types); from++)
        for (int to = 0; to < 2; to++) {
            random_elements(doubles, MANY, floating_types[from], 77);
            for (size_t i = 0; i < MANY; i++)
                put_value(expected, i, short_types[to], value_at(doubles, i, floating_types[from]));
            for (int s = 0; (v = weft__vector_host_at(s)); s++) {
                v->cast(rounded, short_types[to], doubles, floating_types[from], MANY);
                for (size_t i = 0; i < MANY; i++)
                    CHECK_MSG(same_element(rounded, i, expected, i, short_types[to]), "%s %s to %s: %#x, not %#x",
                              v->name, weft_dtype_string(floating_types[from]), weft_dtype_string(short_types[to]),
                              (unsigned)rounded[i], (unsigned)expected[i]);
            }
        }
}

TEST(what_is_too_large_becomes_infinite_and_nan_stays_nan)
{
    static const double large[] = {65520, 3.4e38, 3.5e38, 1e300, (double)INFINITY};
    static const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000, 0x7f802000};
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++) {
        for (int i = 0; i < COUNT_OF(large); i++)
            for (int sign = -1; sign <= 1; sign += 2) {
                double value = sign * large[i];
                uint16_t result;
                v->cast(&result, WEFT_FP16, &value, WEFT_FP64, 1);
                CHECK_INT(result, sign < 0 ? 0xfc00 : 0x7c00);
                if (large[i] < 3.39e38)
                    continue;
                v->cast(&result, WEFT_BF16, &value, WEFT_FP64, 1);
                CHECK_INT(result, sign < 0 ? 0xff80 : 0x7f80);
            }
        for (int i = 0; i < COUNT_OF(nans); i++)
            for (int t = 0; t < COUNT_OF(floating_types); t++) {
                uint32_t source[20];
                uint64_t result[20];
                for (int k = 0; k < 20; k++)
                    source[k] = nans[i];
                v->cast(result, floating_types[t], source, WEFT_FP32, 20);
                for (size_t k = 0; k < 20; k++)
                    CHECK_MSG(isnan(value_at(result, k, floating_types[t])), "%s: NaN %#x is a number in %s", v->name,
                              nans[i], weft_dtype_string(floating_types[t]));
            }
    }
}

TEST(a_cast_between_types_of_one_size_works_in_place)
{
    const weft__vector *v;
    for (int s = 0; (v = weft__vector_host_at(s)); s++)
        for (int t = 0; t < 2; t++) {
            weft_dtype from = short_types[t], to = short_types[1 - t];
            all_patterns();
            v->cast(back, to, bits16, from, ALL);
            v->cast(bits16, to, bits16, from, ALL);
            for (size_t i = 0; i < ALL; i++)
                CHECK(same_element(bits16, i, back, i, to));
        }
}
