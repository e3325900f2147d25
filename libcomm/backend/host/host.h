/* SPDX-License-Identifier: Apache-2.0 */
/* The backend `host` from inside: it is for several hosts, and composes two others by them. Inside a machine first, by
 * `local`, then between ranks of equal index on their machines, by whatever carries messages between machines. So each
 * byte crosses a wire once for a machine, not for each rank.
 *
 * A collective is cut into cells, each small enough for the staging that was taken with the comm. A cell goes through
 * stations, and at each station all cells of a comm begin in their order, on all ranks: whatever the timing, what one
 * rank starts meets what the others start. Several cells, of one operation or more, are on their way, so that memory
 * and wire are busy together.
 *
 * Sums: over the members of a machine in rank order, then over machines in theirs; partial sums of 16-bit types are
 * fp32, also on the wire, and rounded once, after the division of an average. */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H
#include <stdbool.h>

#include "base/collectives.h"
#include "base/dtype.h"
#include "comm.h"
#include "device/vector.h"
#include "world.h"

enum { WEFT__CELLS = 8 };

/* Where a cell may be. */
typedef enum weft__station {
    WEFT__ENTER_HOST,  /* its inputs are laid out; `local` reduces them */
    WEFT__FIRST_FAR,   /* messages to the other machines */
    WEFT__COMBINE,     /* what they sent becomes the result, or a part of it */
    WEFT__SECOND_FAR,  /* which they may want */
    WEFT__SECOND_NEAR, /* and the ranks of this machine */
    WEFT__LEAVE_HOST,  /* the result is put where the caller wants it */
    WEFT__STATIONS
} weft__station;

/* Channels between machines, behind the caller's. On each, all ranks send and receive in the order of cells: what goes
 * out at one station and comes in at another has a channel of its own. */
typedef enum weft__way { WEFT__WAY_FIRST, WEFT__WAY_SECOND, WEFT__WAY_ALONG, WEFT__WAYS } weft__way;

/* An operation that another backend carries for this one. */
typedef struct weft__inner {
    weft_op op;
    void *memory; /* for that backend */
    bool under_way;
} weft__inner;

typedef struct weft__cell {
    weft_op *op; /* NULL: free */
    uint64_t serial;
    size_t at, count; /* elements, of what the operation is cut into */
    bool first, last; /* of the operation */
    int station;
    bool is_there;      /* has begun at that station */
    size_t done;        /* of what is done in parts before it has */
    weft__inner *nears; /* [machines] */
    int near_count;
    weft__inner far;
    weft_p2p *messages;
    unsigned char *whole, *column, *heard; /* staging; see part.h */
} weft__cell;

/* A batch of messages, in the memory of its operation. */
typedef struct weft__host_batch {
    weft_op *op;
    weft__inner near, far;
    struct weft__host_batch *next;
} weft__host_batch;

typedef struct weft__host_comm {
    struct weft__host *host;
    weft_comm *comm;
    int rank, count;
    int machines, per_machine; /* rank = machine * per_machine + index */
    int machine, index;
    int *near_ranks; /* world ranks of this machine's members */
    uint32_t channels;

    weft__backend_instance *near, *far;
    weft_backend_facts near_facts, far_facts;
    void *near_first, *near_second, *far_comm; /* comms of theirs; of `local` one for each station that uses it */
    bool connected[3];
    uint64_t near_numbers[2];

    weft_op *head, **tail; /* collectives that are not all cut */
    size_t cut;            /* elements of the head that are */
    weft__cell cells[WEFT__CELLS];
    uint64_t opened, closed;                 /* cells */
    uint64_t turn[WEFT__STATIONS];           /* the cell that begins there next */
    size_t piece_bytes;                      /* most that one message carries */
    void *staging, *inner_memory;            /* of all cells */
    const void **sources;                    /* [machines] */
    weft__host_batch *batches, **last_batch; /* that are not done */

    bool failed, stuck, active; /* stuck: somebody may still write into what was lent */
    struct weft__host_comm *next;
} weft__host_comm;

typedef struct weft__host {
    weft_world *world;
    const weft__vector *vector;
    weft__host_comm *active;
    uint64_t turn_end; /* of the comm that has its turn */
} weft__host;

static inline bool weft__host_failed(const weft__host_comm *hc)
{
    return atomic_load_explicit(&hc->comm->verdict, memory_order_relaxed) != WEFT_OK;
}

/* comm.c */
/* What carries messages between these ranks, and how; NULL: nothing does, or machines do not alternate as they must. */
weft__backend_instance *weft__host_far(const weft_backend_question *question, int *per_machine_out,
                                       weft_backend_facts *facts_out);
weft__backend_instance *weft__host_near(const weft_world *world, const int *ranks, int count,
                                        weft_backend_facts *facts_out);
weft_result weft__host_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card);
weft_result weft__host_comm_connect(void *comm, const unsigned char *cards);
void weft__host_comm_abort(void *comm, weft_result result, const char *text);
void weft__host_comm_leave(void *comm);
void weft__host_comm_destroy(void *comm);

/* explain.c */
void weft__host_explain(void *comm, const weft_op *op, char *text, size_t bytes);

/* plan.c: what each collective does at each station. WEFT_PENDING: a part is done, call again; WEFT_AGAIN: call again
 * later. */
typedef weft_result weft__host_begin(weft__host_comm *hc, weft__cell *cell);
typedef struct weft__host_kind {
    size_t (*extent)(const weft__host_comm *hc, const weft_op *op); /* elements that are cut into cells */
    size_t (*most)(const weft__host_comm *hc, const weft_op *op);   /* of one cell */
    weft__host_begin *at[WEFT__STATIONS];                           /* NULL: nothing is done there */
} weft__host_kind;
extern const weft__host_kind weft__host_kinds[];

/* sum.c: all-reduce and reduce; scatter.c: reduce-scatter; copy.c: the others */
weft__host_begin weft__sum_enter, weft__sum_first_far, weft__sum_combine, weft__sum_second_far, weft__sum_second_near,
    weft__sum_leave;
weft__host_begin weft__scatter_enter, weft__scatter_first_far, weft__scatter_combine;
weft__host_begin weft__gather_first_far, weft__gather_second_near;
weft__host_begin weft__broadcast_first_far, weft__broadcast_second_far, weft__broadcast_second_near;
weft__host_begin weft__exchange_enter, weft__exchange_first_far;
weft__host_begin weft__barrier_enter, weft__barrier_first_far;

/* cell.c: cells on their way */
unsigned weft__cells_progress(weft__host_comm *hc);
void weft__cells_give_back(weft__host_comm *hc);
/* Operations of other backends. */
void weft__inner_prepare(weft__inner *inner, const weft_op *of, weft_collective what);
enum { WEFT__NEAR_FIRST, WEFT__NEAR_SECOND };
weft_result weft__near_start(weft__host_comm *hc, weft__cell *cell, int which, weft_collective what, size_t stride);
weft_result weft__far_start(weft__host_comm *hc, weft__inner *inner);
static inline bool weft__inner_ended(const weft__inner *inner)
{
    return !inner->under_way || inner->op.result != WEFT_PENDING;
}

/* batch.c: messages */
void weft__batches_start(weft__host_comm *hc, weft_op *op);
unsigned weft__batches_progress(weft__host_comm *hc);
void weft__batches_give_back(weft__host_comm *hc);
size_t weft__batch_bytes(const weft_backend_facts *near, const weft_backend_facts *far);

#endif
