/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, column by column, with sums in fp32. */
#include <cublas_v2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "standin.h"

#define API STANDIN_API

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};

/* One operand: element (i, j) of matrix number b is at b * stride + j * ld + i. */
typedef struct matrix {
    char *memory;
    cudaDataType type;
    bool transposed;
    size_t rows, columns, ld, stride; /* as stored */
} matrix;

typedef struct product {
    matrix a, b, c;
    size_t m, n, k, batches;
    float alpha, beta;
} product;

static size_t type_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

static float load(const matrix *x, size_t at)
{
    if (x->type == CUDA_R_32F)
        return ((const float *)(void *)x->memory)[at];
    uint16_t bits = ((const uint16_t *)(void *)x->memory)[at];
    return x->type == CUDA_R_16F ? standin_from_half(bits) : standin_from_bf16(bits);
}

static void store(const matrix *x, size_t at, float value)
{
    if (x->type == CUDA_R_32F) {
        ((float *)(void *)x->memory)[at] = value;
        return;
    }
    ((uint16_t *)(void *)x->memory)[at] = x->type == CUDA_R_16F ? standin_to_half(value) : standin_to_bf16(value);
}

/* op(x), widened: rows by columns, row after row. */
static float *unpack(const matrix *x, size_t batch, size_t rows, size_t columns)
{
    float *all = malloc((rows * columns + 1) * sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            all[i * columns + j] = load(x, batch * x->stride + (x->transposed ? i * x->ld + j : j * x->ld + i));
    return all;
}

static void multiply(const product *p, size_t batch)
{
    float *a = unpack(&p->a, batch, p->m, p->k), *b = unpack(&p->b, batch, p->k, p->n);
    float *row = malloc((p->n + 1) * sizeof *row);
    if (!row)
        abort();
    for (size_t i = 0; i < p->m; i++) {
        memset(row, 0, p->n * sizeof *row);
        for (size_t l = 0; l < p->k; l++)
            for (size_t j = 0; j < p->n; j++)
                row[j] += a[i * p->k + l] * b[l * p->n + j];
        for (size_t j = 0; j < p->n; j++) {
            size_t at = batch * p->c.stride + j * p->c.ld + i;
            store(&p->c, at, p->alpha * row[j] + (p->beta != 0 ? p->beta * load(&p->c, at) : 0));
        }
    }
    free(a);
    free(b);
    free(row);
}

static bool run(void *state)
{
    const product *p = state;
    for (size_t batch = 0; batch < p->batches; batch++)
        multiply(p, batch);
    return true;
}

/* From the first element to the last: what lies between the columns counts too. */
static standin_range range_of(const matrix *x, size_t batches, bool writes)
{
    size_t elements = (batches - 1) * x->stride + (x->columns - 1) * x->ld + x->rows;
    return (standin_range){x->memory, elements * type_bytes(x->type), writes};
}

static cublasStatus_t queue(cublasHandle_t handle, const product *what)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!type_bytes(what->a.type) || what->a.type != what->b.type || !type_bytes(what->c.type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (what->a.ld < what->a.rows || what->b.ld < what->b.rows || what->c.ld < what->c.rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!what->m || !what->n || !what->batches)
        return CUBLAS_STATUS_SUCCESS;
    product *p = malloc(sizeof *p);
    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = *what;
    standin_range ranges[4] = {range_of(&p->c, p->batches, true)};
    size_t count = 1;
    if (p->k) {
        ranges[count++] = range_of(&p->a, p->batches, false);
        ranges[count++] = range_of(&p->b, p->batches, false);
    }
    if (handle->workspace) /* two streams must not share one */
        ranges[count++] = (standin_range){handle->workspace, handle->workspace_bytes, true};
    if (standin_queue(handle->stream, &(standin_task){"product", ranges, count, run, free, p}) == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    free(p);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}

static matrix matrix_of(const void *memory, cudaDataType type, cublasOperation_t operation, int rows, int columns,
                        int ld, long long stride)
{
    bool transposed = operation != CUBLAS_OP_N;
    return (matrix){.memory = (char *)memory,
                    .type = type,
                    .transposed = transposed,
                    .rows = (size_t)(transposed ? columns : rows),
                    .columns = (size_t)(transposed ? rows : columns),
                    .ld = (size_t)ld,
                    .stride = (size_t)stride};
}

/* ---- calls ---- */

API cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    int device;
    *handle = cudaGetDevice(&device) == cudaSuccess ? calloc(1, sizeof **handle) : NULL;
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

API cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version)
{
    *version = handle ? 130000 : 0;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

API cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = NULL; /* as cuBLAS goes back to its own */
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)mode;
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

API const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}

API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                              int m, int n, int k, const void *alpha, const void *a,
                                              cudaDataType a_type, int lda, long long a_stride, const void *b,
                                              cudaDataType b_type, int ldb, long long b_stride, const void *beta,
                                              void *c, cudaDataType c_type, int ldc, long long c_stride, int batches,
                                              cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)algorithm;
    if (m < 0 || n < 0 || k < 0 || batches < 0 || lda < 1 || ldb < 1 || ldc < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const product p = {.a = matrix_of(a, a_type, transa, m, k, lda, a_stride),
                       .b = matrix_of(b, b_type, transb, k, n, ldb, b_stride),
                       .c = matrix_of(c, c_type, CUBLAS_OP_N, m, n, ldc, c_stride),
                       .m = (size_t)m,
                       .n = (size_t)n,
                       .k = (size_t)k,
                       .batches = (size_t)batches,
                       .alpha = *(const float *)alpha,
                       .beta = *(const float *)beta};
    return queue(handle, &p);
}

API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                                int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                                cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                                cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                                      beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
