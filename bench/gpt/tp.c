/* SPDX-License-Identifier: Apache-2.0 */
/* Carries tensor parallel communication out by weft's collectives. */
#include "gpt/tp.h"

double gpt_tp_received(weft_collective_kind kind, size_t ranks, double bytes)
{
    double once = (double)(ranks - 1) * bytes / (double)ranks;
    return kind == WEFT_ALL_REDUCE ? 2 * once : once;
}

/* Is it only counted? */
static bool count_only(const gpt_tp *tp, weft_collective_kind kind, size_t elements, weft_dtype dtype)
{
    if (tp->received_bytes)
        *tp->received_bytes += gpt_tp_received(kind, tp->ranks, (double)elements * (double)weft_dtype_bytes(dtype));
    return tp->received_bytes;
}

static bool count_reduce(const gpt_tp *tp, size_t count)
{
    return tp->sequence ? count_only(tp, WEFT_REDUCE_SCATTER, tp->ranks * count, tp->dtype)
                        : count_only(tp, WEFT_ALL_REDUCE, count, tp->dtype);
}

static weft_result waited(const gpt_tp *tp, weft_result result)
{
    gpt_tp_waited(tp);
    return result;
}

weft_result gpt_tp_gather_start(const gpt_tp *tp, const void *rows, void *all, size_t count, weft_work *work_out)
{
    *work_out = WEFT_WORK_NONE;
    if (tp->serial)
        return gpt_tp_gather(tp, rows, all, count);
    if (!tp->sequence || count_only(tp, WEFT_ALL_GATHER, tp->ranks * count, tp->dtype))
        return WEFT_OK;
    return weft_all_gather_start(tp->comm, rows, all, count, tp->dtype, tp->stream, work_out);
}

weft_result gpt_tp_reduce_start(const gpt_tp *tp, const void *all, void *rows, size_t count, weft_work *work_out)
{
    *work_out = WEFT_WORK_NONE;
    if (tp->serial)
        return gpt_tp_reduce(tp, all, rows, count);
    if (tp->ranks == 1 || count_reduce(tp, count))
        return WEFT_OK;
    if (tp->sequence)
        return weft_reduce_scatter_start(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream, work_out);
    return weft_all_reduce_start(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream, work_out);
}

weft_result gpt_tp_finish(const gpt_tp *tp, weft_work work)
{
    return work.value ? waited(tp, weft_work_finish(work, tp->stream)) : WEFT_OK;
}

weft_result gpt_tp_gather(const gpt_tp *tp, const void *rows, void *all, size_t count)
{
    if (!tp->sequence || count_only(tp, WEFT_ALL_GATHER, tp->ranks * count, tp->dtype))
        return WEFT_OK;
    return waited(tp, weft_all_gather_run(tp->comm, rows, all, count, tp->dtype, tp->stream));
}

weft_result gpt_tp_reduce(const gpt_tp *tp, const void *all, void *rows, size_t count)
{
    if (tp->ranks == 1 || count_reduce(tp, count))
        return WEFT_OK;
    if (tp->sequence)
        return waited(tp, weft_reduce_scatter_run(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream));
    return waited(tp, weft_all_reduce_run(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream));
}

weft_result gpt_tp_agree(const gpt_tp *tp, float *values, size_t count, weft_reduction reduction)
{
    if (tp->ranks == 1 || count_only(tp, WEFT_ALL_REDUCE, count, WEFT_FP32))
        return WEFT_OK;
    return waited(tp, weft_all_reduce_run(tp->comm, values, values, count, WEFT_FP32, reduction, tp->stream));
}
