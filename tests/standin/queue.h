/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events, and the thread of each device that runs what is queued, in an order that is drawn. Everything
 * here is guarded by one lock, which is not held while a task runs. */
#ifndef STANDIN_QUEUE_H
#define STANDIN_QUEUE_H
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "clock.h"
#include "standin.h"

typedef struct standin_item standin_item;

struct CUstream_st {
    int device, number;
    bool blocking; /* ordered with the device's default stream */
    bool capturing, invalidated;
    bool running; /* its first item is being run */
    uint32_t timeline;
    standin_clock clock;
    standin_item *first, *last;
    uint64_t queued, ended; /* items */
    uint64_t hold_ns;       /* not before */
    struct CUstream_st *next;
};

/* One recording of an event: a later one of the same event is another. */
typedef struct standin_mark {
    bool reached;
    uint64_t reached_ns;
    int device;
    uint32_t holds; /* of its event while it is the last, and of items */
} standin_mark;

struct CUevent_st {
    bool timed;
    standin_mark *last; /* NULL: it was never recorded */
    standin_clock clock;
};

void standin_lock(void);
void standin_unlock(void);

/* Of the environment, once. */
int standin_device_count(void);
uint64_t standin_seed(void);

/* With the lock held: */
cudaStream_t standin_stream_open(int device, bool blocking);
void standin_stream_close(cudaStream_t stream); /* what is queued still runs */
/* The stream that a handle means for this thread, NULL if none. */
cudaStream_t standin_stream_of(cudaStream_t handle, int device);
cudaError_t standin_stream_task(cudaStream_t stream, const standin_task *task);
void standin_stream_record(cudaStream_t stream, cudaEvent_t event);
void standin_stream_wait(cudaStream_t stream, cudaEvent_t event);
/* Wait until all that is queued now has run, and order this thread behind it. */
void standin_stream_synchronize(cudaStream_t stream);
bool standin_stream_idle(cudaStream_t stream);
void standin_device_synchronize(int device);
/* The same for calls that may wait for the device, but need not: it orders nothing. */
void standin_device_wait(int device);
void standin_event_destroy(cudaEvent_t event);
/* Wait until @p event is as it was last recorded, and order this thread behind it. */
void standin_event_synchronize(cudaEvent_t event);
/* Is it? Looking orders nothing, or a missing wait would be found or not as threads happen to run. */
bool standin_event_reached(cudaEvent_t event);

/* The calling thread's clock. */
standin_clock *standin_thread_clock(void);

#endif
