/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog: deadlines, and what is done when something is lost. Called in the seat. */
#ifndef WEFT_LIBCOMM_WATCHDOG_H
#define WEFT_LIBCOMM_WATCHDOG_H
#include <weft/world.h>

struct weft__work;

/* Fail comms with works past their deadline, and name in the log what has been late for 30 s. Looks at most every 50
 * ms. */
void weft__watchdog_look(weft_world *world);
/* Fail comms with lost ranks, and carry out the verdicts of all that have failed. */
void weft__watchdog_carry_out(weft_world *world);
/* How long the caller that waits for @p work may sleep: at most @p most_ms, and not past its deadline. */
int weft__watchdog_sleep_ms(const struct weft__work *work, int most_ms);
/* The same outside of the seat, where nobody can tell how old the work is. */
int weft__watchdog_sleep_outside_ms(const struct weft__work *work, int most_ms);

#endif
