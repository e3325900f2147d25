/* SPDX-License-Identifier: Apache-2.0 */
/* What the pipelines of a trainer call: the cookie is the trainer. */
#ifndef WEFT_BENCH_GPT_STEPS_H
#define WEFT_BENCH_GPT_STEPS_H
#include <weft/pipeline.h>

weft_result gpt_forward(void *cookie, const weft_pipeline_task *task);
weft_result gpt_backward(void *cookie, const weft_pipeline_task *task);
weft_result gpt_sync(void *cookie, uint32_t chunk, uint32_t left);

#endif
