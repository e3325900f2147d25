/* SPDX-License-Identifier: Apache-2.0 */
/* A grid that runs, and its threads: each is a fiber of one thread of the host. */
#ifndef STANDIN_GRID_THREADS_H
#define STANDIN_GRID_THREADS_H
#include <setjmp.h>
#include <ucontext.h>

#include "grid.h"

enum { LANES = 32, THREADS_MOST = 1024, STACK_BYTES = 256 * 1024, GUARD_BYTES = 1024, ALIGNMENT = 128 };
enum { STACK_GUARD_BYTES = 64 * 1024 }; /* below a stack: pages of any size, that nobody may touch */

/* Where a thread is, or what its warp does once all lanes have come. */
typedef enum place { READY, AT_BLOCK, AT_WARP, AT_SHUFFLE, AT_MATRICES, AT_PRODUCT, ENDED } place;
typedef struct copy {
    unsigned char *to;
    const void *from;
    size_t bytes;
    bool zero;
    unsigned group;
} copy;

typedef struct fiber {
    unsigned number;
    place place;
    bool begun;
    jmp_buf at;
    ucontext_t start;
    unsigned char *stack;
    /* a lane's part of what its warp does */
    const void *row;
    uint32_t *fragment;
    bool transposed;
    float *c, value, *answer;
    uint32_t a[4], b[2];
    unsigned mask;
    /* copies under way */
    copy *copies;
    size_t copy_count, copy_room;
    unsigned committed;
} fiber;

typedef struct grid {
    const char *name;
    const standin_range *ranges;
    size_t range_count;
    void (*thread)(const void *argument, unsigned block, void *shared);
    const void *argument;
    unsigned block, threads, left; /* left: threads that have not ended */
    unsigned char *shared;
    size_t shared_bytes;
    fiber *fibers[THREADS_MOST], *running; /* those there have been, and may be again */
    unsigned ready[THREADS_MOST], ready_count;
    unsigned at_block, at_warp[THREADS_MOST / LANES];
    uint64_t random;
    jmp_buf home;
    const void *home_stack;
    size_t home_stack_bytes;
    bool from_home, failed;
} grid;

#endif
