/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a GPT on a GPU: products by cuBLAS, everything else by the kernels. */
#include "gpt/cuda/device.h"
#include "gpt/cuda/module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

#include "complain.h"

enum { WORKSPACE_BYTES = 32 << 20 };

void gpt_cuda_note(gpt_cuda *cuda, const char *what, weft_result result)
{
    if (result == WEFT_OK || cuda->result != WEFT_OK)
        return;
    cuda->result = result;
    snprintf(cuda->text, sizeof cuda->text, "on the GPU: %s: %.150s", what, weft_last_error());
}

static void note_cuda(gpt_cuda *cuda, const char *what, cudaError_t error)
{
    if (error == cudaSuccess || cuda->result != WEFT_OK)
        return;
    cuda->result = WEFT_E_SYSTEM;
    snprintf(cuda->text, sizeof cuda->text, "on the GPU: %s: %s", what, cudaGetErrorString(error));
}

/* ---- products ---- */

static cudaDataType type_of(weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cuBLAS has columns where rows are here: it makes the transpose, B' A'. */
void gpt_cuda_multiply(gpt_cuda *cuda, size_t m, size_t n, size_t k, float alpha, gpt_cuda_matrix a, gpt_cuda_matrix b,
                       float beta, gpt_cuda_matrix c, size_t batch)
{
    cublasStatus_t status = cublasGemmStridedBatchedEx(
        cuda->cublas, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n,
        (int)m, (int)k, &alpha, b.memory, type_of(b.dtype), (int)b.ld, (long long)b.stride, a.memory, type_of(a.dtype),
        (int)a.ld, (long long)a.stride, &beta, (void *)(uintptr_t)c.memory, type_of(c.dtype), (int)c.ld,
        (long long)c.stride, (int)batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS || cuda->result != WEFT_OK)
        return;
    cuda->result = WEFT_E_SYSTEM;
    snprintf(cuda->text, sizeof cuda->text, "on the GPU: a product of %zu x %zu x %zu: %s", m, n, k,
             cublasGetStatusString(status));
}

static gpt_cuda_matrix matrix(const gpt_device *device, const void *memory, size_t ld, int transposed)
{
    return (gpt_cuda_matrix){memory, device->parameter, ld, 0, transposed};
}

static void linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y)
{
    gpt_cuda_multiply(gpt_cuda_of(device), rows, out, in, 1, matrix(device, x, in, 0), matrix(device, w, in, 1), 0,
                      matrix(device, y, out, 0), 1);
}

static void linear_input_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *w,
                              void *dx)
{
    gpt_cuda_multiply(gpt_cuda_of(device), rows, in, out, 1, matrix(device, dy, out, 0), matrix(device, w, in, 0), 0,
                      matrix(device, dx, in, 0), 1);
}

static void linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                               float *dw)
{
    gpt_cuda_multiply(gpt_cuda_of(device), out, in, rows, 1, matrix(device, dy, out, 1), matrix(device, x, in, 0), 1,
                      (gpt_cuda_matrix){dw, WEFT_FP32, in, 0, 0}, 1);
}

/* ---- everything else ---- */

static void norm(gpt_device *device, size_t rows, size_t width, const void *x, const void *w, void *y, float *scale)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    gpt_cuda_note(cuda, "norm",
                  gpt_cuda_norm(device->parameter, rows, width, cuda->norm_epsilon, x, w, y, scale, device->stream));
}

static void norm_grad(gpt_device *device, size_t rows, size_t width, const void *dy, const void *x, const void *w,
                      const float *scale, void *dx, float *dw)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    gpt_cuda_note(
        cuda, "gradient of a norm",
        gpt_cuda_norm_grad(device->parameter, rows, width, dy, x, w, scale, dx, dw, cuda->norm_parts, device->stream));
}

static void rotate(gpt_device *device, const gpt_attention *a, void *qkv)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    gpt_cuda_note(cuda, "rotation",
                  gpt_cuda_rotate(device->parameter, a, cuda->cosines, cuda->sines, 0, qkv, device->stream));
}

static void rotate_back(gpt_device *device, const gpt_attention *a, void *dqkv)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    gpt_cuda_note(cuda, "rotation back",
                  gpt_cuda_rotate(device->parameter, a, cuda->cosines, cuda->sines, 1, dqkv, device->stream));
}

static void attention(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (cuda->fused)
        gpt_cuda_note(cuda, "attention", gpt_cuda_fused_attention(a, qkv, context, logsum, device->stream));
    else
        gpt_cuda_attention_blocks(cuda, a, qkv, context, logsum);
}

static void attention_grad(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                           const float *logsum, const void *dcontext, void *dqkv)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (cuda->fused)
        gpt_cuda_note(
            cuda, "gradient of the attention",
            gpt_cuda_fused_attention_grad(a, qkv, context, logsum, dcontext, cuda->dots, dqkv, device->stream));
    else
        gpt_cuda_attention_blocks_grad(cuda, a, qkv, context, logsum, dcontext, dqkv);
}

static void swiglu(gpt_device *device, size_t rows, size_t width, const void *gate_up, void *y)
{
    gpt_cuda_note(gpt_cuda_of(device), "SwiGLU",
                  gpt_cuda_swiglu(device->parameter, rows, width, gate_up, y, device->stream));
}

static void swiglu_grad(gpt_device *device, size_t rows, size_t width, const void *gate_up, const void *dy,
                        void *dgate_up)
{
    gpt_cuda_note(gpt_cuda_of(device), "gradient of SwiGLU",
                  gpt_cuda_swiglu_grad(device->parameter, rows, width, gate_up, dy, dgate_up, device->stream));
}

static void embed(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                  const void *table, void *y)
{
    gpt_cuda_note(gpt_cuda_of(device), "embedding",
                  gpt_cuda_embed(device->parameter, v, count, width, tokens, table, y, device->stream));
}

static void embed_grad(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                       const void *dy, float *dtable)
{
    gpt_cuda_note(gpt_cuda_of(device), "gradient of the embedding",
                  gpt_cuda_embed_grad(device->parameter, v, count, width, tokens, dy, dtable, device->stream));
}

static void entropy_largest(gpt_device *device, const gpt_vocabulary *v, size_t rows, const void *logits,
                            float *largest)
{
    gpt_cuda_note(gpt_cuda_of(device), "largest logits",
                  gpt_cuda_entropy_largest(device->parameter, v, rows, logits, largest, device->stream));
}

static void entropy_exponentials(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *logits,
                                 const int32_t *targets, const float *largest, float *sums)
{
    gpt_cuda_note(
        gpt_cuda_of(device), "exponentials",
        gpt_cuda_entropy_exponentials(device->parameter, v, rows, logits, targets, largest, sums, device->stream));
}

static void entropy_loss(gpt_device *device, size_t rows, const float *sums, double *total)
{
    gpt_cuda_note(gpt_cuda_of(device), "loss", gpt_cuda_entropy_loss(rows, sums, total, device->stream));
}

static void entropy_grad(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *exponentials,
                         const int32_t *targets, const float *sums, float factor)
{
    gpt_cuda_note(
        gpt_cuda_of(device), "gradient of the loss",
        gpt_cuda_entropy_grad(device->parameter, v, rows, exponentials, targets, sums, factor, device->stream));
}

static void clear(gpt_device *device, size_t bytes, void *memory)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (bytes)
        note_cuda(cuda, "clearing", cudaMemsetAsync(memory, 0, bytes, cuda->stream));
}

static void bring(gpt_device *device, size_t bytes, const void *from_host, void *memory)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (bytes)
        note_cuda(cuda, "copying from the host",
                  cudaMemcpyAsync(memory, from_host, bytes, cudaMemcpyHostToDevice, cuda->stream));
}

static void fetch(gpt_device *device, size_t bytes, const void *memory, void *to_host)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (bytes)
        note_cuda(cuda, "copying to the host",
                  cudaMemcpyAsync(to_host, memory, bytes, cudaMemcpyDeviceToHost, cuda->stream));
    note_cuda(cuda, "waiting for the stream", cudaStreamSynchronize(cuda->stream));
}

static void add(gpt_device *device, size_t count, const void *a, const void *b, void *y)
{
    gpt_cuda_note(gpt_cuda_of(device), "sum", gpt_cuda_add(device->parameter, count, a, b, y, device->stream));
}

static void convert(gpt_device *device, size_t count, const void *from, weft_dtype from_dtype, void *to,
                    weft_dtype to_dtype)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (!count || from == to)
        return;
    if (from_dtype == to_dtype)
        note_cuda(
            cuda, "copying",
            cudaMemcpyAsync(to, from, count * weft_dtype_bytes(to_dtype), cudaMemcpyDeviceToDevice, cuda->stream));
    else
        gpt_cuda_note(cuda, "conversion", gpt_cuda_convert(count, from, from_dtype, to, to_dtype, device->stream));
}

static weft_result check(gpt_device *device, const char **why_out)
{
    *why_out = gpt_cuda_of(device)->text;
    return gpt_cuda_of(device)->result;
}

/* ---- open and close ---- */

static void close_cuda(gpt_device *device)
{
    gpt_cuda *cuda = gpt_cuda_of(device);
    if (cuda->stream)
        (void)cudaStreamSynchronize(cuda->stream);
    if (cuda->cublas)
        (void)cublasDestroy(cuda->cublas);
    void *const memory[] = {cuda->workspace,     cuda->cosines, cuda->sines, cuda->norm_parts, cuda->scores,
                            cuda->probabilities, cuda->dscores, cuda->dots,  cuda->dkey,       cuda->dvalue};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        (void)cudaFree(memory[i]);
    if (cuda->stream)
        (void)cudaStreamDestroy(cuda->stream);
    free(cuda);
}

static const gpt_ops cuda_ops = {
    .name = "cuda",
    .close = close_cuda,
    .linear = linear,
    .linear_input_grad = linear_input_grad,
    .linear_weight_grad = linear_weight_grad,
    .norm = norm,
    .norm_grad = norm_grad,
    .rotate = rotate,
    .rotate_back = rotate_back,
    .attention = attention,
    .attention_grad = attention_grad,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .embed = embed,
    .embed_grad = embed_grad,
    .entropy_largest = entropy_largest,
    .entropy_exponentials = entropy_exponentials,
    .entropy_loss = entropy_loss,
    .entropy_grad = entropy_grad,
    .clear = clear,
    .bring = bring,
    .fetch = fetch,
    .add = add,
    .convert = convert,
    .check = check,
};

static int allocate(gpt_cuda *cuda, const gpt_shape *s, gpt_failure *failure)
{
    size_t block = s->sequence < GPT_CUDA_QUERY_BLOCK ? s->sequence : GPT_CUDA_QUERY_BLOCK;
    size_t heads = s->heads / s->groups, element = weft_dtype_bytes(s->dtype);
    size_t scores = cuda->fused ? 0 : heads * block * s->sequence, keys = cuda->fused ? 0 : s->sequence * s->channels;
    const struct {
        void *memory; /* a pointer to fill in */
        size_t bytes;
    } parts[] = {
        {&cuda->workspace, WORKSPACE_BYTES},
        {&cuda->cosines, s->sequence * s->channels / 2 * sizeof(float)},
        {&cuda->sines, s->sequence * s->channels / 2 * sizeof(float)},
        {&cuda->norm_parts, GPT_CUDA_NORM_PARTS * s->hidden * sizeof(float)},
        {&cuda->scores, scores * sizeof(float)},
        {&cuda->probabilities, scores * element},
        {&cuda->dscores, scores * element},
        {&cuda->dots, (cuda->fused ? s->local_heads * s->tokens : heads * block) * sizeof(float)},
        {&cuda->dkey, keys * sizeof(float)},
        {&cuda->dvalue, keys * sizeof(float)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        void *memory = NULL;
        cudaError_t error = parts[i].bytes ? cudaMalloc(&memory, parts[i].bytes) : cudaSuccess;
        if (error != cudaSuccess)
            return gpt_fail(failure, EXIT_FAILED, "no memory for %zu bytes of the GPU: %s", parts[i].bytes,
                            cudaGetErrorString(error));
        memcpy(parts[i].memory, &memory, sizeof memory);
    }
    return 0;
}

static int fill_angles(gpt_cuda *cuda, const gpt_shape *s, gpt_failure *failure)
{
    size_t half = s->channels / 2, count = s->sequence * half;
    float *cosines = malloc(2 * count * sizeof *cosines), *sines = cosines + count;
    if (!cosines)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu angles", count);
    for (size_t position = 0; position < s->sequence; position++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)position * pow((double)s->rotary_base, -2.0 * (double)i / (double)s->channels);
            cosines[position * half + i] = (float)cos(angle);
            sines[position * half + i] = (float)sin(angle);
        }
    bring(&cuda->device, count * sizeof *cosines, cosines, cuda->cosines);
    bring(&cuda->device, count * sizeof *sines, sines, cuda->sines);
    note_cuda(cuda, "waiting for the stream", cudaStreamSynchronize(cuda->stream));
    free(cosines);
    return cuda->result == WEFT_OK ? 0 : gpt_fail(failure, EXIT_FAILED, "%s", cuda->text);
}

static int open_cublas(gpt_cuda *cuda, gpt_failure *failure)
{
    int version = 0;
    cublasStatus_t status = cublasCreate(&cuda->cublas);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetStream(cuda->cublas, cuda->stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetWorkspace(cuda->cublas, cuda->workspace, WORKSPACE_BYTES);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasGetVersion(cuda->cublas, &version);
    snprintf(cuda->device.products, sizeof cuda->device.products, "%s by cuBLAS %d.%d, attention %s",
             cuda->device.parameter == WEFT_BF16 ? "bf16" : "fp32", version / 10000, version / 100 % 100,
             cuda->fused ? "fused" : "by blocks of queries");
    return status == CUBLAS_STATUS_SUCCESS
               ? 0
               : gpt_fail(failure, EXIT_FAILED, "cuBLAS cannot be opened: %s", cublasGetStatusString(status));
}

static int open_stream(gpt_cuda *cuda, int index, weft_dtype dtype, gpt_failure *failure)
{
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    cuda->device = (gpt_device){&cuda_ops, dtype, dtype, weft_cuda_stream(cuda->stream), ""};
    return error == cudaSuccess
               ? 0
               : gpt_fail(failure, EXIT_FAILED, "GPU %d cannot be used: %s", index, cudaGetErrorString(error));
}

WEFT_API gpt_cuda_module_function GPT_CUDA_MODULE;

int GPT_CUDA_MODULE(const gpt_shape *shape, int index, gpt_device **device_out, gpt_failure *failure)
{
    if (shape->dtype != WEFT_FP32 && shape->dtype != WEFT_BF16)
        return gpt_fail(failure, EXIT_USAGE, "the GPU has no parameters of dtype %s", weft_dtype_string(shape->dtype));
    gpt_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the device");
    cuda->norm_epsilon = shape->norm_epsilon;
    cuda->fused = shape->attention == GPT_ATTENTION_AUTO && gpt_cuda_fused_fits(shape->dtype, shape->channels);
    if (open_stream(cuda, index, shape->dtype, failure) || allocate(cuda, shape, failure) ||
        open_cublas(cuda, failure) || fill_angles(cuda, shape, failure)) {
        close_cuda(&cuda->device);
        return failure->code;
    }
    *device_out = &cuda->device;
    return 0;
}
