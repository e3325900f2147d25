/* SPDX-License-Identifier: Apache-2.0 */
/* Where the messages between computations stand in the lists of both stages.
 *
 * A stage takes steps: one computation, or a forward with the backward behind it. Before step g is gap g, where
 * messages stand; the last gap is behind the last step. */
#ifndef WEFT_P2P_CROSSINGS_H
#define WEFT_P2P_CROSSINGS_H
#include "schedule.h"

/* A message from one stage to another. */
typedef struct weft__crossing {
    uint32_t microbatch;
    uint32_t from_chunk, from_gap;
    uint32_t to_chunk, to_gap;
} weft__crossing;

/* All that arrives at a stage on a channel, in the order in which it is sent: gaps never fall. */
typedef struct weft__link {
    weft__crossing *at;
    size_t count;
    uint32_t from, to;
} weft__link;

typedef struct weft__steps {
    uint32_t *of;    /* the step of each action that computes */
    uint32_t *opens; /* when each gap opens in an ideal run */
    uint32_t count;
} weft__steps;

typedef struct weft__crossings {
    weft__steps *steps;        /* a stage */
    weft__link *links[2];      /* a channel: a stage */
    uint32_t *numbers;         /* memory of steps */
    weft__crossing *crossings; /* memory of links */
} weft__crossings;

/* @p ahead: receives one step earlier than they must be. Fails if computations are missing or wait for each other.
 * Release what is in @p out in any case. */
weft_result weft__crossings_find(const weft_schedule *s, const weft__index *index, weft_batching batching, bool ahead,
                                 weft__crossings *out);
void weft__crossings_release(weft__crossings *c);

/* What a stage sends or receives on a channel; an empty link if nothing was found. */
const weft__link *weft__crossings_of(const weft_schedule *s, const weft__crossings *c, uint32_t stage, uint32_t channel,
                                     bool sends);

#endif
