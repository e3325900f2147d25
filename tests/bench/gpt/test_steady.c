/* SPDX-License-Identifier: Apache-2.0 */
/* Steps allocate nothing once the first has been made. */
#include "fixture.h"
#include "harness/steady.h"
#include "harness/test.h"

TEST(steady_steps_allocate_nothing)
{
    fixture f;
    gpt_failure failure;
    gpt_shape shape = fixture_shape();
    double loss = 0;
    shape.dtype = WEFT_BF16;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(&f, shape, NULL, 0, 1);
    CHECK(steady_allocations() > 0); /* the counting works */
    long before = 0;
    fixture_batch(&f, 0);
    for (int step = 0; step < 101; step++) {
        if (step == 1)
            before = steady_allocations();
        CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
        CHECK_OK(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1));
    }
    CHECK_INT(steady_allocations() - before, 0);
    fixture_close(&f);
}
