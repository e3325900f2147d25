/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the frames on their way through a switch in a ring: none is split, so the last piece of the memory may stay
 * empty. */
#include "hosts/queue.h"

#include <string.h>
#include <sys/mman.h>

#define AT_START UINT32_MAX

static size_t room_of(size_t bytes)
{
    return sizeof(frame) + (bytes + sizeof(frame) - 1) / sizeof(frame) * sizeof(frame);
}

bool queue_open(queue *q, size_t bytes)
{
    *q = (queue){.bytes = bytes / sizeof(frame) * sizeof(frame)};
    q->data = mmap(NULL, q->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return q->data != MAP_FAILED;
}

void queue_close(queue *q)
{
    munmap(q->data, q->bytes);
}

static frame *at(const queue *q, size_t offset)
{
    return (frame *)(void *)(q->data + offset);
}

/* Bytes that are free in one piece at the end; one frame of room stays free, or full would look as empty. */
static bool fits(queue *q, size_t room)
{
    if (q->end < q->first)
        return q->first - q->end > room;
    if (q->bytes - q->end > room) /* behind it there is room for the mark that sends back to the start */
        return true;
    if (q->first <= room)
        return false;
    at(q, q->end)->bytes = AT_START;
    q->end = 0;
    return true;
}

bool queue_put(queue *q, int64_t due_ns, const void *data, size_t bytes)
{
    size_t room = room_of(bytes);
    if (q->frames == 0)
        q->first = q->end = 0;
    if (!fits(q, room))
        return false;
    *at(q, q->end) = (frame){due_ns, (uint32_t)bytes};
    memcpy(at(q, q->end) + 1, data, bytes);
    q->end += room;
    q->frames++;
    return true;
}

const frame *queue_first(const queue *q)
{
    if (q->frames == 0)
        return NULL;
    const frame *f = at(q, q->first);
    return f->bytes == AT_START ? at(q, 0) : f;
}

void queue_drop(queue *q)
{
    if (at(q, q->first)->bytes == AT_START)
        q->first = 0;
    q->first += room_of(at(q, q->first)->bytes);
    q->frames--;
}
