/* SPDX-License-Identifier: Apache-2.0 */
/* The ucx backend from inside: ranks that reach each other through UCX, whatever the network. Everything here happens
 * in the world's seat.
 *
 * UCX never sees memory of the caller: records are copied into slots of the comm, and out of what UCX has received. So
 * operations of a failed comm are given back at once, whatever UCX and the peers still do with the slots. */
#ifndef WEFT_UCX_UCX_H
#define WEFT_UCX_UCX_H
#include <stdbool.h>
#include <ucp/api/ucp.h>
#include <weft/backend.h>
#include <weft/trace.h>

#include "wire.h"

#define WEFT__UCX_COMMS       512 /* of a world, a power of two: more than a rank can have */
#define WEFT__UCX_CARD_BYTES  (WEFT_BACKEND_CARD_BYTES - 128) /* leaves room for who composes it with others */
#define WEFT__UCX_SLOTS       4                               /* records of a stream that UCX may hold at a time */
#define WEFT__UCX_STASH_BYTES ((size_t)256 << 10)             /* of a stream that nobody has asked for yet */
#define WEFT__UCX_TEXT_BYTES  256

typedef struct weft__ucx weft__ucx;
typedef struct weft__ucx_comm weft__ucx_comm;
typedef struct weft__ucx_lane weft__ucx_lane;

/* ------------------------------------------------------------------------------------------- the world's part */

/* The way to a rank, shared by the comms with it. */
typedef struct weft__ucx_endpoint {
    weft__ucx *ucx;
    int rank;
    ucp_ep_h ep;                     /* NULL = not made yet */
    ucs_status_t status;             /* not UCS_OK: it is broken */
    weft__ucx_head farewell, answer; /* as they are sent */
    bool answered;                   /* our farewell was */
} weft__ucx_endpoint;

struct weft__ucx {
    weft_world *world;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int fd;
    weft__ucx_endpoint *endpoints; /* [world size] */

    weft__ucx_comm *comms[WEFT__UCX_COMMS]; /* by number */
    uint32_t last_number;
    weft__ucx_comm *active; /* comms with operations, or something to say */
    weft__ucx_comm *gone;   /* destroyed, but UCX holds slots of theirs */

    bool unflushed;                 /* something was sent since the last flush: it may still lie in UCX */
    void *flush;                    /* the request of one that goes on */
    uint64_t slice_ticks, turn_end; /* how long a turn is, and when the one at hand ends */
};

/* worker.c */
weft_result weft__ucx_open(weft_world *world, void **state_out);
void weft__ucx_close(void *state);
int weft__ucx_fd(void *state);
weft_result weft__ucx_arm(void *state);
/* Nothing that was sent may stay in UCX while nobody moves it along: is there something left? */
bool weft__ucx_flushes(weft__ucx *ucx);
/* endpoint.c */
weft_result weft__ucx_endpoint_make(weft__ucx *ucx, int rank, const unsigned char *address);
void weft__ucx_endpoint_break(weft__ucx_endpoint *endpoint, ucs_status_t status);
/* A farewell or an answer has come. */
void weft__ucx_endpoint_hear(weft__ucx *ucx, const weft__ucx_head *head);
/* Close all, once those who listen have read what was sent. */
void weft__ucx_endpoints_close(weft__ucx *ucx);
/* module.c: take turns */
unsigned weft__ucx_progress(void *state, uint64_t slice_ticks);
void weft__ucx_activate(weft__ucx_comm *uc);

static inline uint64_t weft__ucx_ticks(const weft__ucx *ucx)
{
    return weft_trace_now(ucx->world);
}

static inline bool weft__ucx_turn_over(const weft__ucx *ucx)
{
    return weft__ucx_ticks(ucx) >= ucx->turn_end;
}

/* ------------------------------------------------------------------------------------------- streams of messages */

/* A record that UCX may hold. */
typedef struct weft__ucx_slot {
    weft__ucx_comm *uc;
    unsigned char *record;
    bool busy;
} weft__ucx_slot;

/* One side of a message. */
typedef struct weft__ucx_parcel {
    unsigned char *at;
    size_t bytes, done;
    size_t ready; /* so far it may be sent, or written into: a multiple of a chunk, or all */
    size_t ring;  /* `at` holds the last bytes only, so many, in a ring; 0 = all */
    bool begun;   /* its first record was sent, or has come */
    weft__ucx_request request;
    weft_op *op;
    struct weft__ucx_parcel *next;
} weft__ucx_parcel;

typedef struct weft__ucx_queue {
    weft__ucx_parcel *first, *last;
} weft__ucx_queue;

/* A stream from this rank to a member and one back, of the collectives of a comm or of one channel. Positions count
 * the bytes of records since the comm was made.
 *
 * A record may be sent if the receiver has room for it: what was asked for goes where it belongs at once, and as much
 * again as the stash holds may come unasked. So the limit is the end of what is asked for, and a stash beyond. */
struct weft__ucx_lane {
    weft__ucx_comm *uc;
    int member;
    uint8_t stream;

    weft__ucx_queue out;
    uint64_t sent, limit;
    weft__ucx_slot slots[WEFT__UCX_SLOTS], credit;
    weft__ucx_lane *next_busy;
    bool busy; /* there is something to send when UCX or the member allows it */

    weft__ucx_queue in;
    uint64_t came, taken;   /* records in between lie in the stash */
    weft__ucx_parcel *edge; /* the first that is not ready in full, */
    uint64_t edge_position; /* and where it begins; without one, where everything asked for ends */
    uint64_t announced;     /* the limit that the member knows */
    unsigned char *stash;
};

/* lane.c */
void weft__lane_open(weft__ucx_lane *lane, weft__ucx_comm *uc, int member, int stream, unsigned char *memory);
size_t weft__lane_memory(void);
/* Hand over a parcel, filled but for `next`, `done`, `begun`. Ends are told to the file of its stream:
 * weft__ucx_collective_ended(), weft__ucx_p2p_ended(). */
void weft__lane_send(weft__ucx_lane *lane, weft__ucx_parcel *parcel);
void weft__lane_expect(weft__ucx_lane *lane, weft__ucx_parcel *parcel);
/* Go on, as parcels have become ready or UCX has let go of slots. */
unsigned weft__lane_move(weft__ucx_lane *lane);
void weft__lane_arrive(weft__ucx_lane *lane, const weft__ucx_head *head, const unsigned char *bytes);
void weft__lane_drop(weft__ucx_lane *lane);
/* Does it wait for its member? */
bool weft__lane_misses(const weft__ucx_lane *lane);

/* message.c: records */
/* @p bytes counts the head, whose first part is filled here. */
void weft__ucx_send(weft__ucx_comm *uc, int member, weft__ucx_slot *slot, size_t bytes);
void weft__ucx_tell(weft__ucx_comm *uc, int member, weft__ucx_what what, weft_result result, const char *text);
ucs_status_t weft__ucx_hear(void *ucx, const void *header, size_t header_bytes, void *data, size_t bytes,
                            const ucp_am_recv_param_t *param);

/* ------------------------------------------------------------------------------------------- comms */

enum { WEFT__UCX_TOLD = 3 }; /* hello, verdict, leave: each once */

typedef struct weft__ucx_peer {
    uint32_t comm; /* its number for the comm */
    bool left;     /* it has destroyed the comm */
    weft__ucx_slot told[WEFT__UCX_TOLD];
    int told_count;
    /* What it was last seen asking for, for explanations. */
    uint64_t seen_number, seen_ticks;
    uint8_t seen_kind;
} weft__ucx_peer;

/* What one rank has to do for one collective; see plan.c. */
typedef struct weft__ucx_plan {
    weft__ucx_parcel *in, *out; /* [2 * count]: [member] are exchanged first, [count + member] follow */
    int left;                   /* parcels that have not ended */

    /* The sum of what comes first from all members, and of our own. */
    bool sums;
    const unsigned char *own;
    unsigned char *sum;
    size_t sum_bytes, summed;
    size_t sum_ring;    /* `sum` is a ring that goes to the root; 0 = it holds all */
    bool sum_after_out; /* `sum` may be what is sent first */

    const unsigned char *copy_from; /* our own part */
    unsigned char *copy_to;
    size_t copy_bytes, copied;

    int relay;     /* member of whose first parcel all is sent on as it comes; -1 = none */
    bool exchange; /* in place: as much may come from a member as was sent to it */
} weft__ucx_plan;

struct weft__ucx_comm {
    weft__ucx *ucx;
    weft_comm *comm;
    const char *name;
    int rank, count;
    const int *ranks;      /* world ranks */
    uint32_t number;       /* ours for it */
    uint32_t streams;      /* 1 + channels */
    uint32_t parts_from;   /* channels from this one on carry parts of collectives */
    weft__ucx_peer *peers; /* [count] */
    weft__ucx_lane *lanes; /* [count * streams] */

    unsigned char *memory; /* of lanes and stages */
    size_t memory_bytes;
    unsigned char *stage; /* [count + 1] rings of stage_bytes: what came to be summed, and the sum */
    size_t stage_bytes;
    const void **sources; /* [count] */

    weft_op *head, **tail;
    bool begun;             /* the head has */
    weft__ucx_request last; /* what the operation asks for that began last */
    weft__ucx_plan plan;
    weft__ucx_lane *busy_lanes;
    uint64_t p2p_left; /* messages that have not ended */

    int held; /* slots that UCX holds */
    bool connected, failed, active;
    weft__ucx_comm *next; /* active or gone */
};

/* comm.c */
weft_result weft__ucx_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card);
weft_result weft__ucx_comm_connect(void *comm, const unsigned char *cards);
void weft__ucx_comm_leave(void *comm);
void weft__ucx_comm_destroy(void *comm);
void weft__ucx_comm_free(weft__ucx_comm *uc);
/* fail.c */
void weft__ucx_comm_abort(void *comm, weft_result result, const char *text);
/* The member has left, or the way to it is broken: the comm fails if it is missed. */
void weft__ucx_look_for_failure(weft__ucx_comm *uc, int member);
void weft__ucx_rank_lost(weft__ucx *ucx, int rank, ucs_status_t status);
void weft__ucx_explain(void *comm, const weft_op *op, char *text, size_t text_bytes);

/* collective.c */
void weft__ucx_collective_start(weft__ucx_comm *uc, weft_op *op);
unsigned weft__ucx_collectives(weft__ucx_comm *uc);
void weft__ucx_collective_ended(weft__ucx_comm *uc);
/* The first record of a message has come. Is it what the parcel (NULL: none) is for? A difference fails the comm. */
bool weft__ucx_collective_fits(weft__ucx_comm *uc, int member, const weft__ucx_request *theirs,
                               const weft__ucx_parcel *parcel);
/* A record of so many bytes has come for the parcel. If all else that is to be added to it is there, the sum is made at
 * once, while caches hold the bytes, and they need no place; else false. */
bool weft__ucx_collective_sums(weft__ucx_comm *uc, int member, const weft__ucx_parcel *parcel,
                               const unsigned char *bytes, size_t count);
/* plan.c */
/* Of the head, asking for uc->last. */
void weft__ucx_plan_make(weft__ucx_comm *uc, weft_op *op);

/* p2p.c */
typedef struct weft__ucx_batch {
    uint64_t left; /* messages that have not ended */
} weft__ucx_batch;
void weft__ucx_p2p_start(weft__ucx_comm *uc, weft_op *op);
void weft__ucx_p2p_ended(weft__ucx_comm *uc, const weft__ucx_parcel *parcel);
bool weft__ucx_p2p_fits(const weft__ucx_lane *lane, const weft__ucx_request *theirs, const weft__ucx_parcel *parcel);

static inline weft__ucx_lane *weft__ucx_lane_of(const weft__ucx_comm *uc, int member, uint32_t stream)
{
    return &uc->lanes[(size_t)member * uc->streams + stream];
}

static inline weft__ucx_endpoint *weft__ucx_endpoint_of(const weft__ucx_comm *uc, int member)
{
    return &uc->ucx->endpoints[uc->ranks[member]];
}

#endif
