/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as a picture. */
#ifndef WEFT_BENCH_SCHEDULE_PICTURE_H
#define WEFT_BENCH_SCHEDULE_PICTURE_H
#include <stdio.h>

#include "timeline.h"

/* Who computes what when, and who sends what to whom, as SVG. @p name: what the schedule is called. False: no
 * memory. */
bool picture_draw(FILE *out, const timeline *line, const weft_times_config *times, const char *name);

#endif
