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
    pretend_begin(core);
}

void pretend_pass(pretend *core, int64_t ns)
{
    int64_t now = clock_ns();
    core->due_ns += now - core->left_ns + ns;
    struct timespec due = {.tv_sec = core->due_ns / 1000000000, .tv_nsec = core->due_ns % 1000000000};
    while (core->due_ns > now && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0) /* a signal came */
        ;
    core->left_ns = clock_ns();
}
