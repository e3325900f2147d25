/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what steady steps must not do, allocate and lock, in everything that a test is linked of. Such a test
 * depends on steady_dep, which leads these calls through here. */
#ifndef WEFT_TESTS_HARNESS_STEADY_H
#define WEFT_TESTS_HARNESS_STEADY_H

/* Since the program began. Any thread. */
long steady_allocations(void);
long steady_locks(void);

#endif
