/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that can be measured, as data: buffers, bandwidth, how to call them, and what they ought to bring. */
#ifndef WEFT_BENCH_PERF_OPERATIONS_H
#define WEFT_BENCH_PERF_OPERATIONS_H
#include <stdbool.h>
#include <weft/collective.h>

/* Of how many parts of `count` elements a buffer consists. */
typedef enum perf_extent { PERF_ONE_PART, PERF_PART_PER_RANK } perf_extent;
typedef enum perf_whom { PERF_EVERYBODY, PERF_ROOT } perf_whom;
/* By what bandwidths are multiplied, with n ranks: 1, (n-1)/n, 2(n-1)/n. */
typedef enum perf_factor { PERF_WHOLE, PERF_OTHERS, PERF_TWICE_OTHERS } perf_factor;

typedef struct perf_operation perf_operation;

/* One row of a table: what is measured on this rank. */
typedef struct perf_subject {
    const perf_operation *operation;
    weft_dtype dtype;
    weft_reduction reduction;
    int root, rank, ranks;
    size_t count;                                                    /* elements of a part */
    size_t *send_counts, *send_offsets, *recv_counts, *recv_offsets; /* uneven parts: [ranks] each */
} perf_subject;

/* A run of elements of the output, and where it comes from. */
typedef struct perf_piece {
    size_t begin, count; /* of the output */
    int source;          /* rank whose input it is; PERF_REDUCED: that of all ranks, reduced */
    size_t from;         /* the first element there */
} perf_piece;
enum { PERF_REDUCED = -1 };

struct perf_operation {
    const char *name; /* as in nccl-tests; the program of that name has _perf behind it */
    perf_extent send, recv;
    perf_whom senders, receivers; /* whose buffers are used */
    bool reduces;
    bool in_place; /* possible */
    bool swaps;    /* in place, doing it twice brings the input back */
    perf_factor moved, bus;
    int collective; /* weft_collective_kind; -1 = none: */
    weft_result (*start)(const perf_subject *s, weft_comm *comm, const void *send, void *recv,
                         weft_work *work_out); /* NULL: cannot be started and finished */
    weft_result (*run)(const perf_subject *s, weft_comm *comm, const void *send, void *recv);
    perf_piece (*piece)(const perf_subject *s, int index); /* index < perf_pieces() */
    bool uneven;                                           /* parts differ from rank to rank */
    bool power_of_two;                                     /* ranks must be */
};

const perf_operation *perf_operation_at(size_t index); /* NULL behind the last */
/* By its name, with or without _perf behind it; NULL if there is none. */
const perf_operation *perf_operation_named(const char *name, size_t length);

/* Fill in what follows from the counts; the four lists have room. */
void perf_subject_lay_out(perf_subject *s);
/* The part of @p bytes that fit the buffers of a size as the table shows it. */
size_t perf_count_of(const perf_operation *operation, weft_dtype dtype, int ranks, size_t bytes);
/* The size that the table shows: bytes of the larger buffer. */
size_t perf_size_of(const perf_subject *s);
/* Elements that the buffers need room for, on any rank. */
size_t perf_send_elements(const perf_subject *s);
size_t perf_recv_elements(const perf_subject *s);
/* Elements from the beginning of the common buffer to send and to recv, in place. */
size_t perf_send_offset(const perf_subject *s);
size_t perf_recv_offset(const perf_subject *s);
bool perf_sends(const perf_subject *s);
bool perf_receives(const perf_subject *s);
int perf_pieces(const perf_subject *s);
/* Bytes per us -> the two bandwidths in GB/s. */
double perf_algbw(const perf_subject *s, double us);
double perf_busbw(const perf_subject *s, double us);

/* Carry it out. */
weft_result perf_run(const perf_subject *s, weft_comm *comm, const void *send, void *recv);
weft_result perf_start(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work_out);

#endif
