/* SPDX-License-Identifier: Apache-2.0 */
/* Makes up the trace files of a run, record by record, with times in microseconds. */
#ifndef WEFT_TESTS_BENCH_PROF_TRACES_H
#define WEFT_TESTS_BENCH_PROF_TRACES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/trace.h>

enum { TRACES_LABELS = 64, TRACES_COMMS = 16 };

/* The file of one rank, before it is written. A tick is half a nanosecond. */
typedef struct traced {
    weft_trace_header header;
    char labels[TRACES_LABELS][WEFT_TRACE_LABEL_BYTES];
    weft_trace_comm comms[TRACES_COMMS];
    weft_trace_record *records; /* all, also those that a small ring will not hold */
    size_t count;
    double ticks_per_us; /* 2000 on a clock that does not drift */
} traced;

/* A folder of its own in /tmp, kept in @p folder (of 64 bytes); removed with all that is in it. */
void traces_folder(char *folder);
void traces_remove(const char *folder);

/* A rank on machine @p machine, whose clock shows @p ahead_us more than that of machine "one". */
traced traced_rank(int rank, int size, const char *machine, double ahead_us);
void traced_free(traced *t);
uint32_t traced_label(traced *t, const char *text);
/* A comm of all ranks, or of others: then @p members tells them apart. Its entry. */
uint16_t traced_comm(traced *t, const char *name, int rank, int size, uint64_t members);
/* The tick of that moment on the clock of the rank; 0 us is when it opened its world, and stands for no time at all. */
uint64_t traced_tick(const traced *t, double us);
/* The next record, to be filled. */
weft_trace_record *traced_next(traced *t, weft_trace_kind kind);

/* When an operation was ready, over, waited for, and let go, and when the last rank arrived. */
typedef struct traced_times {
    double ready, last, wait, go, arrival;
} traced_times;
weft_trace_record *traced_collective(traced *t, uint16_t comm, uint64_t number, const char *label, traced_times us);
void traced_step(traced *t, uint64_t number, const char *label, double begin_us, double end_us);
void traced_span(traced *t, const char *label, uint64_t number, double begin_us, double end_us);
/* A batch of one message; world rank of the peer. */
void traced_message(traced *t, uint16_t comm, bool sends, int peer, uint64_t number, traced_times us);

/* Write DIR/trace.<rank>.weft, with a ring of @p capacity records (a power of two; 0: room for all). */
void traced_write(traced *t, const char *folder, uint32_t capacity);

#endif
