/* SPDX-License-Identifier: Apache-2.0 */
/* A few hundred steps on a text: the loss falls to where a model of its kind belongs. */
#include <stdlib.h>

#include "fixture.h"
#include "gpt/data.h"
#include "harness/test.h"

/* AdamW, as plainly as it can be written. */
static void adamw(fixture *f, float *m, float *v, int step, float rate)
{
    float *values = f->values, correction1 = 1 - powf(0.9f, (float)step), correction2 = 1 - powf(0.99f, (float)step);
    for (size_t i = 0; i < f->param_elements; i++) {
        m[i] = 0.9f * m[i] + 0.1f * f->grads[i];
        v[i] = 0.99f * v[i] + 0.01f * f->grads[i] * f->grads[i];
        values[i] -= rate * (m[i] / correction1 / (sqrtf(v[i] / correction2) + 1e-8f) + 0.01f * values[i]);
    }
}

static double train(fixture *f, const gpt_data *data, int steps, double *first)
{
    enum { MICROBATCHES = 2 };
    float *m = calloc(f->param_elements, sizeof *m), *v = calloc(f->param_elements, sizeof *v);
    double last = 0;
    for (int step = 0; step < steps; step++) {
        double loss = 0;
        fixture_clear_grads(f);
        for (size_t k = 0; k < MICROBATCHES; k++) {
            for (size_t i = 0; i < f->shape.micro_batch; i++) {
                size_t number = ((size_t)step * MICROBATCHES + k) * f->shape.micro_batch + i;
                gpt_data_sample(data, gpt_data_position(data, number), i, f->shape.micro_batch, f->tokens, f->targets);
            }
            CHECK_OK(gpt_chunk_forward(&f->chunks[0], 0, NULL, NULL, f->tokens, f->targets, &loss));
            CHECK_OK(gpt_chunk_backward(&f->chunks[0], 0, NULL, NULL, 1 / (float)(MICROBATCHES * f->shape.tokens)));
        }
        adamw(f, m, v, step + 1, 6e-3f);
        loss /= (double)(MICROBATCHES * f->shape.tokens);
        *first = step == 0 ? loss : *first;
        last += step >= steps - 10 ? loss / 10 : 0;
    }
    free(m);
    free(v);
    return last;
}

TEST_LIMIT(a_small_model_learns_a_made_up_text, 300)
{
    fixture f;
    gpt_data data;
    gpt_failure failure;
    gpt_shape shape = {.layers = 2,
                       .hidden = 32,
                       .ffn = 64,
                       .heads = 4,
                       .groups = 2,
                       .channels = 8,
                       .sequence = 32,
                       .vocabulary = 256,
                       .vocabulary_multiple = 128,
                       .micro_batch = 8,
                       .norm_epsilon = 1e-5f,
                       .rotary_base = 10000,
                       .init_deviation = 0.02f,
                       .tied = true,
                       .tensor = 1,
                       .pipeline = 1,
                       .virtual_stages = 1};
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(&f, shape, NULL, 0, 1);
    const gpt_data_config config = {
        .mock_bytes = 100000, .seed = 1, .held_out = 0.05, .sequence = shape.sequence, .vocabulary = shape.vocabulary};
    CHECK(gpt_data_open(&data, &config, &failure) == 0);
    double first = 0, last = train(&f, &data, 400, &first);
    test_note("loss %.3f to %.3f nats a byte", first, last);
    /* It begins with no idea: ln 256. A word of 64 and its length are log(64) nats by chance for 4.5 letters and a
     * space, 0.76 a byte; with letters alone, unaware of words, it would stay at about 2.9. */
    CHECK_NEAR(first, 5.545, 0.1);
    CHECK(last < 1.3);
    gpt_data_close(&data);
    fixture_close(&f);
}
