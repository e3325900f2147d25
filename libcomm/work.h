/* SPDX-License-Identifier: Apache-2.0 */
/* Works from inside. A work's value is where it lives and its generation, so that a stale one is known without touching
 * what lives there now: slots keep their place until the world is closed. */
#ifndef WEFT_LIBCOMM_WORK_H
#define WEFT_LIBCOMM_WORK_H
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>
#include <weft/work.h>

#include "base/memory.h"

/* value = (address / 128) << 23 | generation << 1 | claimed; addresses have 47 bits. */
#define WEFT__WORK_GENERATIONS ((uint64_t)1 << 22)
#define WEFT__WORK_CLAIMED     ((uint64_t)1)

typedef struct weft__work {
    _Alignas(WEFT__LINE) _Atomic uint64_t value; /* of the work that lives here; 0 = free */
    _Atomic uint32_t holds;                      /* its finish, and works that run after it */
    uint32_t index;                              /* in the comm's slots */
    uint64_t generation;
    weft_comm *comm;
    struct weft__work *next;  /* in the queue of new works, then in the comm's held works */
    struct weft__work *after; /* runs after this one, which it holds */
    uint64_t record;          /* of the trace */
    uint64_t ready, start;    /* ticks */
    _Atomic bool taken_up;    /* by the seat: counted among those in flight */
    weft_op op;
    _Alignas(WEFT__LINE) unsigned char memory[]; /* the backend's, then the messages of a batch */
} weft__work;

/* The slots of one comm: as many as may be in flight. */
typedef struct weft__work_slots {
    unsigned char *pages;
    size_t stride, bytes;
    uint32_t count;                /* a multiple of 64 */
    _Atomic uint64_t *free;        /* bit set = free */
    struct weft__work_slots *next; /* in the pool */
    bool in_use;
} weft__work_slots;

/* All slots of a world. */
typedef struct weft__work_pool {
    weft__work_slots *first;
} weft__work_pool;

weft_result weft__work_pool_take(weft__work_pool *pool, uint32_t count, size_t memory_bytes,
                                 weft__work_slots **slots_out);
void weft__work_pool_give(weft__work_slots *slots);
void weft__work_pool_close(weft__work_pool *pool);

static inline weft__work *weft__work_at(const weft__work_slots *slots, uint32_t index)
{
    return (weft__work *)(slots->pages + index * slots->stride);
}

/* A free slot with a fresh value, held once; NULL: all are in flight. One caller at a time for the comm. */
weft__work *weft__work_take(weft__work_slots *slots);
/* Let go once; the last one frees the slot. */
void weft__work_release(weft__work *work);
/* Give up a work that has ended; @p came: when the caller came to wait for it. How it ended. */
weft_result weft__work_end(weft__work *work, uint64_t came);
/* The live work of that value, or NULL: stale, or none. */
weft__work *weft__work_find(weft_work work);

static inline bool weft__work_ended(weft__work *work)
{
    return __atomic_load_n(&work->op.result, __ATOMIC_ACQUIRE) != WEFT_PENDING;
}

#endif
