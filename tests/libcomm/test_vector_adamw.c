/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW against its definition in double, and against the same steps in fp32, each rounded by itself. */
#include "test_vector.h"

enum { OFFSETS = 64, LENGTHS = 130, MOST = 3000, GUARD = 64 };

typedef struct state {
    float master[MOST], m[MOST], v[MOST], grad[MOST];
} state;

/* What a rank holds after @p steps steps, more or less. */
static weft__adamw step_number(int step)
{
    weft__adamw s = {.lr = 3e-4f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f};
    s.correction1 = (float)(1 - pow(0.9, step));
    s.correction2 = (float)(1 - pow(0.999, step));
    s.grad_scale = 0.37f;
    return s;
}

static void random_state(state *s, uint64_t seed)
{
    random_finite(s->master, MOST, WEFT_FP32, 4, seed);
    random_finite(s->m, MOST, WEFT_FP32, 10, seed + 1);
    random_finite(s->v, MOST, WEFT_FP32, 20, seed + 2);
    random_finite(s->grad, MOST, WEFT_FP32, 12, seed + 3);
    for (int i = 0; i < MOST; i++) {
        s->v[i] = i % 11 ? fabsf(s->v[i]) : 0;
        if (i % 11 == 0)
            s->m[i] = 0;
        if (i % 22 == 0)
            s->grad[i] = 0;
    }
}

/* Algorithm 2 of the paper with the corrections of Adam, literally. */
static double stepped_in_double(const weft__adamw *a, const state *s, int i, double *m_out, double *v_out)
{
    double g = (double)s->grad[i] * (double)a->grad_scale;
    double m = (double)a->beta1 * (double)s->m[i] + (1 - (double)a->beta1) * g;
    double v = (double)a->beta2 * (double)s->v[i] + (1 - (double)a->beta2) * g * g;
    double m_hat = m / (double)a->correction1, v_hat = v / (double)a->correction2;
    double step = m_hat / (sqrt(v_hat) + (double)a->epsilon) + (double)a->weight_decay * (double)s->master[i];
    *m_out = m;
    *v_out = v;
    return (double)s->master[i] - (double)a->lr * step;
}

TEST(a_step_is_that_of_the_definition)
{
    static state s, got;
    const weft__vector *vector;
    for (int n = 0; (vector = weft__vector_host_at(n)); n++)
        for (int step = 1; step < 5000; step = 7 * step + 1) {
            weft__adamw a = step_number(step);
            random_state(&s, (uint64_t)step);
            got = s;
            vector->adamw(&a, MOST, got.master, got.m, got.v, got.grad, NULL, WEFT_FP32);
            for (int i = 0; i < MOST; i++) {
                double m, v, want = stepped_in_double(&a, &s, i, &m, &v), before = (double)s.master[i];
                double rounding = fabs(before) * 0x1p-24 + fabs(want - before) * 0x1p-20;
                double m_size = fabs((double)s.m[i]) + fabs((double)s.grad[i]);
                CHECK_NEAR(got.m[i], m, m_size * 0x1p-22);
                CHECK_NEAR(got.v[i], v, v * 0x1p-21);
                /* m may cancel: then its error counts, not the step's. */
                rounding +=
                    (double)a.lr * m_size * 0x1p-21 / (double)a.correction1 / (sqrt(v / (double)a.correction2) + 1e-8);
                CHECK_NEAR(got.master[i], want, rounding);
            }
        }
}

static float product(float a, float b)
{
    return (float)((double)a * (double)b);
}

static float sum(float a, float b)
{
    return (float)((double)a + (double)b);
}

/* The formula as it is written, in fp32; two floats are added, multiplied, divided, and rooted exactly enough in double
 * for one rounding to be right. */
static void step_in_fp32(const weft__adamw *a, state *s, int i)
{
    float rest1 = (float)(1 - (double)a->beta1), rest2 = (float)(1 - (double)a->beta2);
    float rate = (float)((double)a->lr / (double)a->correction1), spread = (float)(1 / sqrt((double)a->correction2));
    float decay = (float)((double)a->lr * (double)a->weight_decay), g = product(s->grad[i], a->grad_scale);
    s->m[i] = sum(product(a->beta1, s->m[i]), product(rest1, g));
    s->v[i] = sum(product(a->beta2, s->v[i]), product(rest2, product(g, g)));
    float size = sum(product((float)sqrt((double)s->v[i]), spread), a->epsilon);
    float move = product(rate, (float)((double)s->m[i] / (double)size));
    s->master[i] = sum(s->master[i], -sum(product(decay, s->master[i]), move));
}

TEST(a_step_has_the_same_bits_everywhere)
{
    static state s, want;
    static float arrays[4][GUARD + OFFSETS + LENGTHS + GUARD];
    const weft__vector *vector;
    weft__adamw a = step_number(10);
    random_state(&s, 1);
    want = s;
    for (int i = 0; i < MOST; i++)
        step_in_fp32(&a, &want, i);
    const float *before[] = {s.master, s.m, s.v, s.grad}, *after[] = {want.master, want.m, want.v, want.grad};
    for (int n = 0; (vector = weft__vector_host_at(n)); n++)
        for (size_t offset = 0; offset < OFFSETS; offset++)
            for (size_t count = 1; count <= LENGTHS; count++) {
                size_t begin = (7 * offset + 3 * count) % OFFSETS;
                float *at[4];
                for (int k = 0; k < 4; k++) {
                    memset(arrays[k], 0xa5, sizeof arrays[k]);
                    at[k] = arrays[k] + GUARD + (offset * (size_t)(k + 1)) % OFFSETS;
                    memcpy(at[k], before[k] + begin, count * sizeof(float));
                }
                vector->adamw(&a, count, at[0], at[1], at[2], at[3], NULL, WEFT_FP32);
                for (int k = 0; k < 4; k++) {
                    CHECK_MSG(memcmp(at[k], after[k] + begin, count * sizeof(float)) == 0,
                              "%s: array %d differs, %zu elements at offset %zu", vector->name, k, count, offset);
                    CHECK(bits_at(at[k], (size_t)-1, WEFT_FP32) == 0xa5a5a5a5);
                    CHECK(bits_at(at[k], count, WEFT_FP32) == 0xa5a5a5a5);
                }
            }
}

TEST(the_parameter_is_the_rounded_master)
{
    static state s, got;
    static uint64_t params[MOST + 1];
    const weft__vector *vector;
    weft__adamw a = step_number(3);
    random_state(&s, 2);
    for (int n = 0; (vector = weft__vector_host_at(n)); n++)
        for (int t = 0; t < COUNT_OF(floating_types); t++) {
            weft_dtype dtype = floating_types[t];
            got = s;
            memset(params, 0xa5, sizeof params);
            vector->adamw(&a, MOST, got.master, got.m, got.v, got.grad, params, dtype);
            for (size_t i = 0; i < MOST; i++)
                CHECK_MSG(bits_at(params, i, dtype) == bits_of_value((double)got.master[i], format_of(dtype)),
                          "%s: %s parameter %zu is not its master", vector->name, weft_dtype_string(dtype), i);
            CHECK(((unsigned char *)params)[MOST * weft_dtype_bytes(dtype)] == 0xa5);
        }
}

TEST(fp32_parameters_may_be_their_own_masters)
{
    static state s, apart;
    const weft__vector *vector;
    weft__adamw a = step_number(3);
    for (int n = 0; (vector = weft__vector_host_at(n)); n++) {
        random_state(&s, 3);
        apart = s;
        vector->adamw(&a, MOST, s.master, s.m, s.v, s.grad, s.master, WEFT_FP32);
        vector->adamw(&a, MOST, apart.master, apart.m, apart.v, apart.grad, NULL, WEFT_FP32);
        CHECK(memcmp(&s, &apart, sizeof s) == 0);
    }
}
