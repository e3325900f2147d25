/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for tests. What fails, fails the test. */
#ifndef WEFT_TESTS_P2P_SCHEDULES_H
#define WEFT_TESTS_P2P_SCHEDULES_H
#include "schedule.h"

/* Failures are expected: keep them off the screen. */
void mute(void);

weft_schedule *make(weft_policy policy, uint32_t stages, uint32_t microbatches, uint32_t chunks, uint32_t group);
weft_schedule *make_forward_only(weft_policy policy, uint32_t stages, uint32_t microbatches, uint32_t chunks,
                                 uint32_t group);
weft_schedule *lower(const weft_schedule *s, weft_queues queues, weft_batching batching, uint32_t flags);
/* The next policy that writes something, behind @p policy; NONE behind the last, and before the first. */
weft_policy next_policy(weft_policy policy);
/* The most chunks to test a policy with: @p chunks or 1. */
uint32_t chunks_of(weft_policy policy, uint32_t chunks);
/* The same with every backward split: each W comes behind the next backward, the last at the end. */
weft_schedule *split_backwards(const weft_schedule *s);
/* From text in either format. */
weft_schedule *from_text(const char *text);

/* Its text: given, release with free(). */
char *text_of(const weft_schedule *s, weft_schedule_format format);
/* The line of one stage without "stage N: ", in memory that the next call overwrites. */
const char *stage_text(const weft_schedule *s, uint32_t stage);

/* What verify says with these queues; the text is weft_last_error(). */
weft_result verify(const weft_schedule *s, weft_queues queues);

#endif
