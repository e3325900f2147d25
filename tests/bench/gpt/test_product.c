/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 matrices, and linear layers with either of their two ways to multiply. */
#include <pthread.h>
#include <stdlib.h>

#include "gpt/host/device.h"
#include "gpt/host/gemm.h"
#include "gpt/math/bf16.h"
#include "harness/test.h"

enum { MOST = 90, GAP = 5, ROOM = (MOST + GAP) * (MOST + GAP) };

static void only_where_there_are_products(void)
{
    if (!gpt_product_library())
        test_skip("nothing multiplies bf16 here: no oneDNN in this build, or not faster on this processor");
    test_note("%s", gpt_product_library());
}

/* In -1 ... 1, of a generator that is the same everywhere. */
static float noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static void fill_noise(uint16_t *values, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = math_float_to_bf16(noise(&seed));
}

/* Small whole numbers: every product and sum is exact, whatever the order. */
static void fill_whole(uint16_t *values, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = math_float_to_bf16((float)((i * 7 + seed * 13) % 17) - 8);
}

static double at(const uint16_t *values, size_t stride, bool transposed, size_t row, size_t column)
{
    return (double)math_bf16_to_float(values[transposed ? column * stride + row : row * stride + column]);
}

/* How far a sum in fp32 may be from the exact one, if `length` is the sum of the absolute values of its `count`
 * summands: each product of two bf16 is exact in fp32, each of at most `count` additions rounds once, in any order. */
static double bound(size_t count, double length)
{
    double roundings = (double)count * 0x1p-24;
    return roundings / (1 - roundings) * length;
}

static void check_element(const gpt_product_shape *s, const uint16_t *a, const uint16_t *b, size_t i, size_t j,
                          float before, float got, bool exact)
{
    double sum = s->adds ? (double)before : 0, length = fabs(sum);
    for (size_t l = 0; l < s->k; l++) {
        double product = at(a, s->a_stride, s->a_transposed, i, l) * at(b, s->b_stride, s->b_transposed, l, j);
        sum += product;
        length += fabs(product);
    }
    CHECK_MSG(fabs((double)got - sum) <= (exact ? 0 : bound(s->k, length)),
              "%zux%zux%zu %d %d %d: [%zu][%zu] is %.9g, not %.9g", s->m, s->n, s->k, s->a_transposed, s->b_transposed,
              s->adds, i, j, (double)got, sum);
}

static void check_product(gpt_product_shape s, bool exact)
{
    static uint16_t a[ROOM], b[ROOM];
    static float c[ROOM], before[ROOM];
    s.a_stride = (s.a_transposed ? s.m : s.k) + 3;
    s.b_stride = (s.b_transposed ? s.k : s.n) + GAP;
    s.c_stride = s.n + 1;
    (exact ? fill_whole : fill_noise)(a, ROOM, s.m + 1);
    (exact ? fill_whole : fill_noise)(b, ROOM, s.n + 2);
    for (size_t i = 0; i < ROOM; i++)
        before[i] = s.adds || i % s.c_stride == s.n ? (float)(i % 13) - 6 : NAN; /* NaN: must not be read */
    memcpy(c, before, sizeof c);
    gpt_product *product = gpt_product_open(&s);
    CHECK_MSG(product, "%zux%zux%zu cannot be made", s.m, s.n, s.k);
    gpt_product_run(product, a, b, c);
    gpt_product_close(product);
    for (size_t i = 0; i < s.m; i++)
        for (size_t j = 0; j < s.n; j++)
            check_element(&s, a, b, i, j, before[i * s.c_stride + j], c[i * s.c_stride + j], exact);
    for (size_t i = 0; i < ROOM; i++) /* behind each row and behind the last */
        if (i >= s.m * s.c_stride || i % s.c_stride == s.n)
            CHECK(memcmp(&c[i], &before[i], sizeof *c) == 0);
}

static void check_every_way(size_t m, size_t n, size_t k, bool exact)
{
    for (int way = 0; way < 8; way++)
        check_product(
            (gpt_product_shape){
                .m = m, .n = n, .k = k, .a_transposed = way & 1, .b_transposed = way & 2, .adds = way & 4},
            exact);
}

TEST(sums_are_exact_for_whole_numbers_and_within_the_bound_else_in_every_shape_and_order)
{
    static const size_t sizes[] = {0, 1, 7, 16, 33, 90};
    only_where_there_are_products();
    for (size_t i = 0; i < 216; i++) {
        if (test_is_slow() && i % 7 != 3)
            continue;
        check_every_way(sizes[i % 6], sizes[i / 6 % 6], sizes[i / 36], true);
        check_every_way(sizes[i % 6], sizes[i / 6 % 6], sizes[i / 36], false);
    }
}

/* ---- the same bits ---- */

enum { ROWS = 128, IN = 200, OUT = 72, ROUNDS = 20, THREADS = 4 };

static uint16_t left[ROWS * IN], right[IN * OUT];
static float wanted[ROWS * OUT];

static void multiply(float *c)
{
    const gpt_product_shape shape = {ROWS, OUT, IN, .a_stride = IN, .b_stride = OUT, .c_stride = OUT};
    gpt_product *product = gpt_product_open(&shape);
    CHECK(product);
    for (int round = 0; round < ROUNDS; round++) {
        memset(c, round, sizeof wanted);
        gpt_product_run(product, left, right, c);
        if (c != wanted)
            CHECK(memcmp(c, wanted, sizeof wanted) == 0);
    }
    gpt_product_close(product);
}

static void *multiply_elsewhere(void *argument)
{
    /* at every remainder of a cache line */
    float *memory = malloc(sizeof wanted + 64);
    CHECK(memory);
    multiply(memory + *(unsigned *)argument);
    free(memory);
    return NULL;
}

TEST(runs_threads_and_places_in_memory_change_no_bit)
{
    pthread_t threads[THREADS];
    unsigned offsets[THREADS];
    only_where_there_are_products();
    fill_noise(left, ROWS * IN, 1);
    fill_noise(right, IN * OUT, 2);
    multiply(wanted);
    for (unsigned i = 0; i < THREADS; i++) {
        offsets[i] = 3 * i;
        CHECK(pthread_create(&threads[i], NULL, multiply_elsewhere, &offsets[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- linear layers ---- */

static gpt_shape odd_shape(void)
{
    gpt_failure failure;
    gpt_shape shape = {.layers = 1,
                       .hidden = 35,
                       .ffn = 53,
                       .heads = 5,
                       .groups = 1,
                       .channels = 6,
                       .sequence = 19,
                       .vocabulary = 97,
                       .vocabulary_multiple = 1,
                       .micro_batch = 3,
                       .norm_epsilon = 1e-5f,
                       .rotary_base = 100,
                       .init_deviation = 0.3f,
                       .dtype = WEFT_BF16,
                       .tensor = 1,
                       .pipeline = 1,
                       .virtual_stages = 1};
    CHECK_MSG(gpt_shape_complete(&shape, &failure) == 0, "%s", failure.text);
    return shape;
}

/* Row-major, or seen as its transpose; rounded to bf16 before it is used, or not. */
typedef struct operand {
    const float *values;
    size_t stride;
    bool transposed, rounded;
} operand;

static double seen(const operand *o, size_t row, size_t column)
{
    float value = o->values[o->transposed ? column * o->stride + row : row * o->stride + column];
    return (double)(o->rounded ? math_bf16_to_float(math_float_to_bf16(value)) : value);
}

/* Products of fp32 are not exact: one more rounding for each. */
static void check_sums(const char *what, size_t m, size_t n, size_t k, operand a, operand b, double before,
                       const float *c)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = before, length = fabs(before);
            for (size_t l = 0; l < k; l++) {
                sum += seen(&a, i, l) * seen(&b, l, j);
                length += fabs(seen(&a, i, l) * seen(&b, l, j));
            }
            CHECK_MSG(fabs((double)c[i * n + j] - sum) <= bound(k + 1, length), "%s [%zu][%zu] is %.9g, not %.9g", what,
                      i, j, (double)c[i * n + j], sum);
        }
}

static void check_linear(gpt_device *device, size_t rows, const gpt_linear *l, bool rounds)
{
    enum { WIDEST = 128, TOKENS = 57 };
    static float x[TOKENS * WIDEST], dy[TOKENS * WIDEST], wide[WIDEST * WIDEST], y[WIDEST * WIDEST];
    static uint16_t w[WIDEST * WIDEST];
    uint64_t seed = l->in;
    size_t in = l->in, out = l->out;
    CHECK(rows <= TOKENS && in <= WIDEST && out <= WIDEST);
    for (size_t i = 0; i < rows * WIDEST; i++)
        x[i] = noise(&seed), dy[i] = noise(&seed);
    fill_noise(w, in * out, out);
    for (size_t i = 0; i < in * out; i++)
        wide[i] = math_bf16_to_float(w[i]);

    device->ops->linear(device, rows, in, out, x, w, y);
    check_sums("y", rows, out, in, (operand){x, in, false, rounds}, (operand){wide, in, true, false}, 0, y);
    device->ops->linear_input_grad(device, rows, in, out, dy, w, y);
    check_sums("dx", rows, in, out, (operand){dy, out, false, rounds}, (operand){wide, in, false, false}, 0, y);
    for (size_t i = 0; i < in * out; i++)
        y[i] = 3;
    device->ops->linear_weight_grad(device, rows, in, out, dy, x, y);
    check_sums("dw", out, in, rows, (operand){dy, out, true, rounds}, (operand){x, in, false, rounds}, 3, y);
}

static void check_linears(bool bf16)
{
    gpt_shape shape = odd_shape();
    gpt_device *device;
    gpt_failure failure;
    CHECK(gpt_host_open_with(&shape, bf16, &device, &failure) == 0);
    CHECK(gpt_host_of(device)->multiplies_bf16 == bf16);
    CHECK_HAS(device->products, gpt_gemm_library());
    CHECK_HAS(device->products, bf16 ? gpt_product_library() : "widened");
    for (int i = 0; i < GPT_LINEARS; i++)
        check_linear(device, shape.tokens, &gpt_host_of(device)->linears[i], bf16);
    device->ops->close(device);
}

TEST(linear_layers_by_bf16_products_round_activations_and_nothing_else)
{
    only_where_there_are_products();
    check_linears(true);
}

TEST(linear_layers_by_a_blas_round_nothing)
{
    check_linears(false);
}

TEST(fp32_layers_use_no_bf16)
{
    gpt_shape shape = odd_shape();
    gpt_device *device;
    gpt_failure failure;
    shape.dtype = WEFT_FP32;
    CHECK(gpt_host_open(&shape, &device, &failure) == 0);
    CHECK(!gpt_host_of(device)->multiplies_bf16 && !strstr(device->products, "bf16"));
    device->ops->close(device);
}
