/* SPDX-License-Identifier: Apache-2.0 */
/* Once a training runs, its steps allocate nothing. The linker leads the report of each step through here. */
#include <stdatomic.h>
#include <stdlib.h>

#include "gpt/report.h"
#include "harness/steady.h"
#include "harness/test.h"
#include "training.h"

enum { FIRST = 3, STEPS = 100, RANKS = 4 };

static atomic_long at_first[RANKS], at_last[RANKS];
static atomic_int begun, ended;

void __real_gpt_report_line(gpt_report *report, const gpt_line *line);
void __wrap_gpt_report_line(gpt_report *report, const gpt_line *line);

/* Called by every rank, behind a collective of all ranks: none is more than a step ahead. */
void __wrap_gpt_report_line(gpt_report *report, const gpt_line *line)
{
    __real_gpt_report_line(report, line);
    if (line->step == FIRST)
        at_first[begun++ % RANKS] = steady_allocations();
    if (line->step == FIRST + STEPS)
        at_last[ended++ % RANKS] = steady_allocations();
}

TEST(a_hundred_steps_of_all_ranks_allocate_nothing)
{
    training t = training_on_threads(RANKS, "--train-iters 105 --pipeline-model-parallel-size 2 "
                                            "--num-virtual-stages-per-pipeline-rank 2 --ddp-bucket-size 3000 "
                                            "--overlap-grad-reduce --overlap-param-gather --bf16");
    CHECK_INT(t.code, 0);
    CHECK(begun == RANKS && ended == RANKS && at_first[0] > 0);
    for (int i = 0; i < RANKS; i++) {
        CHECK_INT(at_first[i], at_first[0]);
        CHECK_INT(at_last[i], at_first[0]);
    }
    training_forget(&t);
}
