/* SPDX-License-Identifier: Apache-2.0 */
/* Computing that is nothing but time: it sleeps to absolute deadlines, so that a thousand short sleeps last as long as
 * one long one, and takes no core. So more ranks than there are cores overlap as if each had one. */
#ifndef WEFT_BENCH_PRETEND_H
#define WEFT_BENCH_PRETEND_H
#include <stdint.h>

/* The core that a thread pretends to have. */
typedef struct pretend {
    int64_t due_ns, left_ns; /* when all that was asked for should have been over, and when it was */
    int64_t late_ns;         /* how much later than asked for a sleep ends, usually */
} pretend;

/* By the thread that is to sleep: what comes begins now. */
void pretend_open(pretend *core);
/* Also behind whatever may have been waited for: who sleeps too long may sleep through a wait, which is not to be made
 * up for. */
void pretend_begin(pretend *core);
/* Be busy for @p ns. What was slept too long before is made up for, what passed in between is not. */
void pretend_pass(pretend *core, int64_t ns);

#endif
