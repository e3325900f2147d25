/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device: its table, carried out by the CUDA runtime. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/backend.h>
#include <weft/cuda.h>

#include "device/cuda/vector.h"

/* A device number of this process; its calls make it the current one of the calling thread, and put back what was. */
typedef struct cuda_device {
    weft__device device; /* first, so that a pointer to it is one to this */
    int index;
    int least, greatest; /* priorities of streams */
    char text[160];
} cuda_device;

static cuda_device *cuda_of(weft__device *device)
{
    return (cuda_device *)device;
}

static weft_result told(const cuda_device *cuda, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return WEFT_OK;
    weft_result result = error == cudaErrorMemoryAllocation ? WEFT_E_NO_MEMORY : WEFT_E_SYSTEM;
    return weft_backend_error(result, "CUDA device %d: %s: %s (%s)", cuda ? cuda->index : -1, what,
                              cudaGetErrorString(error), cudaGetErrorName(error));
}

static cudaStream_t stream_of(weft_stream stream)
{
    return (cudaStream_t)stream.handle;
}

/* ---- the current device ---- */

/* Make @p cuda current; answers what was, for leave(). */
static int enter(const cuda_device *cuda)
{
    int before = cuda->index;
    (void)cudaGetDevice(&before);
    if (before != cuda->index)
        (void)cudaSetDevice(cuda->index);
    return before;
}

static void leave(const cuda_device *cuda, int before)
{
    if (before != cuda->index)
        (void)cudaSetDevice(before);
}

/* ---- open ---- */

static weft_result cuda_count(int *count_out)
{
    *count_out = 0;
    cudaError_t error = cudaGetDeviceCount(count_out);
    (void)cudaGetLastError();
    if (error == cudaSuccess && *count_out > 0)
        return WEFT_OK;
    return weft_backend_error(WEFT_E_NO_DEVICE, "no CUDA device: %s",
                              error == cudaSuccess                   ? "there is none"
                              : error == cudaErrorInsufficientDriver ? "there is no NVIDIA driver here, or one older "
                                                                       "than the CUDA runtime"
                                                                     : cudaGetErrorString(error));
}

static weft_result look(cuda_device *cuda)
{
    int multiprocessors = 0, major = 0, minor = 0, runtime = 0, driver = 0;
    char bus[32] = "?";
    cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, cuda->index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda->index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, cuda->index);
    if (error == cudaSuccess)
        error = cudaDeviceGetStreamPriorityRange(&cuda->least, &cuda->greatest);
    (void)cudaDeviceGetPCIBusId(bus, sizeof bus, cuda->index);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    snprintf(cuda->text, sizeof cuda->text, "cuda:%d, sm_%d%d, %d multiprocessors, %s, runtime %d.%d, driver %d.%d",
             cuda->index, major, minor, multiprocessors, bus, runtime / 1000, runtime % 1000 / 10, driver / 1000,
             driver % 1000 / 10);
    return told(cuda, "asking for attributes", error);
}

static const weft__device_calls calls;

static weft_result cuda_open(int index, weft__device **device_out)
{
    int count;
    weft_result result = cuda_count(&count);
    if (result != WEFT_OK)
        return result;
    if (index < 0 || index >= count)
        return weft_backend_error(WEFT_E_NO_DEVICE, "no CUDA device %d: there are %d", index, count);
    cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return weft_backend_error(WEFT_E_NO_MEMORY, "no memory for CUDA device %d", index);
    cuda->device.calls = &calls;
    cuda->index = index;
    int before = enter(cuda);
    result = look(cuda);
    leave(cuda, before);
    if (result != WEFT_OK) {
        free(cuda);
        return result;
    }
    *device_out = &cuda->device;
    return WEFT_OK;
}

static void cuda_close(weft__device *device)
{
    free(cuda_of(device));
}

static int cuda_index(weft__device *device)
{
    return cuda_of(device)->index;
}

static void cuda_describe(weft__device *device, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", cuda_of(device)->text);
}

/* ---- memory ---- */

static weft_result cuda_alloc(weft__device *device, size_t bytes, void **memory_out)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    char what[64];
    snprintf(what, sizeof what, "allocating %zu bytes", bytes);
    cudaError_t error = cudaMalloc(memory_out, bytes ? bytes : 1);
    if (error == cudaSuccess) {
        error = cudaMemset(*memory_out, 0, bytes);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(cudaStreamLegacy);
        if (error != cudaSuccess)
            (void)cudaFree(*memory_out);
    }
    leave(cuda, before);
    return told(cuda, what, error);
}

static void cuda_release(weft__device *device, void *memory)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    (void)cudaFree(memory);
    leave(cuda, before);
}

static weft_result cuda_alloc_host(weft__device *device, size_t bytes, void **memory_out)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    cudaError_t error = cudaHostAlloc(memory_out, bytes ? bytes : 1, cudaHostAllocPortable);
    leave(cuda, before);
    return told(cuda, "allocating memory of the host", error);
}

static void cuda_release_host(weft__device *device, void *memory)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    (void)cudaFreeHost(memory);
    leave(cuda, before);
}

static int cuda_owns(weft__device *device, const void *memory)
{
    struct cudaPointerAttributes attributes;
    cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
    (void)cudaGetLastError();
    return error == cudaSuccess && attributes.type == cudaMemoryTypeDevice &&
           attributes.device == cuda_of(device)->index;
}

/* ---- streams ---- */

static weft_result cuda_stream_open(weft__device *device, int urgent, weft_stream *stream_out)
{
    cuda_device *cuda = cuda_of(device);
    cudaStream_t stream = NULL;
    int before = enter(cuda);
    cudaError_t error =
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? cuda->greatest : cuda->least);
    leave(cuda, before);
    *stream_out = weft_cuda_stream(stream);
    return told(cuda, "making a stream", error);
}

static void cuda_stream_close(weft__device *device, weft_stream stream)
{
    (void)device;
    (void)cudaStreamDestroy(stream_of(stream));
}

/* ---- events: one is its CUDA event ---- */

static cudaEvent_t event_of(weft__event *event)
{
    return (cudaEvent_t)(void *)event;
}

static weft_result cuda_event_open(weft__device *device, weft__event **event_out)
{
    cuda_device *cuda = cuda_of(device);
    cudaEvent_t event = NULL;
    int before = enter(cuda);
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    leave(cuda, before);
    *event_out = (weft__event *)(void *)event;
    return told(cuda, "making an event", error);
}

static void cuda_event_close(weft__device *device, weft__event *event)
{
    (void)device;
    if (event)
        (void)cudaEventDestroy(event_of(event));
}

static weft_result cuda_record(weft__device *device, weft__event *event, weft_stream stream)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    cudaError_t error = cudaEventRecord(event_of(event), stream_of(stream));
    leave(cuda, before);
    return told(cuda, "recording an event", error);
}

static weft_result cuda_order(weft__device *device, weft_stream stream, weft__event *event)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    cudaError_t error = cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
    leave(cuda, before);
    return told(cuda, "ordering a stream", error);
}

/* The answer of a look. */
static weft_result looked(const cuda_device *cuda, const char *what, cudaError_t error)
{
    if (error != cudaErrorNotReady)
        return told(cuda, what, error);
    (void)cudaGetLastError();
    return WEFT_PENDING;
}

static weft_result cuda_reached(weft__device *device, weft__event *event)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* looking disturbs nobody's capture */
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = cudaEventQuery(event_of(event));
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return looked(cuda_of(device), "looking at an event", error);
}

static weft_result cuda_idle(weft__device *device, weft_stream stream)
{
    cuda_device *cuda = cuda_of(device);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int before = enter(cuda);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t error = cudaStreamQuery(stream_of(stream));
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    leave(cuda, before);
    return looked(cuda, "looking at a stream", error);
}

static weft_result cuda_await(weft__device *device, weft__event *event)
{
    return told(cuda_of(device), "waiting for an event", cudaEventSynchronize(event_of(event)));
}

static weft_result cuda_copy(weft__device *device, void *to, const void *from, size_t bytes, weft_stream stream)
{
    cuda_device *cuda = cuda_of(device);
    int before = enter(cuda);
    cudaError_t error = bytes ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)) : cudaSuccess;
    leave(cuda, before);
    return told(cuda, "copying", error);
}

/* ---- arithmetic: launched on the device ---- */

#define ON_DEVICE(CALL)                      \
    do {                                     \
        cuda_device *cuda = cuda_of(device); \
        int before = enter(cuda);            \
        weft_result result = CALL;           \
        leave(cuda, before);                 \
        return result;                       \
    } while (0)

static weft_result cuda_fill(weft__device *device, void *dst, size_t count, size_t element_bytes, uint64_t bits,
                             weft_stream stream)
{
    ON_DEVICE(weft__cuda_fill(dst, count, element_bytes, bits, stream));
}

static weft_result cuda_scale(weft__device *device, void *dst, size_t count, weft_dtype dtype, double factor,
                              weft_stream stream)
{
    ON_DEVICE(weft__cuda_scale(dst, count, dtype, factor, stream));
}

static weft_result cuda_cast(weft__device *device, void *dst, weft_dtype to, const void *src, weft_dtype from,
                             size_t count, weft_stream stream)
{
    ON_DEVICE(weft__cuda_cast(dst, to, src, from, count, stream));
}

static weft_result cuda_accumulate(weft__device *device, float *dst, const void *src, weft_dtype from, size_t count,
                                   weft_stream stream)
{
    ON_DEVICE(weft__cuda_accumulate(dst, src, from, count, stream));
}

static weft_result cuda_sum_of_squares(weft__device *device, const void *src, size_t count, weft_dtype dtype,
                                       weft__device_sum *sum, weft_stream stream)
{
    ON_DEVICE(weft__cuda_sum_of_squares(src, count, dtype, sum, stream));
}

static weft_result cuda_fold(weft__device *device, const weft__device_sum *sum, weft__double2 *total,
                             weft_stream stream)
{
    ON_DEVICE(weft__cuda_fold(sum, total, stream));
}

static weft_result cuda_first_nonfinite(weft__device *device, const void *src, size_t count, weft_dtype dtype,
                                        uint64_t base, uint64_t *first, weft_stream stream)
{
    ON_DEVICE(weft__cuda_first_nonfinite(src, count, dtype, base, first, stream));
}

static weft_result cuda_judge(weft__device *device, const weft__double2 *sums, int ranks, const weft__step_rule *rule,
                              weft__step_verdict *verdict, weft_stream stream)
{
    ON_DEVICE(weft__cuda_judge(sums, ranks, rule, verdict, stream));
}

static weft_result cuda_adamw(weft__device *device, const weft__adamw *step, const weft__step_verdict *verdict,
                              size_t count, float *master, float *m, float *v, const void *grad, weft_dtype grad_dtype,
                              void *param_out, weft_dtype param_dtype, weft_stream stream)
{
    ON_DEVICE(weft__cuda_adamw(step, verdict, count, master, m, v, grad, grad_dtype, param_out, param_dtype, stream));
}

static const weft__device_calls calls = {
    .abi = WEFT__DEVICE_ABI,
    .size = sizeof calls,
    .name = "cuda",
    .kind = WEFT_DEVICE_CUDA,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .index = cuda_index,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .alloc_host = cuda_alloc_host,
    .release_host = cuda_release_host,
    .owns = cuda_owns,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .idle = cuda_idle,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .record = cuda_record,
    .order = cuda_order,
    .reached = cuda_reached,
    .await = cuda_await,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .scale = cuda_scale,
    .cast = cuda_cast,
    .accumulate = cuda_accumulate,
    .sum_of_squares = cuda_sum_of_squares,
    .fold = cuda_fold,
    .first_nonfinite = cuda_first_nonfinite,
    .judge = cuda_judge,
    .adamw = cuda_adamw,
};

WEFT_API weft__device_module_function WEFT__DEVICE_MODULE;
const weft__device_calls *WEFT__DEVICE_MODULE(void)
{
    return &calls;
}
