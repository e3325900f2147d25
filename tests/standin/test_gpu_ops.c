/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of a GPT on a GPU but the attention, which has a file of its own, against the same in fp64 and plain
 * loops: in fp32 and bf16, of sizes that are made of packs and of sizes that are not. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

#include "gpt/cuda/module.h"
#include "gpt/math/bf16.h"
#include "gpt/ops.h"
#include "harness/test.h"

enum { ROWS = 300, WIDTH = 40, ODD = 37 }; /* rows: more than a norm's gradient has parts */

/* ---- arrays: values of the host, and the same on the device ---- */

typedef struct array {
    size_t count;
    weft_dtype dtype;
    double *x;
    void *device;
} array;

static gpt_device *gpu;
static uint64_t state;

static void open_gpu(weft_dtype dtype)
{
    const gpt_shape shape = {.layers = 1,
                             .hidden = WIDTH,
                             .ffn = WIDTH,
                             .heads = 2,
                             .groups = 1,
                             .channels = 16,
                             .sequence = ROWS,
                             .vocabulary = 64,
                             .vocabulary_multiple = 1,
                             .micro_batch = 1,
                             .norm_epsilon = 1e-5f,
                             .rotary_base = 10000,
                             .dtype = dtype,
                             .tokens = ROWS,
                             .local_heads = 2,
                             .local_groups = 1};
    char name[4200];
    snprintf(name, sizeof name, "%s/libweft-gpt-cuda.so", getenv("WEFT_MODULE_PATH"));
    void *module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(module, "%s", dlerror());
    gpt_cuda_module_function *entry = NULL;
    *(void **)&entry = dlsym(module, "gpt_cuda_open");
    gpt_failure failure = {0};
    CHECK_MSG(entry && entry(&shape, 0, &gpu, &failure) == 0, "%s", failure.text);
    state = 1;
}

/* `bench/gpu/check` runs this file with CUDA's own library, which counts no races. */
static void close_gpu(void)
{
    const char *why = "";
    uint64_t (*races)(void) = NULL;
    CHECK_MSG(gpu->ops->check(gpu, &why) == WEFT_OK, "%s", why);
    gpu->ops->close(gpu);
    *(void **)&races = dlsym(RTLD_DEFAULT, "standin_races");
    CHECK_INT(races ? races() : 0, 0);
}

/* Between -2 and 2, Knuth's MMIX. */
static double number(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / (double)(1 << 22) - 2;
}

static double rounded(double x, weft_dtype dtype)
{
    return (double)(dtype == WEFT_BF16 ? math_bf16_to_float(math_float_to_bf16((float)x)) : (float)x);
}

static array empty(size_t count, weft_dtype dtype)
{
    array a = {count, dtype, calloc(count, sizeof(double)), NULL};
    CHECK(a.x);
    CHECK_INT(cudaMalloc(&a.device, count * weft_dtype_bytes(dtype)), cudaSuccess);
    CHECK_INT(cudaMemset(a.device, 0xff, count * weft_dtype_bytes(dtype)), cudaSuccess);
    return a;
}

static array given(size_t count, weft_dtype dtype)
{
    array a = empty(count, dtype);
    float *floats = calloc(count, sizeof *floats);
    uint16_t *halves = calloc(count, sizeof *halves);
    CHECK(floats && halves);
    for (size_t i = 0; i < count; i++) {
        a.x[i] = rounded(number(), dtype);
        floats[i] = (float)a.x[i];
        halves[i] = math_float_to_bf16(floats[i]);
    }
    gpu->ops->bring(gpu, count * weft_dtype_bytes(dtype), dtype == WEFT_BF16 ? (void *)halves : floats, a.device);
    CHECK_INT(cudaDeviceSynchronize(), cudaSuccess);
    free(floats);
    free(halves);
    return a;
}

static void drop(array *a)
{
    CHECK_INT(cudaFree(a->device), cudaSuccess);
    free(a->x);
}

/* What is wanted is in a->x; sums of @p terms are wrong by so many roundings of fp32 at most, and an element of bf16 by
 * half a step besides, or, if it is the sum of what was rounded, by two. */
static void check(const char *what, const array *a, size_t terms)
{
    size_t bytes = a->count * weft_dtype_bytes(a->dtype);
    void *raw = malloc(bytes);
    double usual = 0;
    CHECK(raw);
    gpu->ops->fetch(gpu, bytes, a->device, raw);
    for (size_t i = 0; i < a->count; i++)
        usual += a->x[i] * a->x[i] / (double)a->count;
    for (size_t i = 0; i < a->count; i++) {
        double got = a->dtype == WEFT_BF16   ? (double)math_bf16_to_float(((uint16_t *)raw)[i])
                     : a->dtype == WEFT_FP64 ? ((double *)raw)[i]
                                             : (double)((float *)raw)[i];
        double size = fabs(a->x[i]) > sqrt(usual) ? fabs(a->x[i]) : sqrt(usual);
        double part = 1e-6 + 1e-7 * (double)terms + (a->dtype == WEFT_BF16 ? 1.0 / 128 : 0);
        CHECK_MSG(fabs(got - a->x[i]) <= part * size, "%s[%zu] of %zu: %.9g, not %.9g", what, i, a->count, got,
                  a->x[i]);
    }
    free(raw);
}

static array of_tokens(size_t count, const int32_t *tokens)
{
    array a = empty(count, WEFT_INT32);
    gpu->ops->bring(gpu, count * sizeof *tokens, tokens, a.device);
    CHECK_INT(cudaDeviceSynchronize(), cudaSuccess);
    return a;
}

/* ---- products ---- */

static void multiply(weft_dtype dtype, size_t in)
{
    const size_t out = 24;
    array x = given(ROWS * in, dtype), w = given(out * in, dtype), dy = given(ROWS * out, dtype);
    array y = empty(ROWS * out, dtype), dx = empty(ROWS * in, dtype), dw = given(out * in, WEFT_FP32);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t o = 0; o < out; o++)
            for (size_t i = 0; i < in; i++) {
                y.x[r * out + o] += x.x[r * in + i] * w.x[o * in + i];
                dx.x[r * in + i] += dy.x[r * out + o] * w.x[o * in + i];
                dw.x[o * in + i] += dy.x[r * out + o] * x.x[r * in + i];
            }
    gpu->ops->linear(gpu, ROWS, in, out, x.device, w.device, y.device);
    gpu->ops->linear_input_grad(gpu, ROWS, in, out, dy.device, w.device, dx.device);
    gpu->ops->linear_weight_grad(gpu, ROWS, in, out, dy.device, x.device, dw.device);
    check("y", &y, in), check("dx", &dx, out), check("dw", &dw, ROWS);
    drop(&x), drop(&w), drop(&dy), drop(&y), drop(&dx), drop(&dw);
}

/* ---- norms ---- */

static void normalize(weft_dtype dtype, size_t width)
{
    array x = given(ROWS * width, dtype), w = given(width, dtype), dy = given(ROWS * width, dtype);
    array y = empty(ROWS * width, dtype), scale = empty(ROWS, WEFT_FP32);
    array dx = given(ROWS * width, dtype), dw = given(width, WEFT_FP32);
    for (size_t r = 0; r < ROWS; r++) {
        const double *in = x.x + r * width, *grad = dy.x + r * width;
        double squares = 0, dot = 0;
        for (size_t i = 0; i < width; i++)
            squares += in[i] * in[i];
        double s = scale.x[r] = 1 / sqrt(squares / (double)width + 1e-5);
        for (size_t i = 0; i < width; i++) {
            y.x[r * width + i] = in[i] * s * w.x[i];
            dot += grad[i] * w.x[i] * in[i];
            dw.x[i] += grad[i] * in[i] * s;
        }
        for (size_t i = 0; i < width; i++)
            dx.x[r * width + i] += s * (grad[i] * w.x[i] - in[i] * dot * s * s / (double)width);
    }
    gpu->ops->norm(gpu, ROWS, width, x.device, w.device, y.device, scale.device);
    check("y", &y, width), check("scale", &scale, width);
    gpu->ops->norm_grad(gpu, ROWS, width, dy.device, x.device, w.device, scale.device, dx.device, dw.device);
    check("dx", &dx, width), check("dw", &dw, ROWS);
    drop(&x), drop(&w), drop(&dy), drop(&y), drop(&scale), drop(&dx), drop(&dw);
}

/* ---- rotation: pairs are half a head apart; the values of a group are left as they are ---- */

static void rotate(weft_dtype dtype, size_t unused)
{
    const gpt_attention a = {ROWS, 1, 1, 2, 16};
    const size_t half = a.channels / 2, row = 4 * a.channels;
    array forth = given(ROWS * row, dtype), back = given(ROWS * row, dtype);
    (void)unused;
    for (size_t t = 0; t < ROWS; t++)
        for (size_t head = 0; head < 3; head++)
            for (size_t i = 0; i < half; i++)
                for (int way = 0; way < 2; way++) {
                    double *x = (way ? back.x : forth.x) + t * row + head * a.channels + i;
                    double angle = (double)t * pow(10000, -2.0 * (double)i / (double)a.channels);
                    double c = cos(angle), s = way ? -sin(angle) : sin(angle), first = x[0] * c - x[half] * s;
                    x[half] = x[half] * c + x[0] * s;
                    x[0] = first;
                }
    gpu->ops->rotate(gpu, &a, forth.device);
    gpu->ops->rotate_back(gpu, &a, back.device);
    check("rotated", &forth, 2), check("rotated back", &back, 2);
    drop(&forth), drop(&back);
}

/* ---- SwiGLU ---- */

static void gate(weft_dtype dtype, size_t width)
{
    array in = given(ROWS * 2 * width, dtype), dy = given(ROWS * width, dtype);
    array y = empty(ROWS * width, dtype), din = empty(ROWS * 2 * width, dtype);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < width; i++) {
            double g = in.x[r * 2 * width + i], up = in.x[r * 2 * width + width + i], d = dy.x[r * width + i];
            double sigmoid = 1 / (1 + exp(-g));
            y.x[r * width + i] = g * sigmoid * up;
            din.x[r * 2 * width + i] = d * up * sigmoid * (1 + g * (1 - sigmoid));
            din.x[r * 2 * width + width + i] = d * g * sigmoid;
        }
    gpu->ops->swiglu(gpu, ROWS, width, in.device, y.device);
    gpu->ops->swiglu_grad(gpu, ROWS, width, in.device, dy.device, din.device);
    check("y", &y, 1), check("dgate_up", &din, 1);
    drop(&in), drop(&dy), drop(&y), drop(&din);
}

/* ---- the embedding: tokens of other ranks are nothing here ---- */

static void embed(weft_dtype dtype, size_t width)
{
    const gpt_vocabulary v = {10, 32, 30};
    int32_t tokens[ROWS];
    for (size_t t = 0; t < ROWS; t++)
        tokens[t] = (int32_t)(t * 7 % 50);
    array table = given(v.columns * width, dtype), dy = given(ROWS * width, dtype), ids = of_tokens(ROWS, tokens);
    array y = empty(ROWS * width, dtype), dtable = given(v.columns * width, WEFT_FP32);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t i = 0; i < width && tokens[t] >= 10 && tokens[t] < 40; i++) {
            size_t row = (size_t)tokens[t] - v.first;
            y.x[t * width + i] = table.x[row * width + i];
            dtable.x[row * width + i] += dy.x[t * width + i];
        }
    gpu->ops->embed(gpu, &v, ROWS, width, ids.device, table.device, y.device);
    gpu->ops->embed_grad(gpu, &v, ROWS, width, ids.device, dy.device, dtable.device);
    check("y", &y, 0), check("dtable", &dtable, ROWS);
    drop(&table), drop(&dy), drop(&ids), drop(&y), drop(&dtable);
}

/* ---- the loss, in its four pieces ---- */

static void lose(weft_dtype dtype, size_t columns)
{
    const gpt_vocabulary v = {10, columns, columns - 3};
    const float factor = 0.25f;
    int32_t targets[ROWS];
    array logits = given(ROWS * columns, dtype), largest = empty(ROWS, WEFT_FP32), sums = empty(2 * ROWS, WEFT_FP32);
    array total = empty(1, WEFT_FP64), grad = empty(ROWS * columns, dtype);
    gpu->ops->clear(gpu, sizeof(double), total.device);
    for (size_t r = 0; r < ROWS; r++) {
        const double *x = logits.x + r * columns;
        targets[r] = (int32_t)(r % (columns + 10)); /* some are other ranks' */
        size_t target = (size_t)targets[r] - v.first;
        largest.x[r] = -INFINITY;
        for (size_t i = 0; i < v.valid; i++)
            largest.x[r] = x[i] > largest.x[r] ? x[i] : largest.x[r];
        for (size_t i = 0; i < v.valid; i++)
            sums.x[r] += exp(x[i] - largest.x[r]);
        sums.x[ROWS + r] = target < v.valid ? x[target] - largest.x[r] : 0;
        total.x[0] += log(sums.x[r]) - sums.x[ROWS + r];
        for (size_t i = 0; i < v.valid; i++)
            grad.x[r * columns + i] = factor * (exp(x[i] - largest.x[r]) / sums.x[r] - (i == target));
    }
    array ids = of_tokens(ROWS, targets);
    gpu->ops->entropy_largest(gpu, &v, ROWS, logits.device, largest.device);
    gpu->ops->entropy_exponentials(gpu, &v, ROWS, logits.device, ids.device, largest.device, sums.device);
    check("largest", &largest, 0), check("sums", &sums, columns);
    gpu->ops->entropy_loss(gpu, ROWS, sums.device, total.device);
    check("total", &total, columns);
    gpu->ops->entropy_grad(gpu, &v, ROWS, logits.device, ids.device, sums.device, factor);
    memcpy(logits.x, grad.x, grad.count * sizeof *grad.x);
    check("dlogits", &logits, columns);
    drop(&logits), drop(&largest), drop(&sums), drop(&total), drop(&grad), drop(&ids);
}

/* ---- element by element ---- */

static void add_and_convert(weft_dtype dtype, size_t width)
{
    const size_t count = ROWS * width;
    const weft_dtype other = dtype == WEFT_BF16 ? WEFT_FP32 : WEFT_BF16;
    array a = given(count, dtype), b = given(count, dtype), y = empty(count, dtype), turned = empty(count, other);
    for (size_t i = 0; i < count; i++) {
        y.x[i] = a.x[i] + b.x[i];
        turned.x[i] = rounded(a.x[i], other);
    }
    gpu->ops->add(gpu, count, a.device, b.device, y.device);
    gpu->ops->convert(gpu, count, a.device, dtype, turned.device, other);
    check("sum", &y, 1), check("converted", &turned, 0);
    drop(&a), drop(&b), drop(&y), drop(&turned);
}

static void all_sizes(void (*operation)(weft_dtype dtype, size_t width))
{
    for (int i = 0; i < 4; i++) {
        weft_dtype dtype = i % 2 ? WEFT_BF16 : WEFT_FP32;
        open_gpu(dtype);
        operation(dtype, i / 2 ? ODD : WIDTH);
        close_gpu();
    }
}

TEST(products_and_their_gradients_are_those_of_plain_loops)
{
    all_sizes(multiply);
}

TEST(norms_and_their_gradients_are_those_of_plain_loops)
{
    all_sizes(normalize);
}

TEST(rotations_are_those_of_plain_loops)
{
    all_sizes(rotate);
}

TEST(gates_and_their_gradients_are_those_of_plain_loops)
{
    all_sizes(gate);
}

TEST(embeddings_and_their_gradients_are_those_of_plain_loops)
{
    all_sizes(embed);
}

TEST(losses_and_their_gradients_are_those_of_plain_loops)
{
    all_sizes(lose);
}

TEST(sums_and_conversions_are_those_of_plain_loops)
{
    all_sizes(add_and_convert);
}
