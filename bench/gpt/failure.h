/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, kept for whoever decides which rank says it: all ranks meet the same wrong option, one tells. */
#ifndef WEFT_BENCH_GPT_FAILURE_H
#define WEFT_BENCH_GPT_FAILURE_H
#include <weft/result.h>

typedef struct gpt_failure {
    int code; /* EXIT_* of complain.h; 0 = nothing went wrong */
    char text[400];
} gpt_failure;

/* Fill @p failure with what weft said last, if @p result is a failure; returns the code, 0 if there is none. */
int gpt_fail_weft(gpt_failure *failure, weft_result result);
/* The same; of memory that was too little it says what for. */
int gpt_fail_making(gpt_failure *failure, weft_result result, const char *what);
/* Fill @p failure; returns @p code. */
int gpt_fail(gpt_failure *failure, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
