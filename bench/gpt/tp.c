/* SPDX-License-Identifier: Apache-2.0 */
/* Carries tensor parallel communication out by weft's collectives. */
#include "gpt/tp.h"

weft_result gpt_tp_gather_start(const gpt_tp *tp, const void *rows, void *all, size_t count, weft_work *work_out)
{
    *work_out = WEFT_WORK_NONE;
    return tp->sequence ? weft_all_gather_start(tp->comm, rows, all, count, tp->dtype, tp->stream, work_out) : WEFT_OK;
}

weft_result gpt_tp_reduce_start(const gpt_tp *tp, const void *all, void *rows, size_t count, weft_work *work_out)
{
    *work_out = WEFT_WORK_NONE;
    if (tp->sequence)
        return weft_reduce_scatter_start(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream, work_out);
    return tp->ranks > 1 ? weft_all_reduce_start(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream, work_out)
                         : WEFT_OK;
}

weft_result gpt_tp_finish(const gpt_tp *tp, weft_work work)
{
    return work.value ? weft_work_finish(work, tp->stream) : WEFT_OK;
}

weft_result gpt_tp_gather(const gpt_tp *tp, const void *rows, void *all, size_t count)
{
    return tp->sequence ? weft_all_gather_run(tp->comm, rows, all, count, tp->dtype, tp->stream) : WEFT_OK;
}

weft_result gpt_tp_reduce(const gpt_tp *tp, const void *all, void *rows, size_t count)
{
    if (tp->sequence)
        return weft_reduce_scatter_run(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream);
    return tp->ranks > 1 ? weft_all_reduce_run(tp->comm, all, rows, count, tp->dtype, WEFT_SUM, tp->stream) : WEFT_OK;
}

weft_result gpt_tp_agree(const gpt_tp *tp, float *values, size_t count, weft_reduction reduction)
{
    return tp->ranks > 1 ? weft_all_reduce_run(tp->comm, values, values, count, WEFT_FP32, reduction, tp->stream)
                         : WEFT_OK;
}
