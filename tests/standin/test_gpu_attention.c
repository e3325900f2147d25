/* SPDX-License-Identifier: Apache-2.0 */
/* The attention of a GPU, fused and by blocks of queries, against the same in fp64 and plain loops. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <weft/cuda.h>

#include "gpt/cuda/module.h"
#include "gpt/math/bf16.h"
#include "gpt/ops.h"
#include "harness/test.h"

/* `bench/gpu/check` runs this file with CUDA's own library, which counts no races. */
static uint64_t races(void)
{
    uint64_t (*count)(void) = NULL;
    *(void **)&count = dlsym(RTLD_DEFAULT, "standin_races");
    return count ? count() : 0;
}

static gpt_device *open_device(const gpt_attention *a, gpt_attention_kind kind)
{
    size_t heads = a->groups * a->heads_per_group;
    gpt_shape shape = {.layers = 1,
                       .hidden = 64,
                       .ffn = 64,
                       .heads = heads,
                       .groups = a->groups,
                       .channels = a->channels,
                       .sequence = a->sequence,
                       .vocabulary = 64,
                       .vocabulary_multiple = 1,
                       .micro_batch = a->samples,
                       .rotary_base = 10000,
                       .attention = kind,
                       .dtype = WEFT_BF16,
                       .tokens = a->sequence * a->samples,
                       .local_heads = heads,
                       .local_groups = a->groups};
    char name[4200];
    snprintf(name, sizeof name, "%s/libweft-gpt-cuda.so", getenv("WEFT_MODULE_PATH"));
    void *module = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(module, "%s", dlerror());
    gpt_cuda_module_function *entry = NULL;
    *(void **)&entry = dlsym(module, "gpt_cuda_open");
    CHECK(entry);
    gpt_failure failure = {0};
    gpt_device *device = NULL;
    CHECK_MSG(entry(&shape, 0, &device, &failure) == 0, "%s", failure.text);
    return device;
}

/* ---- the same in fp64 ---- */

typedef struct arrays {
    size_t qkv_count, context_count, logsum_count;
    uint16_t *qkv, *dcontext;         /* what is given */
    double *context, *logsum, *dqkv;  /* what is wanted */
    uint16_t *got_context, *got_dqkv; /* what came */
    float *got_logsum;
} arrays;

static void *need(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    CHECK(memory);
    return memory;
}

/* Numbers like those of a Gaussian: the sum of four even ones. */
static float number(uint64_t *random)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*random >> 40) / (float)(1 << 24) - 0.5f;
    }
    return sum * 1.7f;
}

static arrays open_arrays(const gpt_attention *a)
{
    size_t tokens = a->sequence * a->samples, heads = a->groups * a->heads_per_group;
    arrays x = {.qkv_count = tokens * a->groups * (a->heads_per_group + 2) * a->channels,
                .context_count = tokens * heads * a->channels,
                .logsum_count = tokens * heads};
    x.qkv = need(x.qkv_count, 2), x.dcontext = need(x.context_count, 2);
    x.context = need(x.context_count, 8), x.logsum = need(x.logsum_count, 8), x.dqkv = need(x.qkv_count, 8);
    x.got_context = need(x.context_count, 2), x.got_dqkv = need(x.qkv_count, 2);
    x.got_logsum = need(x.logsum_count, 4);
    uint64_t random = a->sequence * 1000 + a->channels;
    for (size_t i = 0; i < x.qkv_count; i++)
        x.qkv[i] = math_float_to_bf16(number(&random));
    for (size_t i = 0; i < x.context_count; i++)
        x.dcontext[i] = math_float_to_bf16(number(&random));
    return x;
}

static void close_arrays(arrays *x)
{
    void *const memory[] = {x->qkv,  x->dcontext,    x->context,  x->logsum,
                            x->dqkv, x->got_context, x->got_dqkv, x->got_logsum};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

static double value(const uint16_t *x, size_t i)
{
    return (double)math_bf16_to_float(x[i]);
}

/* Where channel 0 is. @p which: the query of a head of the group, its key, its value. */
static size_t in_qkv(const gpt_attention *a, size_t token, size_t sample, size_t group, size_t which)
{
    return (((token * a->samples + sample) * a->groups + group) * (a->heads_per_group + 2) + which) * a->channels;
}

static size_t in_context(const gpt_attention *a, size_t token, size_t sample, size_t head)
{
    return ((token * a->samples + sample) * a->groups * a->heads_per_group + head) * a->channels;
}

static void attend_query(const gpt_attention *a, arrays *x, size_t sample, size_t head, size_t query)
{
    size_t group = head / a->heads_per_group, key_at = a->heads_per_group, value_at = key_at + 1, n = a->channels;
    size_t q = in_qkv(a, query, sample, group, head % a->heads_per_group), out = in_context(a, query, sample, head);
    double *p = need(query + 1, sizeof *p), sum = 0, scale = 1 / sqrt((double)n), dot = 0;
    for (size_t key = 0; key <= query; key++) {
        double score = 0;
        for (size_t i = 0; i < n; i++)
            score += value(x->qkv, q + i) * value(x->qkv, in_qkv(a, key, sample, group, key_at) + i);
        p[key] = exp(score * scale);
        sum += p[key];
    }
    x->logsum[(head * a->samples + sample) * a->sequence + query] = log(sum);
    for (size_t key = 0; key <= query; key++)
        for (size_t i = 0; i < n; i++)
            x->context[out + i] += p[key] / sum * value(x->qkv, in_qkv(a, key, sample, group, value_at) + i);
    for (size_t i = 0; i < n; i++)
        dot += x->context[out + i] * value(x->dcontext, out + i);
    for (size_t key = 0; key <= query; key++) {
        size_t k = in_qkv(a, key, sample, group, key_at), v = in_qkv(a, key, sample, group, value_at);
        double probability = p[key] / sum, dp = 0, ds;
        for (size_t i = 0; i < n; i++)
            dp += value(x->dcontext, out + i) * value(x->qkv, v + i);
        ds = probability * (dp - dot) * scale;
        for (size_t i = 0; i < n; i++) {
            x->dqkv[q + i] += ds * value(x->qkv, k + i);
            x->dqkv[k + i] += ds * value(x->qkv, q + i);
            x->dqkv[v + i] += probability * value(x->dcontext, out + i);
        }
    }
    free(p);
}

static void attend(const gpt_attention *a, arrays *x)
{
    for (size_t sample = 0; sample < a->samples; sample++)
        for (size_t head = 0; head < a->groups * a->heads_per_group; head++)
            for (size_t query = 0; query < a->sequence; query++)
                attend_query(a, x, sample, head, query);
}

/* ---- on the GPU ---- */

static void *on_device(gpt_device *device, const void *host, size_t bytes)
{
    void *memory = NULL;
    CHECK_INT(cudaMalloc(&memory, bytes), cudaSuccess);
    if (host)
        device->ops->bring(device, bytes, host, memory);
    else
        CHECK_INT(cudaMemset(memory, 0xff, bytes), cudaSuccess);
    return memory;
}

static void run(const gpt_attention *a, gpt_attention_kind kind, arrays *x)
{
    gpt_device *d = open_device(a, kind);
    CHECK_MSG(!strstr(d->products, "fused") == (kind == GPT_ATTENTION_BLOCKS), "%s", d->products);
    void *qkv = on_device(d, x->qkv, x->qkv_count * 2), *dcontext = on_device(d, x->dcontext, x->context_count * 2);
    void *context = on_device(d, NULL, x->context_count * 2), *dqkv = on_device(d, NULL, x->qkv_count * 2);
    float *logsum = on_device(d, NULL, x->logsum_count * 4);
    d->ops->attention(d, a, qkv, context, logsum);
    d->ops->attention_grad(d, a, qkv, context, logsum, dcontext, dqkv);
    d->ops->fetch(d, x->context_count * 2, context, x->got_context);
    d->ops->fetch(d, x->logsum_count * 4, logsum, x->got_logsum);
    d->ops->fetch(d, x->qkv_count * 2, dqkv, x->got_dqkv);
    const char *why = "";
    CHECK_MSG(d->ops->check(d, &why) == WEFT_OK, "%s", why);
    void *const memory[] = {qkv, dcontext, context, dqkv, logsum};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        CHECK_INT(cudaFree(memory[i]), cudaSuccess);
    d->ops->close(d);
    CHECK_INT(races(), 0);
}

static double square_sum(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Rows of channels, which @p kinds share in turn: queries, a key, a value. Of each kind every row is right within 1.5 %
 * of what rows of it measure, or of itself if that is more, and every element of it within four times that. bf16 has
 * steps of 1/256 at most, and up to four values are rounded on the way. */
static void check_near(const uint16_t *got, const double *want, size_t rows, size_t kinds, const char *what,
                       const gpt_attention *a)
{
    const double part = 0.015;
    size_t n = a->channels;
    for (size_t kind = 0; kind < kinds; kind++) {
        double squares = 0;
        for (size_t row = kind; row < rows; row += kinds)
            squares += square_sum(want + row * n, n);
        double usual = sqrt(squares / (double)(rows / kinds * n));
        for (size_t row = kind; row < rows; row += kinds) {
            double own = sqrt(square_sum(want + row * n, n) / (double)n), wrong = 0;
            double limit = 1e-6 + part * (usual > own ? usual : own); /* of one key alone there is no gradient */
            for (size_t i = row * n; i < (row + 1) * n; i++) {
                double difference = fabs(value(got, i) - want[i]);
                CHECK_MSG(difference <= 4 * limit,
                          "%s[%zu] of %zu tokens, %zu samples, %zu x %zu heads of %zu: %g, not %g", what, i,
                          a->sequence, a->samples, a->groups, a->heads_per_group, n, value(got, i), want[i]);
                wrong += difference * difference;
            }
            CHECK_MSG(sqrt(wrong / (double)n) <= limit,
                      "row %zu of %s of %zu tokens, %zu samples, %zu x %zu heads of %zu: "
                      "wrong by %g, which may be %g",
                      row, what, a->sequence, a->samples, a->groups, a->heads_per_group, n, sqrt(wrong / (double)n),
                      limit);
        }
    }
}

static void check(const gpt_attention *a, gpt_attention_kind kind)
{
    arrays x = open_arrays(a);
    attend(a, &x);
    run(a, kind, &x);
    check_near(x.got_context, x.context, x.context_count / a->channels, 1, "context", a);
    for (size_t i = 0; i < x.logsum_count; i++)
        CHECK_MSG(fabs((double)x.got_logsum[i] - x.logsum[i]) <= 1e-5 * (1 + fabs(x.logsum[i])), "logsum[%zu]", i);
    check_near(x.got_dqkv, x.dqkv, x.qkv_count / a->channels, a->heads_per_group + 2, "dqkv", a);
    close_arrays(&x);
}

/* sequence, samples, groups, heads of each, channels: ends of tiles, of blocks and of stages, and one beside them */
static const gpt_attention shapes[] = {
    {1, 1, 1, 1, 64},   {1, 2, 2, 2, 128},  {17, 1, 1, 4, 64},  {17, 2, 1, 1, 128},  {64, 1, 1, 4, 128},
    {100, 2, 2, 1, 64}, {128, 1, 1, 2, 64}, {257, 1, 1, 4, 64}, {257, 1, 1, 2, 128},
};

TEST(fused_it_is_that_of_plain_loops)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i], GPT_ATTENTION_AUTO);
}

TEST(by_blocks_of_queries_it_is_that_of_plain_loops)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i], GPT_ATTENTION_BLOCKS);
}

TEST(heads_of_other_sizes_go_by_blocks)
{
    const gpt_attention a = {33, 1, 1, 2, 32};
    gpt_device *d = open_device(&a, GPT_ATTENTION_AUTO);
    CHECK_MSG(strstr(d->products, "attention by blocks of queries"), "%s", d->products);
    d->ops->close(d);
}

TEST(fused_it_gives_the_same_bits_again)
{
    const gpt_attention a = {100, 1, 1, 2, 64};
    arrays first = open_arrays(&a), second = open_arrays(&a);
    run(&a, GPT_ATTENTION_AUTO, &first);
    run(&a, GPT_ATTENTION_AUTO, &second);
    CHECK(memcmp(first.got_context, second.got_context, first.context_count * 2) == 0);
    CHECK(memcmp(first.got_dqkv, second.got_dqkv, first.qkv_count * 2) == 0);
    close_arrays(&first);
    close_arrays(&second);
}

TEST(more_shared_memory_is_asked_for_once)
{
    int (*asked)(void);
    *(void **)&asked = dlsym(RTLD_DEFAULT, "standin_shared_asked");
    if (!asked)
        test_skip("this is CUDA's own library");
    const gpt_attention a = {128, 1, 1, 1, 128};
    arrays x = open_arrays(&a);
    run(&a, GPT_ATTENTION_AUTO, &x);
    int before = asked();
    CHECK(before > 0);
    run(&a, GPT_ATTENTION_AUTO, &x);
    CHECK_INT(asked(), before);
    close_arrays(&x);
}
