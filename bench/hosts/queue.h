/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that wait to be delivered, in the order of their times, in memory of fixed size. */
#ifndef WEFT_BENCH_HOSTS_QUEUE_H
#define WEFT_BENCH_HOSTS_QUEUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct queue {
    char *data;
    size_t bytes;      /* of data */
    size_t first, end; /* of what is used; end < first: it goes on at the start */
    size_t frames;
} queue;

typedef struct frame {
    int64_t due_ns;
    uint32_t bytes; /* behind this head; UINT32_MAX: the next frame is at the start of the memory */
} frame;

/* False: errno says why. */
bool queue_open(queue *q, size_t bytes);
void queue_close(queue *q);
/* Put a frame in at the end. False: it has no room. */
bool queue_put(queue *q, int64_t due_ns, const void *data, size_t bytes);
/* The one that is due first, NULL = none; its data is behind it. */
const frame *queue_first(const queue *q);
void queue_drop(queue *q);

#endif
