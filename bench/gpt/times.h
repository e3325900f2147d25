/* SPDX-License-Identifier: Apache-2.0 */
/* The times of a step, where each is shown, and their sums and means. */
#ifndef WEFT_BENCH_GPT_TIMES_H
#define WEFT_BENCH_GPT_TIMES_H
#include <stdbool.h>

/* The step, and the four parts that add up to it: computing with no operation under way, computing while some were,
 * waiting for operations that were under way, waiting without. */
enum gpt_time { GPT_TIME_STEP, GPT_TIME_COMPUTING_ONLY, GPT_TIME_HIDDEN, GPT_TIME_EXPOSED, GPT_TIME_IDLE, GPT_TIMES };

typedef struct gpt_times {
    double ms[GPT_TIMES];
} gpt_times;

/* How a time is shown; NULL or false: not there. */
typedef struct gpt_time_shown {
    const char *key;    /* in JSON */
    bool in_step;       /* in the JSON of a step */
    const char *line;   /* format of it in the line of a step */
    const char *column; /* in the table and the JSON of the summary */
} gpt_time_shown;

extern const gpt_time_shown gpt_times_shown[GPT_TIMES];

void gpt_times_add(gpt_times *times, const gpt_times *more);
gpt_times gpt_times_divide(const gpt_times *times, double by);
/* While an operation was under way. */
double gpt_times_communicating(const gpt_times *times);
/* Of the times of @p count ranks, which of them computed longest, with operations under way or without. */
int gpt_times_slowest(const gpt_times *ranks, int count);

#endif
