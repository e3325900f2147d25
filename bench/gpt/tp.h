/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallelism: what the ranks that share each layer say to each other. The matrices between the rows of the
 * residual stream are shared out; between them the ranks hold either all rows each, or, with sequence parallelism, an
 * equal run of the rows each. Alone, nothing is called. */
#ifndef WEFT_BENCH_GPT_TP_H
#define WEFT_BENCH_GPT_TP_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/collective.h>

#include "pretend.h"

typedef struct gpt_tp {
    weft_comm *comm; /* NULL if alone, or if it is only counted */
    size_t rank, ranks;
    bool sequence; /* the rows are shared out */
    weft_dtype dtype;
    weft_stream stream;
    double *received_bytes; /* not NULL: nothing is sent, what this rank would receive is added here */
    bool serial;            /* what is started is waited for at once */
    pretend *core;          /* of computing that is timed: it begins anew behind each wait; NULL: it is real */
} gpt_tp;

/* What may have been waited for is over. */
static inline void gpt_tp_waited(const gpt_tp *tp)
{
    if (tp->core)
        pretend_begin(tp->core);
}

/* What each of @p ranks ranks receives in a reduce-scatter, an all-gather or an all-reduce whose larger buffer has
 * @p bytes. */
double gpt_tp_received(weft_collective_kind kind, size_t ranks, double bytes);

/* Where all rows lie if this rank's are at @p rows: there, or in @p space if it has a part of them only. */
static inline void *gpt_tp_all(const gpt_tp *tp, void *rows, void *space)
{
    return tp->sequence ? space : rows;
}

/* Before a column-parallel product: bring all rows to every rank; @p count elements are this rank's. */
weft_result gpt_tp_gather_start(const gpt_tp *tp, const void *rows, void *all, size_t count, weft_work *work_out);
/* Behind a row-parallel product, where every rank has a partial sum of all rows: add them, and leave each rank its
 * rows of the sum, @p count elements. */
weft_result gpt_tp_reduce_start(const gpt_tp *tp, const void *all, void *rows, size_t count, weft_work *work_out);
weft_result gpt_tp_finish(const gpt_tp *tp, weft_work work);
weft_result gpt_tp_gather(const gpt_tp *tp, const void *rows, void *all, size_t count);
weft_result gpt_tp_reduce(const gpt_tp *tp, const void *all, void *rows, size_t count);
/* The same numbers on every rank: their maximum or their sum over the ranks, fp32, in place. */
weft_result gpt_tp_agree(const gpt_tp *tp, float *values, size_t count, weft_reduction reduction);

#endif
