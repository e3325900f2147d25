/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the CUDA runtime but those on memory: checks of what they are given, and what they make of streams and
 * events. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "runtime.h"
#include "shadow.h"

#define API STANDIN_API

enum { MULTIPROCESSORS = 8 };

static _Thread_local cudaError_t last_error;
static _Thread_local int current;
static _Thread_local enum cudaStreamCaptureMode thread_mode;
static cudaStream_t captured_for_all; /* a capture that forbids every thread to look at events */

int standin_current(void)
{
    return current;
}

cudaError_t standin_end(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* ---- device ---- */

API cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int *version)
{
    *version = standin_device_count() ? CUDART_VERSION : 0;
    return cudaSuccess;
}

API cudaError_t cudaGetDeviceCount(int *count)
{
    *count = standin_device_count();
    return standin_end(*count                        ? cudaSuccess
                       : getenv("STANDIN_NO_DRIVER") ? cudaErrorInsufficientDriver
                                                     : cudaErrorNoDevice);
}

cudaError_t standin_check_device(int device)
{
    return !standin_device_count()                          ? cudaErrorNoDevice
           : device < 0 || device >= standin_device_count() ? cudaErrorInvalidDevice
                                                            : cudaSuccess;
}

API cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return standin_end(standin_check_device(current));
}

API cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = standin_check_device(device);
    if (error == cudaSuccess)
        current = device;
    return standin_end(error);
}

API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = standin_check_device(device);
    if (error != cudaSuccess)
        return standin_end(error);
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = MULTIPROCESSORS;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    }
    return standin_end(cudaErrorInvalidValue);
}

API cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    cudaError_t error = standin_check_device(device);
    if (error == cudaSuccess && snprintf(text, (size_t)bytes, "0000:%02x:00.0", device + 1) >= bytes)
        error = cudaErrorInvalidValue;
    return standin_end(error);
}

API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return standin_end(standin_check_device(current));
}

API cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = standin_check_device(current);
    if (error != cudaSuccess)
        return standin_end(error);
    standin_lock();
    standin_device_synchronize(current);
    standin_unlock();
    return cudaSuccess;
}

/* ---- errors ---- */

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "no body of this kernel is known"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};

API const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "cudaErrorUnknown";
}

API const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unknown error";
}

API cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

API cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* ---- streams ---- */

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    cudaError_t error = standin_check_device(current);
    if (error != cudaSuccess)
        return standin_end(error);
    standin_lock();
    *stream = standin_stream_open(current, !(flags & cudaStreamNonBlocking));
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

/* The lock, and the stream of a handle: NULL without the lock if there is none. */
static cudaStream_t take_stream(cudaStream_t handle)
{
    if (standin_check_device(current) != cudaSuccess)
        return NULL;
    standin_lock();
    cudaStream_t stream = standin_stream_of(handle, current);
    if (!stream)
        standin_unlock();
    return stream;
}

/* What may not be asked of a stream that is captured ends the capture. */
static cudaError_t check_capture(cudaStream_t stream)
{
    stream->invalidated |= stream->capturing;
    return stream->capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

API cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    standin_stream_close(stream);
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    cudaError_t error = check_capture(stream);
    if (error == cudaSuccess && !standin_stream_idle(stream))
        error = cudaErrorNotReady;
    standin_unlock();
    return standin_end(error);
}

API cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    cudaError_t error = check_capture(stream);
    if (error == cudaSuccess)
        standin_stream_synchronize(stream);
    standin_unlock();
    return standin_end(error);
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    cudaStream_t stream = event ? take_stream(handle) : NULL;
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    if (!stream->capturing && !standin_fault("wait"))
        standin_stream_wait(stream, event);
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    if (mode == cudaStreamCaptureModeGlobal)
        captured_for_all = stream;
    stream->capturing = true;
    stream->invalidated = false;
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

/* There are no graphs: a capture ends in an empty handle. */
API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    cudaError_t error = stream->invalidated ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    stream->capturing = stream->invalidated = false;
    if (captured_for_all == stream)
        captured_for_all = NULL;
    *graph = NULL;
    standin_unlock();
    return standin_end(error);
}

API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    cudaStream_t stream = take_stream(handle);
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    *status = stream->invalidated ? cudaStreamCaptureStatusInvalidated
              : stream->capturing ? cudaStreamCaptureStatusActive
                                  : cudaStreamCaptureStatusNone;
    standin_unlock();
    return cudaSuccess;
}

/* ---- calls of the host ---- */

typedef struct host_call {
    cudaHostFn_t function;
    void *argument;
} host_call;

static bool run_host_call(void *state)
{
    host_call *call = state;
    call->function(call->argument);
    return true;
}

API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *argument)
{
    host_call *call = function ? malloc(sizeof *call) : NULL;
    cudaStream_t stream = call ? take_stream(handle) : NULL;
    cudaError_t error = stream ? check_capture(stream) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) {
        *call = (host_call){function, argument};
        error = standin_stream_task(stream, &(standin_task){"call of the host", NULL, 0, run_host_call, free, call});
    }
    if (stream)
        standin_unlock();
    if (error != cudaSuccess)
        free(call);
    return standin_end(error);
}

/* ---- events ---- */

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = calloc(1, sizeof **event);
    if (!*event)
        return standin_end(cudaErrorMemoryAllocation);
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event)
        return standin_end(cudaErrorInvalidResourceHandle);
    standin_lock();
    standin_event_destroy(event);
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    cudaStream_t stream = event ? take_stream(handle) : NULL;
    if (!stream)
        return standin_end(cudaErrorInvalidResourceHandle);
    if (!stream->capturing)
        standin_stream_record(standin_fault("record") ? standin_stream_of(cudaStreamLegacy, current) : stream, event);
    standin_unlock();
    return cudaSuccess;
}

static _Atomic uint64_t event_queries;

API uint64_t standin_event_queries(void)
{
    return event_queries;
}

API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    event_queries++;
    if (!event)
        return standin_end(cudaErrorInvalidResourceHandle);
    standin_lock();
    bool forbidden = captured_for_all && thread_mode != cudaStreamCaptureModeRelaxed;
    if (forbidden)
        captured_for_all->invalidated = true;
    bool reached = !forbidden && standin_event_reached(event);
    standin_unlock();
    return reached ? cudaSuccess : standin_end(forbidden ? cudaErrorStreamCaptureUnsupported : cudaErrorNotReady);
}

API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (!event)
        return standin_end(cudaErrorInvalidResourceHandle);
    standin_lock();
    standin_event_synchronize(event);
    standin_unlock();
    return cudaSuccess;
}

API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from || !to || !from->timed || !to->timed)
        return standin_end(cudaErrorInvalidResourceHandle);
    standin_lock();
    bool reached = from->last && to->last && from->last->reached && to->last->reached;
    *ms = reached ? (float)((double)to->last->reached_ns - (double)from->last->reached_ns) * 1e-6f : 0;
    standin_unlock();
    return reached ? cudaSuccess : standin_end(cudaErrorNotReady);
}
