/* SPDX-License-Identifier: Apache-2.0 */
/* One thread a device draws a stream whose first item can run, and runs it. */
#include "queue.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shadow.h"

enum { DEVICES_MOST = 128, HOLD_ONE_IN = 8, HOLD_NS = 60000, IDLE_NS = 20000 };

typedef enum item_kind { ITEM_TASK, ITEM_RECORD, ITEM_WAIT } item_kind;

struct standin_item {
    item_kind kind;
    standin_task task;
    standin_mark *mark;
    uint64_t sequence; /* on the device */
    standin_item *next;
};

typedef struct device {
    bool started;
    pthread_t thread;
    pthread_cond_t changed; /* something was queued, or has ended */
    struct CUstream_st *streams;
    cudaStream_t legacy;
    uint64_t random, sequence;
    int last_number;
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device devices[DEVICES_MOST];
static int device_count;
static bool one_queue;
static uint64_t seed = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- environment, time, chance ---- */

static void read_environment(void)
{
    const char *count = getenv("STANDIN_DEVICES"), *queues = getenv("STANDIN_QUEUES"), *draw = getenv("STANDIN_SEED");
    device_count = count ? atoi(count) : 8;
    device_count = device_count > DEVICES_MOST ? DEVICES_MOST : device_count < 0 ? 0 : device_count;
    one_queue = queues && strcmp(queues, "one") == 0;
    seed = draw ? strtoull(draw, NULL, 10) : 1;
}

int standin_device_count(void)
{
    pthread_once(&once, read_environment);
    return device_count;
}

uint64_t standin_seed(void)
{
    pthread_once(&once, read_environment);
    return seed;
}

void standin_lock(void)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators". */
static uint64_t draw(device *d)
{
    uint64_t z = d->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- threads of the host ---- */

typedef struct host_thread {
    standin_clock clock;
    uint32_t timeline;
} host_thread;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void end_thread(void *memory)
{
    host_thread *t = memory;
    standin_lock();
    standin_timeline_close(t->timeline);
    standin_unlock();
    free(t);
}

static void make_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

static host_thread *this_thread(void)
{
    pthread_once(&thread_once, make_key);
    host_thread *t = pthread_getspecific(thread_key);
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t)
            abort();
        t->timeline = standin_timeline_open();
        pthread_setspecific(thread_key, t);
    }
    return t;
}

standin_clock *standin_thread_clock(void)
{
    return &this_thread()->clock;
}

/* ---- running ---- */

static bool can_run(const struct CUstream_st *stream, uint64_t now)
{
    const standin_item *item = stream->first;
    if (!item || stream->running || (stream->hold_ns > now && !one_queue))
        return false;
    return item->kind != ITEM_WAIT || item->mark->reached;
}

/* With one queue it is the oldest item of all or none, else one by lot. */
static cudaStream_t choose(device *d, uint64_t now)
{
    cudaStream_t chosen = NULL, oldest = NULL;
    uint64_t seen = 0;
    for (cudaStream_t s = d->streams; s; s = s->next) {
        if (s->first && (!oldest || s->first->sequence < oldest->first->sequence))
            oldest = s;
        if (can_run(s, now) && draw(d) % ++seen == 0)
            chosen = s;
    }
    if (one_queue)
        return oldest && can_run(oldest, now) ? oldest : NULL;
    return chosen;
}

static void drop_mark(standin_mark *mark)
{
    if (mark && --mark->holds == 0)
        free(mark);
}

void standin_event_destroy(cudaEvent_t event)
{
    drop_mark(event->last);
    free(event);
}

static void reach(standin_mark *mark)
{
    mark->reached = true;
    mark->reached_ns = now_ns();
}

static void end_item(cudaStream_t stream)
{
    standin_item *item = stream->first;
    if (item->kind == ITEM_RECORD)
        reach(item->mark);
    stream->first = item->next;
    if (!stream->first)
        stream->last = NULL;
    stream->ended++;
    drop_mark(item->mark);
    free(item);
    pthread_cond_broadcast(&devices[stream->device].changed);
}

/* Answers whether the item came to its end. The lock is given up while a task runs. */
static bool run_first(cudaStream_t stream)
{
    standin_item *item = stream->first;
    bool ended = true;
    if (item->kind == ITEM_TASK) {
        stream->running = true;
        pthread_mutex_unlock(&lock);
        ended = item->task.step(item->task.state);
        if (ended && item->task.done)
            item->task.done(item->task.state);
        pthread_mutex_lock(&lock);
        stream->running = false;
    }
    if (ended)
        end_item(stream);
    return ended;
}

static bool anything_queued(const device *d)
{
    for (cudaStream_t s = d->streams; s; s = s->next)
        if (s->first)
            return true;
    return false;
}

static void *work(void *memory)
{
    device *d = memory;
    int idle = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        cudaStream_t stream = choose(d, now_ns());
        if (stream && run_first(stream)) {
            idle = 0;
        } else if (!anything_queued(d)) {
            pthread_cond_wait(&d->changed, &lock);
        } else { /* others must come, or a hold must end */
            pthread_mutex_unlock(&lock);
            if (++idle < 16)
                sched_yield();
            else
                nanosleep(&(struct timespec){.tv_nsec = IDLE_NS}, NULL);
            pthread_mutex_lock(&lock);
        }
    }
    return NULL;
}

static device *device_at(int index)
{
    device *d = &devices[index];
    if (!d->started) {
        d->started = true;
        pthread_cond_init(&d->changed, NULL);
        d->random = seed + (uint64_t)index * 7919;
        if (pthread_create(&d->thread, NULL, work, d))
            abort();
        pthread_detach(d->thread);
    }
    return d;
}

/* ---- streams ---- */

cudaStream_t standin_stream_open(int index, bool blocking)
{
    device *d = device_at(index);
    cudaStream_t stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->device = index;
    stream->number = ++d->last_number;
    stream->blocking = blocking;
    stream->timeline = standin_timeline_open();
    stream->next = d->streams;
    d->streams = stream;
    return stream;
}

void standin_stream_close(cudaStream_t stream)
{
    while (stream->queued != stream->ended)
        pthread_cond_wait(&devices[stream->device].changed, &lock);
    for (cudaStream_t *link = &devices[stream->device].streams; *link; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    standin_timeline_close(stream->timeline);
    free(stream);
}

static bool is_stream(int index, cudaStream_t handle)
{
    for (cudaStream_t s = devices[index].streams; s; s = s->next)
        if (s == handle)
            return true;
    return false;
}

cudaStream_t standin_stream_of(cudaStream_t handle, int index)
{
    static _Thread_local cudaStream_t own[DEVICES_MOST];
    if (handle == NULL || handle == cudaStreamLegacy) {
        device *d = device_at(index);
        if (!d->legacy) {
            d->legacy = standin_stream_open(index, false);
            d->legacy->number = 0;
            d->last_number--;
        }
        return d->legacy;
    }
    if (handle == cudaStreamPerThread) {
        if (!own[index])
            own[index] = standin_stream_open(index, true);
        return own[index];
    }
    for (int i = 0; i < device_count; i++)
        if (is_stream(i, handle))
            return handle;
    return NULL;
}

static void append(cudaStream_t stream, const standin_item *what)
{
    device *d = &devices[stream->device];
    standin_item *item = malloc(sizeof *item);
    if (!item)
        abort();
    *item = *what;
    item->sequence = d->sequence++;
    if (!stream->first && draw(d) % HOLD_ONE_IN == 0)
        stream->hold_ns = now_ns() + draw(d) % HOLD_NS;
    if (stream->last)
        stream->last->next = item;
    else
        stream->first = item;
    stream->last = item;
    stream->queued++;
    pthread_cond_broadcast(&d->changed);
}

static void record(cudaStream_t stream, cudaEvent_t event)
{
    standin_mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        abort();
    drop_mark(event->last);
    event->last = mark;
    event->clock = stream->clock;
    mark->holds = 2;
    mark->device = stream->device;
    append(stream, &(standin_item){.kind = ITEM_RECORD, .mark = mark});
}

static void wait_for(cudaStream_t stream, cudaEvent_t event)
{
    standin_clock_join(&stream->clock, &event->clock);
    event->last->holds++;
    append(stream, &(standin_item){.kind = ITEM_WAIT, .mark = event->last});
}

static void run_behind(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t event = calloc(1, sizeof *event);
    if (!event)
        abort();
    record(other, event);
    wait_for(stream, event);
    standin_event_destroy(event);
}

/* What a call orders by itself: the thread before the stream, and streams of CUDA's old kind with the default one. */
static void order_call(cudaStream_t stream)
{
    host_thread *t = this_thread();
    device *d = &devices[stream->device];
    standin_clock_tick(&t->clock, t->timeline);
    standin_clock_join(&stream->clock, &t->clock);
    if (stream == d->legacy) {
        for (cudaStream_t s = d->streams; s; s = s->next)
            if (s->blocking && s->queued)
                run_behind(stream, s);
    } else if (stream->blocking && d->legacy && d->legacy->queued) {
        run_behind(stream, d->legacy);
    }
}

cudaError_t standin_stream_task(cudaStream_t stream, const standin_task *task)
{
    if (stream->capturing)
        return cudaSuccess; /* it would be in the graph */
    order_call(stream);
    const standin_access access = {task->what, stream->number, standin_clock_tick(&stream->clock, stream->timeline),
                                   &stream->clock};
    if (!standin_shadow_touch(&access, task->ranges, task->range_count))
        return cudaErrorIllegalAddress;
    standin_item item = {.kind = ITEM_TASK, .task = *task};
    item.task.ranges = NULL;
    append(stream, &item);
    return cudaSuccess;
}

void standin_stream_record(cudaStream_t stream, cudaEvent_t event)
{
    order_call(stream);
    record(stream, event);
}

void standin_stream_wait(cudaStream_t stream, cudaEvent_t event)
{
    order_call(stream);
    if (event->last)
        wait_for(stream, event);
}

/* ---- waiting ---- */

void standin_stream_synchronize(cudaStream_t stream)
{
    uint64_t queued = stream->queued;
    const standin_clock before = stream->clock;
    while (stream->ended < queued)
        pthread_cond_wait(&devices[stream->device].changed, &lock);
    standin_clock_join(standin_thread_clock(), &before);
}

bool standin_stream_idle(cudaStream_t stream)
{
    if (stream->queued != stream->ended)
        return false;
    standin_clock_join(standin_thread_clock(), &stream->clock);
    return true;
}

/* Is something of what was queued before @p sequence still to run? */
static bool is_behind(const device *d, uint64_t sequence)
{
    for (cudaStream_t s = d->streams; s; s = s->next)
        if (s->first && s->first->sequence < sequence)
            return true;
    return false;
}

void standin_device_wait(int index)
{
    device *d = &devices[index];
    uint64_t sequence = d->sequence;
    while (is_behind(d, sequence))
        pthread_cond_wait(&d->changed, &lock);
}

void standin_device_synchronize(int index)
{
    standin_device_wait(index);
    for (cudaStream_t s = devices[index].streams; s; s = s->next)
        standin_clock_join(standin_thread_clock(), &s->clock);
}

void standin_event_synchronize(cudaEvent_t event)
{
    standin_mark *mark = event->last;
    const standin_clock before = event->clock;
    if (!mark)
        return;
    mark->holds++;
    while (!mark->reached)
        pthread_cond_wait(&devices[mark->device].changed, &lock);
    drop_mark(mark);
    standin_clock_join(standin_thread_clock(), &before);
}

bool standin_event_reached(cudaEvent_t event)
{
    return !event->last || event->last->reached;
}

int standin_queue(void *stream, const standin_task *task)
{
    int index;
    cudaError_t error = cudaGetDevice(&index);
    if (error != cudaSuccess)
        return error;
    standin_lock();
    cudaStream_t s = standin_stream_of(stream, index);
    error = s ? standin_stream_task(s, task) : cudaErrorInvalidResourceHandle;
    standin_unlock();
    return error;
}
