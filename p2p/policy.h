/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: which forward and which backward a stage computes when. Each has a file of its own and a row in
 * policy.c. */
#ifndef WEFT_P2P_POLICY_H
#define WEFT_P2P_POLICY_H
#include "schedule.h"

/* Writes the lists of all stages into an empty schedule, which has room for all of its actions. @p config has its
 * defaults filled in. */
typedef weft_result (*weft__policy_write)(const weft_schedule_config *config, weft_schedule *s);

weft_result weft__policy_gpipe(const weft_schedule_config *config, weft_schedule *s);
weft_result weft__policy_1f1b(const weft_schedule_config *config, weft_schedule *s);
weft_result weft__policy_interleaved(const weft_schedule_config *config, weft_schedule *s);

/* How many forwards a stage runs ahead before it takes one forward and one backward in turn: all, if it never does. */
uint32_t weft__warmup_1f1b(const weft_schedule_config *config, uint32_t stage);
uint32_t weft__warmup_interleaved(const weft_schedule_config *config, uint32_t stage);

/* The @p k-th forward of a stage: groups of @p group microbatches (the last may be smaller) go through chunk 0, then
 * chunk 1, ... Backwards take the same microbatches, from the last chunk to the first. */
void weft__order(const weft_schedule *s, uint32_t group, uint32_t k, uint32_t *microbatch, uint32_t *chunk);

/* Room in every list for the actions of a policy with these traits. */
weft_result weft__policy_reserve(const weft_schedule_config *config, weft_schedule *s, uint32_t traits);
/* Append the @p k-th F, B or W of a stage in that order. */
void weft__policy_put(const weft_schedule_config *config, weft_schedule *s, uint32_t stage, weft_action_kind kind,
                      uint32_t k);

/* The form that policies without W have: @p warmup forwards, then one forward and one backward in turn, then the
 * rest. */
void weft__policy_fill(const weft_schedule_config *config, weft_schedule *s, uint32_t stage, uint32_t warmup);

/* @p forwards, or all of a stage if there are no more, or if there are no backwards. */
uint32_t weft__warmup(const weft_schedule_config *config, uint64_t forwards);

#endif
