/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's part of a small GPT with plain memory behind it, for tests. */
#ifndef WEFT_TESTS_BENCH_GPT_FIXTURE_H
#define WEFT_TESTS_BENCH_GPT_FIXTURE_H
#include "gpt/model.h"

enum { FIXTURE_CHUNKS = 4 };

typedef struct fixture {
    gpt_shape shape;
    gpt_device *device;
    gpt_model model;
    gpt_chunk chunks[FIXTURE_CHUNKS];
    int chunk_count;
    void *memory, *values;
    float *grads;
    size_t param_elements;
    int32_t *tokens, *targets;
} fixture;

/* Two layers, four heads in two groups, head width and hidden size unlike: complete it before use. */
gpt_shape fixture_shape(void);
/* All chunks of the pipeline stage @p stage, with weights from the generator and norms around 1. */
void fixture_open(fixture *f, gpt_shape shape, weft_comm *comm, size_t stage, size_t slots);
/* @p bf16: parameters of that type are multiplied as such, if this machine can. */
void fixture_open_with(fixture *f, gpt_shape shape, bool bf16, weft_comm *comm, size_t stage, size_t slots);
void fixture_close(fixture *f);
void fixture_clear_grads(fixture *f);
/* Tokens and targets of microbatch @p number, by a formula. */
void fixture_batch(fixture *f, int number);
/* The parameter of that name among all chunks; NULL if it is not here. */
gpt_param *fixture_find(fixture *f, const char *name);

/* The norm of a - b over the norm of b. */
double relative_distance(const float *a, const double *b, size_t count);

#endif
