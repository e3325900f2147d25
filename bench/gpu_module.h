/* SPDX-License-Identifier: Apache-2.0 */
/* The module of `weft gpt` for GPUs: who trains opens it, and `weft info` tells of it. */
#ifndef WEFT_BENCH_GPU_MODULE_H
#define WEFT_BENCH_GPU_MODULE_H

typedef struct gpu_module {
    char path[4200];   /* of the last that was found; "": of none */
    char why_not[256]; /* if it was not loaded */
} gpu_module;

/* Load it: its entry, a gpt_cuda_module_function; NULL: @p m says why not. */
void *gpu_module_find(gpu_module *m);

#endif
