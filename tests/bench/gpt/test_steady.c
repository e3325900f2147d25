/* SPDX-License-Identifier: Apache-2.0 */
/* Steps allocate nothing once the first has been made. The linker leads this program's allocations through here. */
#include <stdlib.h>

#include "fixture.h"
#include "harness/test.h"

static long allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t boundary, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t boundary, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    allocations++;
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t boundary, size_t bytes)
{
    allocations++;
    return __real_aligned_alloc(boundary, bytes);
}

TEST(steady_steps_allocate_nothing)
{
    fixture f;
    gpt_failure failure;
    gpt_shape shape = fixture_shape();
    double loss = 0;
    shape.dtype = WEFT_BF16;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(&f, shape, NULL, 0, 1);
    CHECK(allocations > 0); /* the counting works */
    fixture_batch(&f, 0);
    for (int step = 0; step < 101; step++) {
        if (step == 1)
            allocations = 0;
        CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
        CHECK_OK(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1));
    }
    CHECK_INT(allocations, 0);
    fixture_close(&f);
}
