/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters in bf16 are widened exactly and computed with in fp32, but for linear layers where bf16 is multiplied as
 * such; what stages send each other is rounded. */
#include <stdlib.h>

#include "fixture.h"
#include "gpt/host/product.h"
#include "gpt/math/bf16.h"
#include "harness/test.h"

static gpt_shape shape_of(weft_dtype dtype, size_t pipeline)
{
    gpt_shape shape = fixture_shape();
    gpt_failure failure;
    shape.dtype = dtype;
    shape.pipeline = pipeline;
    shape.tied = pipeline == 1;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    return shape;
}

static double run(fixture *f)
{
    double loss = 0;
    fixture_batch(f, 0);
    CHECK_OK(gpt_chunk_forward(&f->chunks[0], 0, NULL, NULL, f->tokens, f->targets, &loss));
    CHECK_OK(gpt_chunk_backward(&f->chunks[0], 0, NULL, NULL, 1 / (float)f->shape.tokens));
    return loss;
}

TEST(bf16_parameters_give_the_bits_of_fp32_ones_with_their_values)
{
    fixture narrow, wide;
    fixture_open_with(&narrow, shape_of(WEFT_BF16, 1), false, NULL, 0, 1);
    fixture_open(&wide, shape_of(WEFT_FP32, 1), NULL, 0, 1);
    for (size_t i = 0; i < wide.param_elements; i++)
        ((float *)wide.values)[i] = math_bf16_to_float(((uint16_t *)narrow.values)[i]);
    CHECK_NEAR(run(&narrow), run(&wide), 0);
    CHECK(memcmp(narrow.grads, wide.grads, wide.param_elements * sizeof(float)) == 0);
    fixture_close(&narrow);
    fixture_close(&wide);
}

/* Rounding is off by 2^-9 of a number at most; what comes of many of them is not more than some times that. */
TEST(bf16_products_move_loss_and_gradients_little)
{
    fixture widened, multiplied;
    if (!gpt_product_library())
        test_skip("nothing multiplies bf16 here");
    fixture_open_with(&widened, shape_of(WEFT_BF16, 1), false, NULL, 0, 1);
    fixture_open_with(&multiplied, shape_of(WEFT_BF16, 1), true, NULL, 0, 1);
    double want = run(&widened), got = run(&multiplied);
    double *exact = malloc(widened.param_elements * sizeof *exact);
    for (size_t i = 0; i < widened.param_elements; i++)
        exact[i] = (double)widened.grads[i];
    double distance = relative_distance(multiplied.grads, exact, widened.param_elements);
    test_note("loss %.6f, widened %.6f; gradients %.2g apart", got, want, distance);
    CHECK_NEAR(got / want, 1, 0x1p-8);
    CHECK(distance > 0 && distance < 8 * 0x1p-9);
    free(exact);
    fixture_close(&widened);
    fixture_close(&multiplied);
}

TEST(stages_send_each_other_bf16)
{
    fixture first, second;
    gpt_shape shape = shape_of(WEFT_BF16, 2);
    size_t count = shape.rows * shape.hidden;
    uint16_t *sent = malloc((count + 1) * sizeof *sent), *back = malloc((count + 1) * sizeof *back);
    double loss = 0;
    fixture_open(&first, shape, NULL, 0, 1);
    fixture_open(&second, shape, NULL, 1, 1);
    fixture_batch(&first, 0);
    sent[count] = back[count] = 0x1234;
    CHECK_OK(gpt_chunk_forward(&first.chunks[0], 0, NULL, sent, first.tokens, NULL, NULL));
    CHECK_OK(gpt_chunk_forward(&second.chunks[0], 0, sent, NULL, NULL, first.targets, &loss));
    const float *start = second.chunks[0].slots[0].layers[0].start;
    for (size_t i = 0; i < count; i++)
        CHECK_NEAR(start[i], math_bf16_to_float(sent[i]), 0);
    CHECK_OK(gpt_chunk_backward(&second.chunks[0], 0, NULL, back, 1 / (float)shape.tokens));
    for (size_t i = 0; i < count; i++)
        CHECK_INT(back[i], math_float_to_bf16(((float *)second.model.grad)[i]));
    CHECK_OK(gpt_chunk_backward(&first.chunks[0], 0, back, NULL, 0));
    CHECK(sent[count] == 0x1234 && back[count] == 0x1234);
    CHECK(loss > 0);
    free(sent);
    free(back);
    fixture_close(&first);
    fixture_close(&second);
}
