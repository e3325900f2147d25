/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic that results are compared with, against values worked out by hand. */
#include "perf/element.h"

#include <math.h>

#include "harness/test.h"

TEST(numbers_of_16_bits_are_rounded_to_nearest_even)
{
    static const struct {
        weft_dtype dtype;
        double number;
        uint64_t bits;
    } cases[] = {
        {WEFT_FP16, 1, 0x3c00},           {WEFT_FP16, -2, 0xc000},
        {WEFT_FP16, 2049, 0x6800}, /* between 2048 and 2050 */
        {WEFT_FP16, 2051, 0x6802},        {WEFT_FP16, 65519, 0x7bff},
        {WEFT_FP16, 65520, 0x7c00}, /* too large: infinity */
        {WEFT_FP16, 0x1p-24, 0x0001},     {WEFT_FP16, 0x1p-25, 0x0000},
        {WEFT_FP16, 0x1.ffcp-15, 0x0400}, /* the least that is normal */
        {WEFT_FP16, -0.0, 0x8000},        {WEFT_FP16, NAN, 0x7e00},
        {WEFT_BF16, 1, 0x3f80},           {WEFT_BF16, 257, 0x4380},
        {WEFT_BF16, 259, 0x4382},         {WEFT_BF16, 3.4e38, 0x7f80},
        {WEFT_BF16, -INFINITY, 0xff80},   {WEFT_BF16, NAN, 0x7fc0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(perf_element_of(cases[i].dtype, cases[i].number) == cases[i].bits, "%g as %s is 0x%llx, not 0x%llx",
                  cases[i].number, weft_dtype_string(cases[i].dtype),
                  (unsigned long long)perf_element_of(cases[i].dtype, cases[i].number),
                  (unsigned long long)cases[i].bits);
}

TEST(every_number_of_16_bits_comes_back)
{
    for (uint64_t bits = 0; bits < 0x10000; bits++)
        for (int d = WEFT_BF16; d <= WEFT_FP16; d++) {
            double number = perf_element_number((weft_dtype)d, bits);
            CHECK(isnan(number) || perf_element_of((weft_dtype)d, number) == bits);
        }
    CHECK(WEFT_FP16 == WEFT_BF16 + 1);
}

TEST(whole_numbers_are_exact_and_wrap)
{
    const perf_element large[] = {(1ull << 53) + 1, 1ull << 53, (uint64_t)-1}, bytes[] = {200, 100};
    CHECK(perf_element_reduce(WEFT_INT64, WEFT_MAX, large, 3, 3) == (1ull << 53) + 1);
    CHECK(perf_element_reduce(WEFT_INT64, WEFT_MIN, large, 3, 1) == (uint64_t)-1);
    CHECK(perf_element_reduce(WEFT_INT64, WEFT_SUM, large, 3, 3) == 1ull << 54);
    CHECK(perf_element_reduce(WEFT_UINT8, WEFT_SUM, bytes, 2, 2) == 44);
    CHECK(perf_element_reduce(WEFT_UINT8, WEFT_MAX, bytes, 2, 2) == 200);
    CHECK(perf_element_cut(WEFT_INT32, 0x123456789) == 0x23456789);
}

/* 1, 2^24, 1, -2^24: in fp32 a 1 that is added to 2^24 is lost. */
TEST(groups_are_added_up_before_each_other)
{
    perf_element e[4] = {perf_element_of(WEFT_FP32, 1), perf_element_of(WEFT_FP32, 0x1p24),
                         perf_element_of(WEFT_FP32, 1), perf_element_of(WEFT_FP32, -0x1p24)};
    CHECK(perf_element_number(WEFT_FP32, perf_element_reduce(WEFT_FP32, WEFT_SUM, e, 4, 4)) == 0);
    CHECK(perf_element_number(WEFT_FP32, perf_element_reduce(WEFT_FP32, WEFT_SUM, e, 4, 2)) == 1);
    CHECK(perf_element_number(WEFT_FP32, perf_element_reduce(WEFT_FP32, WEFT_SUM, e, 3, 2)) == 0x1p24);
    CHECK(perf_element_number(WEFT_FP32, perf_element_reduce(WEFT_FP32, WEFT_AVERAGE, e, 4, 2)) == 0.25);
}

TEST(nan_is_least_and_largest)
{
    perf_element e[2] = {perf_element_of(WEFT_FP16, 1), perf_element_of(WEFT_FP16, NAN)};
    CHECK_INT(perf_element_reduce(WEFT_FP16, WEFT_MAX, e, 2, 2), 0x7e00);
    CHECK_INT(perf_element_reduce(WEFT_FP16, WEFT_MIN, e, 2, 1), 0x7e00);
    CHECK_INT(perf_element_reduce(WEFT_FP16, WEFT_MIN, e, 1, 1), 0x3c00);
}
