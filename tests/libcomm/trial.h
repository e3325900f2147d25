/* SPDX-License-Identifier: Apache-2.0 */
/* One collective to be tried on any comm: every rank fills its memory with values that only it has, and knows what must
 * come. */
#ifndef WEFT_TESTS_LIBCOMM_TRIAL_H
#define WEFT_TESTS_LIBCOMM_TRIAL_H
#include <weft/collective.h>
#include <weft/world.h>

#include "harness/values.h"

typedef struct trial {
    weft_collective_kind kind;
    weft_dtype dtype;
    weft_reduction reduction;
    size_t count;
    int root;
    bool in_place, in_heap;
} trial;

typedef struct memory {
    unsigned char *send, *recv, *all;
    size_t recv_bytes;
} memory;

/* Are there such collectives? */
bool trial_makes_sense(const trial *t);
/* Both buffers, filled, with a guard behind the result, or one for both. */
memory trial_place(weft_world *world, const trial *t, int rank, int ranks);
weft_collective trial_collective(const trial *t, const memory *m);
/* This rank has what its definition gives, bit by bit, and nothing was written behind it. */
void trial_check(const trial *t, const memory *m, int rank, shape s);
void trial_release(weft_world *world, const trial *t, const memory *m);

#endif
