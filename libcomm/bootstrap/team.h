/* SPDX-License-Identifier: Apache-2.0 */
/* A team: the threads of one process that are each a rank. Its segments are mapped once, at one address for all. */
#ifndef WEFT_BOOTSTRAP_TEAM_H
#define WEFT_BOOTSTRAP_TEAM_H
#include <weft/world.h>

#include "shared/segment.h"

int weft__team_size(const weft_team *team);
/* A number for the next thread that opens its world without saying which rank it is; -1: all are given. */
int weft__team_next_rank(weft_team *team);
/* Rank @p rank (-1: nobody knows which) cannot even meet the others: whoever waits for it, now or later, fails with
 * @p result and this thread's last message. */
void weft__team_break(weft_team *team, int rank, weft_result result);
/* Where a rank's segment lives; it stays mapped until the team is destroyed, since others may still look at it. */
weft__segment *weft__team_segment(weft_team *team, int rank);

#endif
