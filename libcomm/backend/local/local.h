/* SPDX-License-Identifier: Apache-2.0 */
/* The local backend from inside: ranks of one host that read each other's memory. Everything here happens in the
 * seat. */
#ifndef WEFT_LOCAL_LOCAL_H
#define WEFT_LOCAL_LOCAL_H
#include <stdbool.h>

#include "backend/local/cache.h"
#include "backend/local/page.h"
#include "backend/local/pipe.h"
#include "backend/local/reuse.h"
#include "base/clock.h"
#include "base/collectives.h"
#include "base/dtype.h"
#include "comm.h"
#include "device/vector.h"
#include "world.h"

typedef struct weft__local weft__local;

/* What its members know of a rank's part of a comm. */
typedef struct weft__local_card {
    uint64_t page; /* its offset in the rank's segment */
} weft__local_card;

typedef struct weft__lane weft__lane;

/* How a block is exchanged in place with that of a member. */
typedef enum weft__exchange {
    WEFT__NO_EXCHANGE,
    WEFT__UNDECIDED, /* the member may reach our block; can we reach its block? */
    WEFT__BY_SWAP,   /* each of the two can: each swaps a half */
    WEFT__BY_PIPE    /* only as far as our own bytes have been put into the pipe to it */
} weft__exchange;

/* A part of a result: bytes that this rank fetches, in order, from one member or as a reduction from all. */
typedef struct weft__move {
    unsigned char *to;
    size_t bytes, done;
    size_t end;  /* it may be moved up to here: the bytes, or the end of the part that was claimed */
    size_t at;   /* where it begins in each source buffer */
    int from;    /* member; -1 = reduce over all */
    bool result; /* from the source's result (recv), once it is produced; else from what it sends */
    weft__exchange exchange;
} weft__move;

/* Bytes of ours that a member cannot reach: put into the pipe to it, in order. */
typedef struct weft__push {
    const unsigned char *from;
    size_t bytes, done;
} weft__push;

/* The buffers of a member, where they lie for this rank. */
typedef struct weft__side {
    int rank;
    const unsigned char *send;
    unsigned char *recv;
} weft__side;

/* What one rank has to do for one collective. */
typedef struct weft__plan {
    int moves, pushes;  /* in use */
    weft__move *move;   /* [count] */
    weft__push *push;   /* [count], by member */
    weft__whom meet;    /* must have arrived before this rank is done with the others */
    weft__whom readers; /* read this rank's memory where it lies: it is free when they have released it */
    bool in_slot;       /* small: everybody's input lies in its slot */
    bool in_line;       /* tiny: it lies in its descriptor */
    bool past;          /* results are stored past the cache */
    bool swapped;       /* others write into this rank's buffer: it exchanges in place, where they can reach it */
    bool fused;         /* every buffer can be reached: see weft__move_fused() */
    bool shared;        /* in parts, which others may take over: see share.c */
    uint32_t claimed;   /* by this rank */
} weft__plan;

typedef enum weft__phase {
    WEFT__ENTER,
    WEFT__MOVE,
    WEFT__SECOND_MOVE,
    WEFT__HELP,
    WEFT__RELEASE,
    WEFT__LEAVE
} weft__phase;

/* How a member gets on with its own work. */
typedef struct weft__pace {
    uint64_t ticks; /* when it was last seen to do so; 0 = not looked at yet */
    uint32_t claimed;
} weft__pace;

/* What others may take over of the operation at the head, and what this rank has taken over. */
typedef struct weft__help {
    bool looked;      /* what follows is known */
    uint32_t *parts;  /* [count]: of each member's work that is shared */
    bool *shared;     /* [count] */
    weft__pace *pace; /* [count] */
    weft__plan plan;  /* of the member helped last */
} weft__help;

typedef struct weft__local_comm {
    weft__local *local;
    weft_comm *comm;
    const char *name;
    int rank, count;
    const int *ranks; /* world ranks */
    size_t slot_bytes;
    weft__page_layout layout;
    weft__page *page;           /* own */
    weft__page **pages;         /* of members */
    unsigned char **bases;      /* of members' segments here */
    weft__pipe_writer *writers; /* [count] */
    weft__pipe_reader *readers; /* [count] */

    /* The collective at the head, and those behind it. */
    weft_op *head, **tail;
    weft__phase phase;
    weft__request request; /* what was shown of it */
    weft__plan plan;
    weft__help help;
    uint64_t *met;            /* [count]: last operation for which the member was seen to ask for the same */
    const void **sources;     /* [count]: of a reduction */
    void **targets;           /* [count]: of one that is fused */
    uint64_t last_number;     /* of the operation that ended last */
    uint64_t released_by_all; /* operations that everybody has released, as last seen */

    /* P2p. */
    weft__lane *lanes; /* [count * channels] */
    uint32_t channels;
    weft__lane *busy_lanes;

    /* Failure. */
    bool failed;                        /* the verdict was told to the members, */
    uint64_t failed_ticks, stuck_ticks; /* then; operations end at the latest then */
    bool connected, active;
    struct weft__local_comm *next; /* active */
} weft__local_comm;

struct weft__local {
    weft_world *world;
    const weft__vector *vector;
    size_t slot_bytes;  /* most of an input that is copied to where all see it */
    size_t small_bytes; /* most of a message that is, else: see weft__local_small() */
    weft__reuse reuse;
    int neighbours;           /* ranks of this machine, this one included */
    int first;                /* of them: it measures the caches */
    uint32_t worth;           /* what it found, as far as known here */
    weft__local_comm *active; /* comms with operations */
    /* A comm's turn: how long it may be (0 = a part), when it ends (0 = the clock was not read yet), whether it is
     * over. */
    uint64_t turn_ticks, turn_end;
    bool turn_over;
    bool beside;           /* others want their turn soon */
    uint64_t hasten_ticks; /* how long the others are waited for on the spot */
    uint64_t now;          /* near enough for small messages; 0 = look at the clock */
};

/* local.c */
/* Take a part of operation @p whole of a backend that composes others; members must mean the same whole. The parts of a
 * reduce-scatter or all-gather may lie @p stride bytes apart in the larger buffer; 0 = end to end. */
weft_result weft__local_start_part(void *comm, weft_op *op, const weft_op *whole, size_t stride);

/* This rank is about to write @p bytes at @p at, moving @p traffic bytes in all: past the cache? */
bool weft__local_is_cold(weft__local *local, const void *at, size_t bytes, size_t traffic);

/* comm.c: the life of a comm */
weft_result weft__local_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card);
weft_result weft__local_comm_connect(void *comm, const unsigned char *cards);
void weft__local_comm_leave(void *comm);
void weft__local_comm_destroy(void *comm);

/* fail.c: failures */
void weft__local_abort(void *comm, weft_result result, const char *text);
/* Nothing can be done now: is that because a member has failed or gone? Then the comm fails. */
void weft__local_look_for_failure(weft__local_comm *lc);
/* After memory of @p member was read for operation @p number: was it still the member's to give? False: the comm
 * fails. */
#define WEFT__ANY_NUMBER UINT64_MAX
bool weft__local_still_good(weft__local_comm *lc, int member, uint64_t number);
/* The same of all members; before this rank writes into their memory too. */
bool weft__local_all_still_good(weft__local_comm *lc, const weft_op *op);
/* Give operations of a failed comm back once nobody writes into their buffers; E_STUCK if somebody does not stop. */
unsigned weft__local_give_back(weft__local_comm *lc);
void weft__local_explain(void *comm, const weft_op *op, char *text, size_t text_bytes);

/* collective.c: the operation at the head */
void weft__local_collective_start(weft__local_comm *lc, weft_op *op);
void weft__local_collective_hasten(weft__local_comm *lc, weft_op *op);
unsigned weft__local_collectives(weft__local_comm *lc);
/* plan.c: what a member has to do for a collective of each kind */
typedef void weft__planner(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan);
typedef struct weft__local_kind {
    weft__planner *plan;
    weft__planner *plan_second; /* once the first is done and was not fused */
    bool shared;                /* all wait for all, so those who wait may do the work of others */
    bool by_slices;             /* each rank can sum a slice, and put it where others want it: see weft__move_fused() */
} weft__local_kind;
extern const weft__local_kind weft__local_kinds[];
weft__side weft__plan_own_side(const weft__local_comm *lc, const weft_op *op);
void weft__plan_first(weft__local_comm *lc, const weft_op *op);
void weft__plan_second(weft__local_comm *lc, const weft_op *op);
/* The member of an undecided move has arrived. Both of the two decide alike. */
void weft__plan_decide(weft__local_comm *lc, const weft_op *op, weft__move *move);
bool weft__plan_can_fuse(const weft__local_comm *lc, const weft_op *op);
/* From now on it is fused: member @p member sums its slice. */
void weft__plan_fuse(const weft__local_comm *lc, const weft_op *op, int member, weft__plan *plan);
/* What the member has to do whose buffers @p side says. */
void weft__plan_of_member(const weft__local_comm *lc, const weft_op *op, const weft__side *side, bool fused,
                          weft__plan *plan);
/* The part of an all-reduce or reduce that member @p member sums: begin and bytes in the buffer. */
void weft__plan_slice(const weft__local_comm *lc, const weft_op *op, int member, size_t *begin, size_t *bytes);
/* move.c: what a plan says, in bounded parts */
/* All of a small operation whose inputs lie in their slots: everybody has arrived. */
void weft__move_small(weft__local_comm *lc, weft_op *op);
unsigned weft__move_some(weft__local_comm *lc, weft_op *op, bool *done);
unsigned weft__move_fused(weft__local_comm *lc, weft_op *op, bool *done);
/* A part that was claimed of another member's, to its end. False: it cannot be reached. */
bool weft__move_helped(weft__local_comm *lc, weft_op *op, weft__move *move);
/* Can all ranks read the move's source, or all that it sums, where they lie? */
bool weft__move_is_direct(const weft__local_comm *lc, const weft_op *op, const weft__move *move);
/* Has the member arrived at @p number, asking for the same? A difference fails the comm. */
bool weft__local_met(weft__local_comm *lc, weft_op *op, int member);

/* share.c: work that others may take over */
/* Before this rank arrives: may others do its work? */
void weft__share_offer(weft__local_comm *lc, const weft_op *op);
/* Once there is a plan: is it done in parts that others may claim? */
void weft__share_cut(weft__local_comm *lc, const weft_op *op);
/* Is something left of a move of this rank's? */
bool weft__share_has_left(const weft__local_comm *lc, const weft__move *move);
/* Claim its next part. False: none is left. */
bool weft__share_claim(weft__local_comm *lc, weft__move *move);
/* This rank is at it, so nobody need help. */
void weft__share_attend(weft__local_comm *lc, bool attended);
/* It has done all that it claimed, and nothing is left. */
void weft__share_tell(weft__local_comm *lc, weft_op *op);
/* Do what others have arrived for and do not come to. *over: all that is shared is done. */
unsigned weft__share_help(weft__local_comm *lc, weft_op *op, bool *over);
/* Is the member's work shared, and all done? */
bool weft__share_is_done(const weft__local_comm *lc, int member);
/* From now on nobody can claim this rank's work; may a part of it still be written by others? */
bool weft__share_is_written(weft__local_comm *lc);

/* In the memory of a collective. */
typedef struct weft__local_collective {
    size_t stride;        /* bytes from part to part in the larger buffer */
    const weft_op *whole; /* it is a part of this; NULL = it is whole */
} weft__local_collective;

static inline size_t weft__local_stride(const weft_op *op)
{
    return ((const weft__local_collective *)op->memory)->stride;
}

/* lane.c: messages */
typedef struct weft__batch {
    uint32_t left; /* messages that are not done */
    bool small;    /* all that there were */
} weft__batch;
typedef struct weft__message {
    weft_op *op;
    const weft_p2p *what;
    struct weft__message *next;
    size_t bytes, done;
    bool past; /* the result is stored past the cache */
    uint64_t entry;
} weft__message;
weft_result weft__lanes_open(weft__local_comm *lc);
void weft__lanes_connect(weft__local_comm *lc);
void weft__lanes_start(weft__local_comm *lc, weft_op *op);
void weft__lanes_hasten(weft__local_comm *lc, weft_op *op);
unsigned weft__lanes_progress(weft__local_comm *lc);
void weft__lanes_give_back(weft__local_comm *lc);
/* Does a message wait for this member? */
bool weft__lanes_miss(const weft__local_comm *lc, int member);
void weft__lanes_explain(weft__local_comm *lc, const weft_op *op, char *text, size_t text_bytes);

/* ------------------------------------------------------------------------------------------- small things */

/* Where the input of a small operation lies on the rank of that page. */
static inline unsigned char *weft__local_slot(const weft__local_comm *lc, weft__page *page, uint64_t number)
{
    return lc->plan.in_line ? weft__page_descriptor(page, number)->request.input
                            : weft__page_slot(&lc->layout, page, number);
}

/* Bytes moved between two looks at the clock, and at who has failed; and in a turn where other comms want theirs soon.
 * That is one group of pages of past_host.c: fewer bytes take a quarter longer each. */
#define WEFT__PART        ((size_t)64 << 10)
#define WEFT__PART_BESIDE ((size_t)32 << 10)

static inline size_t weft__local_part(const weft__local *local)
{
    return local->beside ? WEFT__PART_BESIDE : WEFT__PART;
}

/* Most of a message that goes through the pipe. A receiver that has more to do, or no core of its own, is not waited
 * for if it can be helped. */
#define WEFT__SMALL_MOST ((size_t)8 << 10)

static inline size_t weft__local_small(const weft__local *local)
{
    return local->beside ? WEFT__SMALL_MOST : local->small_bytes;
}

static inline void weft__local_mark_first(const weft__local *local, weft_op *op)
{
    if (!op->first)
        op->first = local->now ? local->now : weft__ticks();
}

/* A part has been moved: is the turn over? Reading the clock may cost as much as a small operation, so small ones never
 * ask. */
static inline bool weft__local_turn_over(weft__local *local)
{
    uint64_t now = weft__ticks();
    if (!local->turn_end)
        local->turn_end = now + local->turn_ticks;
    return local->turn_over = now >= local->turn_end;
}

/* The offset of a buffer in this rank's segment, or WEFT__NOWHERE. */
static inline uint64_t weft__local_offset(const weft__local_comm *lc, const void *buffer, size_t bytes)
{
    const weft__segment *own = lc->local->world->own;
    uint64_t offset = (uint64_t)((const unsigned char *)buffer - own->base);
    uint64_t end = atomic_load_explicit(&own->header->bytes, memory_order_relaxed);
    return buffer && offset < end && bytes <= end - offset ? offset : WEFT__NOWHERE;
}

static inline weft__segment *weft__local_segment(const weft__local_comm *lc, int member)
{
    return lc->local->world->segments[lc->ranks[member]];
}

/* The comm has failed on this rank. */
static inline bool weft__local_has_verdict(const weft__local_comm *lc)
{
    return atomic_load_explicit(&lc->comm->verdict, memory_order_relaxed) != WEFT_OK;
}

/* Wakes: what was published is at most one ring, a system call, for each member that sleeps and can go on because of
 * it; a member that is awake, or would only look and sleep again, costs none. Who sleeps has said so and then looked at
 * everything once more, so of several that publish what it waits for, the last one finds it asleep. */
static inline bool weft__local_sleeps(const weft__local_comm *lc, int member)
{
    return atomic_load(&weft__local_segment(lc, member)->header->asleep) != WEFT__AWAKE;
}

static inline void weft__local_wake(const weft__local_comm *lc, int member)
{
    weft__segment_wake(weft__local_segment(lc, member));
}

static inline void weft__local_wake_all(const weft__local_comm *lc)
{
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank)
            weft__local_wake(lc, i);
}

/* Bytes from this member's pipe have been used; a writer that has found it full can go on. */
static inline void weft__local_took(const weft__local_comm *lc, int member, weft__pipe_reader *reader, size_t bytes,
                                    bool last)
{
    uint64_t before = reader->position;
    weft__pipe_took(reader, bytes, last);
    if (weft__local_sleeps(lc, member) && weft__pipe_was_full(reader, before))
        weft__local_wake(lc, member);
}

#endif
