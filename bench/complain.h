/* SPDX-License-Identifier: Apache-2.0 */
/* How a subcommand of `weft` ends: with an exit code, and if it is not 0, with one line on stderr that says why. */
#ifndef WEFT_BENCH_COMPLAIN_H
#define WEFT_BENCH_COMPLAIN_H
#include <stddef.h>

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,        /* the run failed */
    EXIT_USAGE = 2,         /* wrong options */
    EXIT_LIMIT = 3,         /* a --fail-... limit was exceeded */
    EXIT_DEADLINE = 4,      /* a deadline passed */
    EXIT_WRONG = 7,         /* wrong values */
    EXIT_NOT_PERMITTED = 77 /* this machine does not permit, or lacks, what the command needs; tests are skipped then */
};

/* "weft: ..." on stderr, in one line whatever bytes a name holds, and the code to return. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put complaints into @p text from here on, without the "weft: "; NULL: back to stderr. While there is one thread. */
void complain_into(char *text, size_t bytes);

#endif
