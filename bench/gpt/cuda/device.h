/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a device of the GPT: what its operations need besides their arguments. */
#ifndef WEFT_BENCH_GPT_CUDA_DEVICE_H
#define WEFT_BENCH_GPT_CUDA_DEVICE_H
#include <cublas_v2.h>

#include "gpt/cuda/kernels.h"
#include "gpt/ops.h"

/* Queries that the attention by blocks takes at once: memory for scores grows with the sequence, not with its square.
 */
enum { GPT_CUDA_QUERY_BLOCK = 512 };

typedef struct gpt_cuda {
    gpt_device device;  /* first, so that a pointer to it is one to this */
    weft_result result; /* of the first call that failed, */
    char text[256];     /* and why */
    cublasHandle_t cublas;
    cudaStream_t stream;
    void *workspace;
    int fused; /* the attention */
    float norm_epsilon;
    float *cosines, *sines; /* [sequence][channels / 2] */
    float *norm_parts;      /* [GPT_CUDA_NORM_PARTS][hidden] */
    float *dots;            /* of the attention: fused, [heads][samples][sequence]; else [heads of a group][block] */
    /* Only of the attention by blocks: */
    float *scores;                 /* [heads of a group][block][sequence] */
    void *probabilities, *dscores; /* the same, of the parameters' type */
    float *dkey, *dvalue;          /* of one group: [sequence][channels] */
} gpt_cuda;

static inline gpt_cuda *gpt_cuda_of(gpt_device *device)
{
    return (gpt_cuda *)device;
}

/* Keep how the first call that failed did. */
void gpt_cuda_note(gpt_cuda *cuda, const char *what, weft_result result);

/* A matrix in rows, @p ld elements apart; as one of a batch it lies @p stride elements behind the one before. */
typedef struct gpt_cuda_matrix {
    const void *memory;
    weft_dtype dtype;
    size_t ld, stride;
    int transposed;
} gpt_cuda_matrix;

/* C[m][n] = alpha A[m][k] B[k][n] + beta C, for each of a batch. */
void gpt_cuda_multiply(gpt_cuda *cuda, size_t m, size_t n, size_t k, float alpha, gpt_cuda_matrix a, gpt_cuda_matrix b,
                       float beta, gpt_cuda_matrix c, size_t batch);

/* The attention by blocks of queries, a file of its own. */
void gpt_cuda_attention_blocks(gpt_cuda *cuda, const gpt_attention *a, const void *qkv, void *context, float *logsum);
void gpt_cuda_attention_blocks_grad(gpt_cuda *cuda, const gpt_attention *a, const void *qkv, const void *context,
                                    const float *logsum, const void *dcontext, void *dqkv);

#endif
