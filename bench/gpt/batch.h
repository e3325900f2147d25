/* SPDX-License-Identifier: Apache-2.0 */
/* How many microbatches a data parallel rank runs in a step, for a batch that stays as it is and for one that grows. */
#ifndef WEFT_BENCH_GPT_BATCH_H
#define WEFT_BENCH_GPT_BATCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpt/failure.h"

/* Of @p global samples, @p micro at once on each of @p ranks. If they do not divide, 0, or with @p round_down as many
 * as fit; 0 also if not even one does. */
size_t gpt_batch_microbatches(size_t global, size_t micro, size_t ranks, bool round_down);

/* From sample `from` of the training on, a batch has that many samples. */
typedef struct gpt_batch_stage {
    uint64_t from, samples;
} gpt_batch_stage;

enum { GPT_BATCH_STAGES = 32 };
typedef struct gpt_batch_course {
    gpt_batch_stage stages[GPT_BATCH_STAGES];
    size_t count;
} gpt_batch_course;

/* "0:768 250B:1536": at which place the batch gets which size; K, M, B and T are thousands and so on. With a
 * @p sequence above 0 places are tokens, otherwise samples. They must rise from 0. */
int gpt_batch_read(gpt_batch_course *course, const char *text, size_t sequence, gpt_failure *failure);
/* The samples of the batch behind @p before samples of training. */
uint64_t gpt_batch_at(const gpt_batch_course *course, uint64_t before);

#endif
