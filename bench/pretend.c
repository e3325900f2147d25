/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps as long as computing would take. */
#include "pretend.h"

#include <sys/prctl.h>
#include <time.h>

#include "clock.h"

void pretend_begin(pretend *core)
{
    core->due_ns = core->left_ns = clock_ns();
}

void pretend_open(pretend *core)
{
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* of this thread, in ns */
    core->late_ns = 0;
    pretend_begin(core);
}

/* Until a moment; how much later than that it is. */
static int64_t sleep_until(int64_t when_ns)
{
    struct timespec when = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0) /* a signal came */
        ;
    return clock_ns() - when_ns;
}

/* Whoever sleeps wakes up late, so sleep less by what that usually is, and spin for what is left: no more of a core
 * than EARLY_MOST_NS. */
void pretend_pass(pretend *core, int64_t ns)
{
    enum { EARLY_MOST_NS = 30000, OFTEN = 8 };
    int64_t now = clock_ns(), late;
    core->due_ns += now - core->left_ns + ns;
    if (core->due_ns - core->late_ns > now) {
        late = sleep_until(core->due_ns - core->late_ns);
        core->late_ns += ((late < EARLY_MOST_NS ? late : EARLY_MOST_NS) - core->late_ns) / OFTEN;
    }
    while ((core->left_ns = clock_ns()) < core->due_ns)
        ;
}
