/* SPDX-License-Identifier: Apache-2.0 */
/* What operations of a GPT are timed on: a GPU, a shape, and memory enough for any of them, full of numbers. */
#ifndef WEFT_BENCH_GPU_BED_H
#define WEFT_BENCH_GPU_BED_H
#include <weft/world.h>

#include "gpt/ops.h"

typedef struct gpu_bed {
    weft_world *world;
    gpt_shape shape;
    gpt_device *device;
    gpt_attention attention;
    gpt_vocabulary vocabulary;
    void *a, *b, *c; /* activations: [tokens][the widest], c: [tokens][hidden or ffn], of the parameters' type */
    void *weight;    /* the largest */
    float *grad;     /* of it */
    float *floats;   /* statistics of rows and heads */
    int32_t *tokens;
    double *total;
} gpu_bed;

int gpu_bed_open(gpu_bed *bed, gpt_failure *failure);
void gpu_bed_close(gpu_bed *bed);
/* Wait for all that was queued; how the first operation that failed did. */
int gpu_bed_await(gpu_bed *bed, gpt_failure *failure);

/* One operation of a microbatch. */
typedef struct gpu_operation {
    const char *name;
    void (*run)(gpu_bed *bed, size_t in, size_t out); /* sizes of products */
    size_t in, out;
    size_t times;        /* a microbatch */
    double flops, bytes; /* one of them: products count, or what is read and written */
    bool backward;       /* of a layer */
} gpu_operation;

enum { GPU_OPERATIONS = 40 };
/* Those of the shape; answers how many. */
size_t gpu_operations(const gpt_shape *shape, gpu_operation operations[GPU_OPERATIONS]);

#endif
