/* SPDX-License-Identifier: Apache-2.0 */
/* Tells what a machine does not permit or have, for which nobody is to blame, from what goes wrong. */
#ifndef WEFT_BENCH_HOSTS_PERMIT_H
#define WEFT_BENCH_HOSTS_PERMIT_H

/* Complain that @p what, "mount the /proc of a host", cannot be done, with errno's reason. EXIT_NOT_PERMITTED or
 * EXIT_FAILED. */
int permit_cannot(const char *what);
/* The same by the words of `ip` or `tc`. */
int permit_refused(const char *tool, const char *words);

#endif
