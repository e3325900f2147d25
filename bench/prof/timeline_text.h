/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of the boxes of a timeline. Times are milliseconds since @p origin. */
#ifndef WEFT_BENCH_PROF_TIMELINE_TEXT_H
#define WEFT_BENCH_PROF_TIMELINE_TEXT_H
#include "prof/boxes.h"

/* How a box of one record is called: its record's name, of spans with their number. */
enum { TIMELINE_NAME = 96 };
const char *timeline_name(const prof_record *record, char text[TIMELINE_NAME]);

void timeline_say_states(const timeline_box *box, int64_t origin, char *text, size_t room);
/* Its name or, if it stands for several, theirs, up to a colon; then all that is known. */
void timeline_say_records(const prof_split *split, int rank, const timeline_box *box, int64_t origin, char *text,
                          size_t room);

#endif
