/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank did at every moment: overlap.h's four states, as stretches of time that follow each other. */
#ifndef WEFT_BENCH_PROF_STATES_H
#define WEFT_BENCH_PROF_STATES_H
#include "prof/run.h"

/* In the order of bars_step. */
typedef enum prof_state { PROF_COMPUTING, PROF_HIDDEN, PROF_EXPOSED, PROF_IDLE, PROF_STATES } prof_state;

typedef struct prof_stretch {
    int64_t begin, end;
    prof_state state;
} prof_stretch;

/* From and until when a record is under way; false: never, or not known. What is in flight goes on until @p until. */
bool prof_under_way(const prof_record *record, int64_t until, int64_t *begin_out, int64_t *end_out);
/* The same of the wait for it. */
bool prof_waited_for(const prof_record *record, int64_t until, int64_t *begin_out, int64_t *end_out);
/* Is it one that others take part in: a collective, or a batch of messages? */
bool prof_is_operation(const prof_record *record);

/* The stretches of a rank, without gaps from its begin to its end. */
typedef struct prof_states {
    prof_stretch *at;
    size_t count;
} prof_states;

/* False: no memory. Give back with prof_states_close() whatever the answer. */
bool prof_states_open(prof_states *states, const prof_rank *rank);
void prof_states_close(prof_states *states);
/* Go through those within [begin, end), cut to it, with *next at first 0; false behind the last. */
bool prof_states_next(const prof_states *states, int64_t begin, int64_t end, size_t *next, prof_stretch *cut_out);

#endif
