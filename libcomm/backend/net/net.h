/* SPDX-License-Identifier: Apache-2.0 */
/* What backends between hosts share, ranks that reach each other by records: comms, streams, collectives, messages and
 * failure. Everything here happens in the world's seat.
 *
 * Memory of the caller is read and written until an operation is given back, and not a moment longer: of a failed comm
 * they are given back at once, whatever the carrier and the peers still do with the records. */
#ifndef WEFT_NET_NET_H
#define WEFT_NET_NET_H
#include <stdbool.h>
#include <sys/uio.h>
#include <weft/backend.h>
#include <weft/trace.h>

#include "carrier.h"
#include "record.h"

#define WEFT__NET_COMMS      512                             /* of a world, a power of two: more than a rank can have */
#define WEFT__NET_CARD_BYTES (WEFT_BACKEND_CARD_BYTES - 128) /* leaves room for who composes it with others */
#define WEFT__NET_SLOTS      4 /* records of a stream that the carrier may hold at a time */
#define WEFT__NET_TEXT_BYTES 256

/* ------------------------------------------------------------------------------------------- the world's part */

/* What is between this rank and another one, whatever comms they share. */
typedef struct weft__net_way {
    bool reached;  /* the carrier was asked to make the way */
    bool heard;    /* something has come, so that the other has one here, too */
    bool answered; /* it has read all that was sent */
    weft__net_slot farewell, answer;
    weft__net_head heads[2]; /* of these */
} weft__net_way;

struct weft__net {
    weft_world *world;
    const weft__carrier *carrier;
    void *carries;       /* the carrier's state */
    weft__net_way *ways; /* [world size] */

    weft__net_comm *comms[WEFT__NET_COMMS]; /* by number */
    uint32_t last_number;
    weft__net_comm *active; /* comms with operations, or something to say */
    weft__net_comm *gone;   /* destroyed, but the carrier holds slots of theirs */

    uint64_t slice_ticks, turn_end; /* how long a turn is, and when the one at hand ends */
    bool heard;                     /* the carrier had something in this turn */
};

/* turns.c: the calls of a backend that are the same for all carriers. `open` makes the part of the world that they
 * work on, the carrier's included, and is not for a world of one; `close` gives all of it back. */
weft_result weft__net_open(weft_world *world, const weft__carrier *carrier, void **state_out);
void weft__net_close(void *net);
weft_result weft__net_start(void *comm, weft_op *op);
unsigned weft__net_progress(void *net, uint64_t slice_ticks);
int weft__net_fd(void *net);
weft_result weft__net_arm(void *net);
/* Who of them serves a comm that names none: a fabric, or else what costs least over TCP; a wire of somebody's own goes
 * before the latter. */
#define WEFT__SCORE_FABRIC       WEFT_SCORE_WIRE
#define WEFT__SCORE_SOCKETS      (WEFT_SCORE_WIRE - 2)
#define WEFT__SCORE_UCX_OVER_TCP (WEFT_SCORE_WIRE - 3)
/* For `query`: all but the score. */
void weft__net_facts(weft_backend_facts *facts);
#define WEFT__NET_CALLS                                                                                             \
    .close = weft__net_close, .comm_create = weft__net_comm_create, .comm_connect = weft__net_comm_connect,         \
    .comm_abort = weft__net_comm_abort, .comm_leave = weft__net_comm_leave, .comm_destroy = weft__net_comm_destroy, \
    .start = weft__net_start, .progress = weft__net_progress, .explain = weft__net_explain, .fd = weft__net_fd,     \
    .arm = weft__net_arm

void weft__net_activate(weft__net_comm *nc);

static inline uint64_t weft__net_ticks(const weft__net *net)
{
    return weft_trace_now(net->world);
}

static inline bool weft__net_turn_over(const weft__net *net)
{
    return weft__net_ticks(net) >= net->turn_end;
}

/* Of a message, in each record but its last. */
static inline size_t weft__net_chunk_bytes(const weft__net *net)
{
    return net->carrier->record_bytes - WEFT__NET_HEAD_BYTES;
}

/* ------------------------------------------------------------------------------------------- streams of messages */

/* One side of a message. */
typedef struct weft__net_parcel {
    unsigned char *at;
    size_t bytes, done; /* done: sent, its memory is not read any more; or come */
    size_t given;       /* of what is to be sent: to the carrier */
    size_t ready;       /* so far it may be sent, or written into: a multiple of a chunk, or all */
    size_t ring;        /* `at` holds the last bytes only, so many, in a ring; 0 = all */
    bool begun;         /* its first record was sent, or has come */
    weft__net_request request;
    weft_op *op;
    struct weft__net_parcel *next;
} weft__net_parcel;

typedef struct weft__net_queue {
    weft__net_parcel *first, *last;
} weft__net_queue;

typedef enum weft__net_arrival { WEFT__NET_NOWHERE, WEFT__NET_INTO_PLACE, WEFT__NET_INTO_STASH } weft__net_arrival;

/* A stream from this rank to a member and one back, of the collectives of a comm or of one channel. Positions count
 * the bytes of records since the comm was made.
 *
 * A record may be sent if the receiver has room for it: what was asked for goes where it belongs at once, and as much
 * again as the stash holds may come unasked. So the limit is the end of what is asked for, and a stash beyond. */
struct weft__net_lane {
    weft__net_comm *nc;
    int member;
    uint8_t stream;

    weft__net_queue out;
    weft__net_parcel *next_out; /* the first that the carrier has not all of */
    uint64_t sent, limit;
    weft__net_slot slots[WEFT__NET_SLOTS], credit;
    weft__net_lane *next_busy;
    bool busy; /* there is something to send when the carrier or the member allows it */

    weft__net_queue in;
    uint64_t came, taken;   /* records in between lie in the stash */
    weft__net_parcel *edge; /* the first that is not ready in full, */
    uint64_t edge_position; /* and where it begins; without one, where everything asked for ends */
    uint64_t announced;     /* the limit that the member knows */
    unsigned char *stash;
    size_t stash_bytes;
    weft__net_arrival arrival; /* where the record goes that is coming */
};

/* lane.c */
/* @p memory: as much as weft__net_lane_memory() says; NULL: to this rank itself, which it never uses. */
void weft__net_lane_open(weft__net_lane *lane, weft__net_comm *nc, int member, int stream, unsigned char *memory);
size_t weft__net_lane_memory(const weft__net_comm *nc);
/* Hand over a parcel, filled but for `next`, `done`, `begun`. Ends are told to the file of its stream:
 * weft__net_collective_ended(), weft__net_p2p_ended(). */
void weft__net_lane_send(weft__net_lane *lane, weft__net_parcel *parcel);
void weft__net_lane_expect(weft__net_lane *lane, weft__net_parcel *parcel);
/* Go on, as parcels have become ready or the carrier has let go of slots. */
unsigned weft__net_lane_move(weft__net_lane *lane);
/* The member has room as far as that; what it said last may come first. */
static inline void weft__net_lane_may_send(weft__net_lane *lane, uint64_t limit)
{
    lane->limit = limit > lane->limit ? limit : lane->limit;
}
/* The carrier does not read so many bytes any more, the first that it has. */
void weft__net_lane_sent(weft__net_lane *lane, size_t bytes);
/* A record comes, in three steps: its head; where its bytes from @p from on go, in at most two pieces (0: nowhere, they
 * are to be dropped, as they may be from a moment to the next); all of it is there. */
void weft__net_lane_begin(weft__net_lane *lane, const weft__net_head *head);
int weft__net_lane_room(weft__net_lane *lane, const weft__net_head *head, size_t from, struct iovec room[2]);
void weft__net_lane_end(weft__net_lane *lane, const weft__net_head *head);
void weft__net_lane_drop(weft__net_lane *lane);
/* Does it wait for its member? */
bool weft__net_lane_misses(const weft__net_lane *lane);

/* message.c: WEFT_OK, or how the way to @p rank is lost and why: as the carrier knows; or as the world does, for a
 * child of a rank that has ended may keep its connections open. */
weft_result weft__net_lost(const weft__net *net, int rank, const char **why_out);
/* Records. A slot holds a head that is filled but for its first part. */
void weft__net_send(weft__net_comm *nc, int member, weft__net_slot *slot);
void weft__net_tell(weft__net_comm *nc, int member, weft__net_what what, weft_result result, const char *text);
/* For the carrier. It does not read the payload any more; and not the record either. */
void weft__net_sent(weft__net_slot *slot);
void weft__net_let_go(weft__net_slot *slot);
/* A whole record has come, which lies in memory: what is behind the head at @p bytes. */
void weft__net_hear(weft__net *net, const weft__net_head *head, const unsigned char *bytes);
/* Does who sends say who it is? */
bool weft__net_may_come_from(const weft__net *net, const weft__net_head *head, int rank);
/* farewell.c: before the carrier is closed, have others read what was sent; and take in what they say of that. */
void weft__net_take_leave(weft__net *net);
void weft__net_hear_farewell(weft__net *net, const weft__net_head *head);
/* The same as weft__net_hear() for WEFT__NET_DATA in three steps, as with lanes. */
void weft__net_begin(weft__net *net, const weft__net_head *head);
int weft__net_room(weft__net *net, const weft__net_head *head, size_t from, struct iovec room[2]);
void weft__net_end(weft__net *net, const weft__net_head *head);

/* ------------------------------------------------------------------------------------------- comms */

enum { WEFT__NET_TOLD = 3 }; /* hello, verdict, leave: each once */

typedef struct weft__net_peer {
    uint32_t comm; /* its number for the comm */
    bool left;     /* it has destroyed the comm */
    weft__net_slot told[WEFT__NET_TOLD];
    int told_count;
    /* What it was last seen asking for, for explanations. */
    uint64_t seen_number, seen_ticks;
    uint8_t seen_kind;
} weft__net_peer;

/* What one rank has to do for one collective; see plan.c. */
typedef struct weft__net_plan {
    weft__net_parcel *in, *out; /* [2 * count]: [member] are exchanged first, [count + member] follow */
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
} weft__net_plan;

struct weft__net_comm {
    weft__net *net;
    weft_comm *comm;
    const char *name;
    int rank, count;
    const int *ranks;      /* world ranks */
    uint32_t number;       /* ours for it */
    uint32_t streams;      /* 1 + channels */
    uint32_t parts_from;   /* channels from this one on carry parts of collectives */
    weft__net_peer *peers; /* [count] */
    weft__net_lane *lanes; /* [count * streams] */

    unsigned char *memory; /* of lanes and stages */
    size_t memory_bytes;
    size_t stash_bytes;   /* of each lane */
    unsigned char *stage; /* [count + 1] rings of stage_bytes: what came to be summed, and the sum */
    size_t stage_bytes;
    const void **sources; /* [count] */

    weft_op *head, **tail;
    bool begun;             /* the head has */
    weft__net_request last; /* what the operation asks for that began last */
    weft__net_plan plan;
    weft__net_lane *busy_lanes;
    uint64_t p2p_left; /* messages that have not ended */

    int held; /* slots that the carrier holds */
    bool connected, failed, active;
    weft__net_comm *next; /* active or gone */
};

/* comm.c */
weft_result weft__net_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card);
weft_result weft__net_comm_connect(void *comm, const unsigned char *cards);
void weft__net_comm_leave(void *comm);
void weft__net_comm_destroy(void *comm);
void weft__net_comm_free(weft__net_comm *nc);
/* fail.c */
void weft__net_comm_abort(void *comm, weft_result result, const char *text);
/* The member has left, or the way to it is broken: the comm fails if it is missed. */
void weft__net_look_for_failure(weft__net_comm *nc, int member);
void weft__net_rank_lost(weft__net *net, int rank, weft_result result, const char *why);
void weft__net_explain(void *comm, const weft_op *op, char *text, size_t text_bytes);

/* collective.c */
void weft__net_collective_start(weft__net_comm *nc, weft_op *op);
unsigned weft__net_collectives(weft__net_comm *nc);
void weft__net_collective_ended(weft__net_comm *nc);
/* The first record of a message has come. Is it what the parcel (NULL: none) is for? A difference fails the comm. */
bool weft__net_collective_fits(weft__net_comm *nc, int member, const weft__net_request *theirs,
                               const weft__net_parcel *parcel);
/* plan.c */
/* Of the head, asking for nc->last. */
void weft__net_plan_make(weft__net_comm *nc, weft_op *op);

/* p2p.c */
typedef struct weft__net_batch {
    uint64_t left; /* messages that have not ended */
} weft__net_batch;
void weft__net_p2p_start(weft__net_comm *nc, weft_op *op);
void weft__net_p2p_ended(weft__net_comm *nc, const weft__net_parcel *parcel);
bool weft__net_p2p_fits(const weft__net_lane *lane, const weft__net_request *theirs, const weft__net_parcel *parcel);

static inline weft__net_lane *weft__net_lane_of(const weft__net_comm *nc, int member, uint32_t stream)
{
    return &nc->lanes[(size_t)member * nc->streams + stream];
}

#endif
