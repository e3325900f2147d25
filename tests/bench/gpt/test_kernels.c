/* SPDX-License-Identifier: Apache-2.0 */
/* The host's loops: right, and the same bits from every instruction set, wherever the row lies and ends. */
#include <float.h>
#include <stdlib.h>

#include "gpt/host/kernels.h"
#include "gpt/math/exp.h"
#include "harness/test.h"

enum { LONGEST = 130, OFFSETS = 64, ROOM = 4 * (LONGEST + OFFSETS) };

/* Numbers from -2 to 2 by a formula. */
static float number(size_t i)
{
    uint32_t mixed = ((uint32_t)i + 1) * 2654435761u;
    return (float)(mixed >> 8) / (float)(1 << 22) - 2;
}

/* Four arrays of inputs and two of outputs, `at` elements behind a boundary of 64 bytes. */
typedef struct arrays {
    float memory[6][ROOM] __attribute__((aligned(64)));
    float *in[4], *out[2];
} arrays;

static void fill(arrays *a, size_t at)
{
    for (int k = 0; k < 4; k++) {
        a->in[k] = a->memory[k] + at;
        for (size_t i = 0; i < ROOM - at; i++)
            a->in[k][i] = number(i + (size_t)k * 1000);
    }
    for (int k = 0; k < 2; k++) {
        a->out[k] = a->memory[4 + k] + at;
        for (size_t i = 0; i < ROOM - at; i++)
            a->out[k][i] = number(i + 7000);
    }
}

typedef void (*call)(const gpt_kernels *k, arrays *a, size_t n);

static void call_norm(const gpt_kernels *k, arrays *a, size_t n)
{
    k->norm(2, n, 1e-5f, a->in[0], a->in[1], a->out[0], a->out[1]);
}
static void call_norm_grad(const gpt_kernels *k, arrays *a, size_t n)
{
    k->norm_grad(2, n, a->in[0], a->in[1], a->in[2], a->in[3], a->out[0], a->out[1]);
}
static void call_rotate(const gpt_kernels *k, arrays *a, size_t n)
{
    k->rotate(1, n, a->in[0], a->in[1], a->out[0]);
}
static void call_softmax(const gpt_kernels *k, arrays *a, size_t n)
{
    k->softmax(1, n + 3, n, a->out[0], a->out[1], a->out[1] + 1);
}
static void call_softmax_again(const gpt_kernels *k, arrays *a, size_t n)
{
    k->softmax_again(1, n + 3, n, a->out[0], a->in[0]);
}
static void call_softmax_grad(const gpt_kernels *k, arrays *a, size_t n)
{
    k->softmax_grad(2, n, a->in[0], a->in[1], 0.3f, a->out[0]);
}
static void call_row_scale(const gpt_kernels *k, arrays *a, size_t n)
{
    k->row_scale(2, n, a->in[0], a->out[0], n + 1);
}
static void call_row_dots(const gpt_kernels *k, arrays *a, size_t n)
{
    k->row_dots(2, n, a->in[0], a->in[1], n, a->out[0]);
}
static void call_swiglu(const gpt_kernels *k, arrays *a, size_t n)
{
    k->swiglu(2, n, a->in[0], a->out[0]);
}
static void call_swiglu_grad(const gpt_kernels *k, arrays *a, size_t n)
{
    k->swiglu_grad(2, n, a->in[0], a->in[1], a->out[0]);
}
static void call_largest(const gpt_kernels *k, arrays *a, size_t n)
{
    k->largest(2, n, n, a->in[0], a->out[0]);
}
static void call_exponentials(const gpt_kernels *k, arrays *a, size_t n)
{
    k->exponentials(2, n + 2, n, a->out[0], a->in[0], a->out[1]);
}
static void call_row_divide(const gpt_kernels *k, arrays *a, size_t n)
{
    k->row_divide(2, n, a->out[0], a->in[0], 0.3f);
}
static void call_add(const gpt_kernels *k, arrays *a, size_t n)
{
    k->add(n, a->in[0], a->in[1], a->out[0]);
}
static void call_accumulate(const gpt_kernels *k, arrays *a, size_t n)
{
    k->accumulate(n, a->in[0], a->out[0]);
}
static void call_widen(const gpt_kernels *k, arrays *a, size_t n)
{
    k->widen(n, (const uint16_t *)a->in[0], a->out[0]);
}
static void call_narrow(const gpt_kernels *k, arrays *a, size_t n)
{
    k->narrow(n, a->in[0], (uint16_t *)a->out[0]);
}

static const struct {
    const char *name;
    call call;
} calls[] = {
    {"norm", call_norm},
    {"norm_grad", call_norm_grad},
    {"rotate", call_rotate},
    {"softmax", call_softmax},
    {"softmax_again", call_softmax_again},
    {"softmax_grad", call_softmax_grad},
    {"row_scale", call_row_scale},
    {"row_dots", call_row_dots},
    {"swiglu", call_swiglu},
    {"swiglu_grad", call_swiglu_grad},
    {"largest", call_largest},
    {"exponentials", call_exponentials},
    {"row_divide", call_row_divide},
    {"add", call_add},
    {"accumulate", call_accumulate},
    {"widen", call_widen},
    {"narrow", call_narrow},
};

TEST(every_kernel_gives_the_same_bits_at_every_offset_and_length_from_every_instruction_set)
{
    static arrays want, got;
    CHECK_INT(sizeof calls / sizeof *calls, (sizeof(gpt_kernels) - sizeof(char *)) / sizeof(void (*)(void)));
    int tables = 0;
    for (; gpt_kernels_at(tables); tables++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            for (size_t n = 1; n <= LONGEST; n++) {
                fill(&want, 0);
                calls[i].call(gpt_kernels_at(0), &want, n);
                for (size_t at = n % 3; at < OFFSETS; at += n < 40 ? 1 : 7) {
                    fill(&got, at);
                    calls[i].call(gpt_kernels_at(tables), &got, n);
                    for (int k = 0; k < 2; k++)
                        CHECK_MSG(memcmp(got.out[k], want.out[k], (ROOM - OFFSETS) * sizeof(float)) == 0,
                                  "%s of %s differs at length %zu, offset %zu", calls[i].name,
                                  gpt_kernels_at(tables)->name, n, at);
                }
            }
    test_note("%d instruction sets compared", tables);
}

TEST(the_exponential_function_is_within_one_unit_of_the_last_place)
{
    for (int64_t bits = 0; bits <= UINT32_MAX; bits += 9973) {
        float x = math_from_bits((int32_t)(uint32_t)bits);
        if (!(x >= -87 && x <= 88))
            continue;
        double want = exp((double)x), unit = (double)(nextafterf((float)want, INFINITY) - (float)want);
        CHECK_MSG(fabs((double)math_exp(x) - want) <= unit, "exp(%.9g) is %.9g, not %.9g", (double)x,
                  (double)math_exp(x), want);
    }
    CHECK(math_exp(0) == 1);
    CHECK(math_exp(-INFINITY) == 0 && math_exp(-87.01f) == 0);
    CHECK(math_exp(INFINITY) > 1e38f);
    CHECK(isnan(math_exp(NAN)));
}

TEST(a_norm_is_that_of_a_plain_sum)
{
    const gpt_kernels *k = gpt_kernels_best();
    float x[101], w[101], y[101], scale;
    double squares = 0;
    for (size_t i = 0; i < 101; i++) {
        x[i] = number(i), w[i] = number(i + 500);
        squares += (double)x[i] * (double)x[i];
    }
    k->norm(1, 101, 1e-5f, x, w, y, &scale);
    for (size_t i = 0; i < 101; i++)
        CHECK_NEAR(y[i], (double)x[i] * (double)w[i] / sqrt(squares / 101 + 1e-5), 1e-6);
}

TEST(what_is_not_seen_gets_no_weight)
{
    const gpt_kernels *k = gpt_kernels_best();
    float scores[3][5] = {{1, 2, 3, 4, 5}, {1, 1, 1, 4, 5}, {0, 0, 0, 0, 5}}, inverse[3], logsum[3];
    k->softmax(3, 5, 2, scores[0], inverse, logsum);
    for (int r = 0; r < 3; r++)
        for (int c = 2 + r; c < 5; c++)
            CHECK_NEAR(scores[r][c], 0, 0);
    CHECK_NEAR(logsum[0], log(exp(1) + exp(2)), 1e-6);
    CHECK_NEAR(logsum[1], 1 + log(3), 1e-6);
    CHECK_NEAR(logsum[2], log(4), 1e-6);
    CHECK_NEAR(scores[1][0] * inverse[1], 1.0 / 3, 1e-7);
}

TEST(a_nan_is_not_hidden)
{
    const gpt_kernels *k = gpt_kernels_best();
    float logits[40], largest, sum;
    for (int i = 0; i < 40; i++)
        logits[i] = 1;
    logits[17] = NAN;
    k->largest(1, 40, 40, logits, &largest);
    k->exponentials(1, 40, 40, logits, &largest, &sum);
    CHECK(isnan(sum));
}

TEST(bf16_is_rounded_to_nearest_even_and_widened_exactly)
{
    const struct {
        uint32_t fp32;
        uint16_t bf16;
    } known[] = {
        {0x3f800000, 0x3f80}, /* 1 */
        {0x3f808000, 0x3f80}, /* halfway: to the even one below */
        {0x3f818000, 0x3f82}, /* halfway: to the even one above */
        {0x3f808001, 0x3f81}, /* above halfway */
        {0x7f7fffff, 0x7f80}, /* the largest fp32 becomes infinity */
        {0xff800000, 0xff80}, /* -infinity */
        {0x80000001, 0x8000}, /* the smallest becomes -0 */
        {0x7fbfffff, 0x7fff}, /* a NaN keeps its bits above, and stays one */
        {0x7f800001, 0x7fc0}, /* also if those were zero */
    };
    const gpt_kernels *k = gpt_kernels_best();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t bf16;
        float back;
        k->narrow(1, (const float[]){math_from_bits((int32_t)known[i].fp32)}, &bf16);
        CHECK_INT(bf16, known[i].bf16);
        k->widen(1, &bf16, &back);
        CHECK_INT((uint32_t)math_bits(back), (uint32_t)bf16 << 16);
    }
}
