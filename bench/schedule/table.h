/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as a table for people. */
#ifndef WEFT_BENCH_SCHEDULE_TABLE_H
#define WEFT_BENCH_SCHEDULE_TABLE_H
#include "timeline.h"

/* What each stage computes in which slots of time, and how much of the time stages idle. */
void table_print_times(const timeline *line);
/* What each stage has to keep and how many messages it has. @p needs: one a stage. */
void table_print_needs(const weft_schedule *schedule, const weft_stage_needs *needs);

#endif
