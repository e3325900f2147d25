/* SPDX-License-Identifier: Apache-2.0 */
/* Works from inside. A work's value names the place of its slot and the life that it leads there, so that a stale one
 * is known without touching what lives there now: slots keep their place until the world is closed. */
#ifndef WEFT_LIBCOMM_WORK_H
#define WEFT_LIBCOMM_WORK_H
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>
#include <weft/work.h>

#include "base/memory.h"

/* value = address / 2048 << 27 | generation; addresses have 48 bits, as on aarch64 (on x86-64 47). A slot that lives
 * again 100 million times a second has the same value after a second and more, so values are told apart as long as
 * anybody should keep one. */
#define WEFT__WORK_ALIGN           2048
#define WEFT__WORK_ADDRESS_BITS    48
#define WEFT__WORK_GENERATION_BITS 27

_Static_assert(((uint64_t)1 << WEFT__WORK_ADDRESS_BITS) / WEFT__WORK_ALIGN - 1 ==
                   UINT64_MAX >> WEFT__WORK_GENERATION_BITS,
               "a value has room for both");

static inline weft_work weft__work_pack(uint64_t address, uint64_t generation)
{
    return (weft_work){address / WEFT__WORK_ALIGN << WEFT__WORK_GENERATION_BITS | generation};
}

static inline uint64_t weft__work_address(weft_work work)
{
    return (work.value >> WEFT__WORK_GENERATION_BITS) * WEFT__WORK_ALIGN;
}

static inline uint64_t weft__work_generation(weft_work work)
{
    return work.value & (((uint64_t)1 << WEFT__WORK_GENERATION_BITS) - 1);
}

/* Can slots lie there, up to the byte before @p end? */
static inline bool weft__work_fits(uint64_t end)
{
    return (end - 1) >> WEFT__WORK_ADDRESS_BITS == 0;
}

/* state = generation << 25 | claimed << 24 | holds, in one word: who takes a hold and who finishes decide it between
 * them. Without holds the slot is free. Claimed: its one finish has come, and nobody can take a hold any more. */
#define WEFT__WORK_STATE_SHIFT 25
#define WEFT__WORK_CLAIMED     ((uint64_t)1 << 24)
#define WEFT__WORK_HOLDS       (WEFT__WORK_CLAIMED - 1)

typedef struct weft__work {
    _Alignas(WEFT__LINE) _Atomic uint64_t state; /* held by its finish, and by works that run after it */
    struct weft__work_slots *slots;              /* it is one of these: of its comm, until that is gone */
    uint32_t index;                              /* among them */
    _Atomic bool taken_up;                       /* by the seat, and not ended */
    _Atomic uint64_t left;                       /* the life that was finished on a stream of a GPU before it ended:
                                                    whoever sees both ends it; 0 = none */
    weft_comm *comm;
    struct weft__work *next;  /* in the queue of new works, then in the comm's held works */
    struct weft__work *after; /* runs after this one, which it holds */
    uint64_t record;          /* of the trace */
    uint64_t ready;           /* ticks */
    weft_op op;
    _Alignas(WEFT__LINE) unsigned char memory[]; /* the backend's, then the messages of a batch */
} weft__work;

/* The slots of one comm: as many as may be in flight. */
typedef struct weft__work_slots {
    weft_world *world;
    unsigned char *pages;
    size_t stride, bytes;
    uint32_t count;                /* a multiple of 64 */
    uint32_t next_of_many;         /* where to look for a free one, beyond the first few */
    struct weft__work_slots *next; /* in the pool */
    bool in_use;
} weft__work_slots;

/* All slots of a world. */
typedef struct weft__work_pool {
    weft__work_slots *first;
} weft__work_pool;

/* Slots for a comm of @p world, @p count rounded up to 64. */
weft_result weft__work_pool_take(weft_world *world, uint32_t count, size_t memory_bytes, weft__work_slots **slots_out);
/* Give them back. */
void weft__work_pool_give(weft__work_slots *slots);
void weft__work_pool_close(weft__work_pool *pool);

static inline weft__work *weft__work_at(const weft__work_slots *slots, uint32_t index)
{
    return (weft__work *)(slots->pages + index * slots->stride);
}

/* Only who starts operations on the comm makes it live again. */
static inline bool weft__work_is_free(weft__work *work)
{
    return !(atomic_load_explicit(&work->state, memory_order_acquire) & WEFT__WORK_HOLDS);
}

/* Has its finish not come yet? */
static inline bool weft__work_is_unfinished(weft__work *work)
{
    uint64_t state = atomic_load(&work->state);
    return state & WEFT__WORK_HOLDS && !(state & WEFT__WORK_CLAIMED);
}

/* "all_reduce 41 (reduce bucket 2) on comm dp" */
void weft__work_describe(const weft__work *work, char *text, size_t bytes);
/* "3 works were started and not finished, the oldest barrier 7 on comm dp". False: all were. In the seat. */
bool weft__work_describe_unfinished(const weft__work_slots *slots, char *text, size_t bytes);
/* A free slot, held once; NULL: all are in flight. One caller at a time for the comm. */
weft__work *weft__work_take(weft__work_slots *slots);
/* The value of a work that was just taken. */
weft_work weft__work_value(const weft__work *work);
/* The live work of that value, or NULL: stale, or none. It may end its life at any time. */
weft__work *weft__work_find(weft_work work);
/* The same, held: it keeps its slot until it is released. */
weft__work *weft__work_hold(weft_work work);
/* The same for its one finish: nobody finds it any more. */
weft__work *weft__work_claim(weft_work work);
/* A work that nobody has the value of is claimed by who took it. */
void weft__work_claim_own(weft__work *work);
/* Let go once; the last one frees the slot. */
void weft__work_release(weft__work *work);
/* Give up a claimed work that has ended. How it ended. @p came: when the caller came to wait for it, and @p went on; if
 * it had ended before, it went on at once. */
weft_result weft__work_end(weft__work *work, uint64_t came, uint64_t went);
/* This life of it, never 0. */
static inline uint64_t weft__work_life(weft__work *work)
{
    return (atomic_load_explicit(&work->state, memory_order_relaxed) >> WEFT__WORK_STATE_SHIFT) + 1;
}

/* It has ended: if @p life of it was left, that ends. By then it may lead another. */
void weft__work_end_left(weft__work *work, uint64_t life);
/* Wait for one that was left and whose life has not ended. False: there is none. */
bool weft__work_await_left(weft__work_slots *slots);

static inline bool weft__work_ended(weft__work *work)
{
    return __atomic_load_n(&work->op.result, __ATOMIC_ACQUIRE) != WEFT_PENDING;
}

#endif
