/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a schedule with labels for tensors, to see what a run would do. Shares no code with what proves schedules. */
#ifndef WEFT_TESTS_P2P_REPLAY_H
#define WEFT_TESTS_P2P_REPLAY_H
#include <weft/schedule.h>

#define REPLAY_STAGES       4
#define REPLAY_CHUNKS       2
#define REPLAY_MICROBATCHES 4

/* NULL if the run ends and every computation found the right tensor in its buffers; else what went wrong, in memory
 * that the next call overwrites. */
const char *replay(const weft_schedule *s, weft_queues queues);

#endif
