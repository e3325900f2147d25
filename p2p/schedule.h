/* SPDX-License-Identifier: Apache-2.0 */
/* How schedules are held in memory, and what the files that make, complete, time and prove them ask about actions. */
#ifndef WEFT_P2P_SCHEDULE_H
#define WEFT_P2P_SCHEDULE_H
#include <stdbool.h>
#include <weft/schedule.h>

typedef struct weft__actions {
    weft_action *at;
    size_t count, room;
} weft__actions;

struct weft_schedule {
    uint32_t stages, chunks, microbatches;
    weft__actions *lists; /* one a stage */
};

/* What is true of a kind of action. */
typedef struct weft__kind {
    const char *name;
    bool message, send;
    bool forward;            /* messages: the other end is the next part, not the one before */
    uint32_t channel;        /* messages */
    weft_action_kind of;     /* messages: the computation on this stage whose tensor it is */
    weft_action_kind answer; /* messages: the kind at the other end */
} weft__kind;
extern const weft__kind weft__kinds[];

static inline bool weft__computes(weft_action_kind kind)
{
    return kind <= WEFT_ACTION_W;
}

/* A chunk of a stage. */
typedef struct weft__part {
    uint32_t stage, chunk;
} weft__part;

/* The part behind (@p forward) or before another; false if there is none. */
static inline bool weft__neighbour(const weft_schedule *s, weft__part part, bool forward, weft__part *out)
{
    bool turns = part.stage == (forward ? s->stages - 1 : 0);
    if (turns && part.chunk == (forward ? s->chunks - 1 : 0))
        return false;
    uint32_t step = forward ? 1 : UINT32_MAX;
    out->stage = turns ? (forward ? 0 : s->stages - 1) : part.stage + step;
    out->chunk = turns ? part.chunk + step : part.chunk;
    return true;
}

/* The stage behind or before another, going round: the only ones a stage has messages for. */
static inline uint32_t weft__beside(const weft_schedule *s, uint32_t stage, bool forward)
{
    return forward ? (stage + 1) % s->stages : (stage ? stage : s->stages) - 1;
}

/* An empty schedule of this shape. E_INVALID, E_RANGE, E_NO_MEMORY. */
weft_result weft__schedule_new(uint32_t stages, uint32_t chunks, uint32_t microbatches, weft_schedule **out);
/* Room for @p room actions in all. */
weft_result weft__actions_reserve(weft__actions *list, size_t room);
/* Is the action at @p i, a message, the first of its batch? */
static inline bool weft__begins_batch(const weft__actions *list, size_t i)
{
    return i == 0 || list->at[i].batch == 0 || list->at[i - 1].batch != list->at[i].batch;
}
/* The number of all actions. */
size_t weft__schedule_total(const weft_schedule *s);

/* For what is said about actions: "SEND_F 1.0 to stage 2", and "stage 1 action 7 (SEND_F 1.0 to stage 2)". */
typedef struct weft__name {
    char text[128];
} weft__name;
weft__name weft__describe(const weft_action *action);
weft__name weft__locate(const weft_schedule *s, uint32_t stage, size_t position);

/* Where the actions are. */
typedef struct weft__index {
    uint32_t *at; /* position + 1 in the list of the stage; 0 = is not there */
    uint32_t stages, chunks, microbatches;
} weft__index;

/* Fails if an action is there twice. @p out->at is given, release with free(). */
weft_result weft__index_create(const weft_schedule *s, weft__index *out);
static inline uint32_t *weft__index_at(const weft__index *x, weft_action_kind kind, weft__part part,
                                       uint32_t microbatch)
{
    size_t row = ((size_t)kind * x->stages + part.stage) * x->chunks + part.chunk;
    return &x->at[row * x->microbatches + microbatch];
}
static inline uint32_t weft__index_find(const weft__index *x, weft_action_kind kind, weft__part part,
                                        uint32_t microbatch)
{
    return *weft__index_at(x, kind, part, microbatch);
}

/* When each action would run, stage after stage, if it took @p slots; *slots_out = when all is over. @p joined: a
 * backward that could start together with the forward before it does. */
typedef struct weft__slots {
    uint32_t forward, backward, split_backward, weights; /* F, B, B with a W, W: none is 0 */
    uint32_t message;                                    /* from one stage to another */
} weft__slots;
weft_result weft__clock(const weft_schedule *s, const weft__index *index, const weft__slots *slots, bool joined,
                        weft_action_time *times_out, uint32_t *slots_out);

/* Is this the action after which what was received for its microbatch is no longer needed? */
bool weft__is_last(const weft__index *index, uint32_t stage, const weft_action *a);
/* Is it a B with a W of its own? */
static inline bool weft__is_split(const weft__index *index, uint32_t stage, const weft_action *a)
{
    return a->kind == WEFT_ACTION_B && !weft__is_last(index, stage, a);
}
/* The messages whose buffers for this microbatch begin to be used with an action, and end with it: bits 1 << kind. */
unsigned weft__buffers_begin(const weft__index *index, uint32_t stage, const weft_action *a);
unsigned weft__buffers_end(const weft__index *index, uint32_t stage, const weft_action *a);

/* Number the buffers of all messages, as few as the lists allow (for sends at least two, so that one can be under way
 * while the next is filled), the one that has been free longest first. */
weft_result weft__number_buffers(weft_schedule *s);

#define WEFT__LOWER_FLAGS ((uint32_t)(WEFT_LOWER_NO_LOOKAHEAD | WEFT_LOWER_ALIGN_SYNC)) /* that there are */

/* Does a run in these queues come to its end? If not: WEFT_PENDING if @p quiet, else E_INVALID, naming who waits for
 * whom. Every message must have its other end. */
weft_result weft__run_queues(const weft_schedule *s, const weft__index *index, weft_queues queues, bool quiet);

#endif
