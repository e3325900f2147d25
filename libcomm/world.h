/* SPDX-License-Identifier: Apache-2.0 */
/* The world from inside: what the files of libcomm's core share. */
#ifndef WEFT_LIBCOMM_WORLD_H
#define WEFT_LIBCOMM_WORLD_H
#include <pthread.h>
#include <weft/backend.h>
#include <weft/trace.h>
#include <weft/world.h>

#include "backend/registry.h"
#include "base/memory.h"
#include "bootstrap/identity.h"
#include "device/device.h"
#include "progress.h"
#include "shared/heap.h"
#include "shared/segment.h"
#include "trace.h"
#include "work.h"

typedef struct weft__control weft__control;

/* How often this rank has come to make a comm of that name and these ranks. */
typedef struct weft__name_use {
    char name[WEFT_COMM_NAME_MAX + 1];
    uint64_t ranks_hash;
    uint32_t count;
    bool in_use; /* by a comm that was not destroyed */
    struct weft__name_use *next;
} weft__name_use;

/* How a rank was lost. */
enum { WEFT__LOST_ENDED = 1, WEFT__LOST_SILENT = 2 };

/* How often a rank had said why a comm failed (weft__board.reasons), and which of all reasons its last one was. */
typedef struct weft__said {
    uint32_t count;
    uint64_t last;
} weft__said;

struct weft_world {
    const uint64_t *guard; /* reads WEFT__GUARD here, 0 in a child of fork() */
    int rank, size;
    weft_world_config config;   /* complete; its strings are copies */
    weft__identity *identities; /* of every rank */
    int *host_of, *machine_of;  /* of every rank: numbers, equal for equal texts */

    /* The ranks and the memory of those on this machine; NULL in a world of one rank. */
    weft__segment **segments; /* [rank]; NULL: on another machine */
    weft__segment *segments_owned;
    int *neighbours; /* those on this machine, with this rank */
    int neighbour_count;
    weft__segment *own;
    weft__heap heap;
    weft__board **boards;   /* [rank]: in its segment, or a copy */
    _Atomic uint8_t *lost;  /* [rank]: WEFT__LOST_*; 0 = it is not */
    weft__control *control; /* NULL: all ranks are on this machine */

    weft__device *gpu;      /* opened when it is first asked for, */
    weft_stream gpu_stream; /* with a stream for what weft computes there */
    struct weft__gpu_word *gpu_words;
    pthread_mutex_t gpu_lock;

    weft__trace *trace;
    weft__progress progress;
    /* Those that serve this world: the seat's, but what `query` needs of the first backend_count stays as it is. */
    weft__backend_instance *backends;
    _Atomic int backend_count;
    int backends_tried; /* of the registry's */
    weft__work_pool works;

    weft_comm *comms;       /* list; the seat's */
    weft__said *said;       /* [rank]: what was noticed of why comms failed; the seat's, */
    uint64_t reasons;       /* how many there were of all ranks, */
    uint64_t reasons_due;   /* how many of them count, */
    uint32_t reasons_round; /* and in which round the last was noticed */
    weft_comm *destroyed;   /* list: comms that other ranks may still look at; the seat's */
    weft__name_use *names;
    pthread_mutex_t error_lock;
    weft_result first_error; /* of any comm */
    char first_error_text[256];
};

#define WEFT__GUARD 0x6472617567746677ull

/* E_FORKED in a child of the process that opened the world. */
weft_result weft__world_forked(void);
static inline weft_result weft__world_alive(const weft_world *world)
{
    return __builtin_expect(*world->guard == WEFT__GUARD, 1) ? WEFT_OK : weft__world_forked();
}

/* Make a piece of what the other ranks have added to their heaps present here: is there more? Any thread, one at a time
 * (the engine). */
bool weft__world_populate(weft_world *world);

#endif
