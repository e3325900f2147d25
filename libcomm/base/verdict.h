/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict: how one rank fared, with its message, in a fixed size. It travels to the others as bytes. */
#ifndef WEFT_BASE_VERDICT_H
#define WEFT_BASE_VERDICT_H
#include <stddef.h>
#include <stdint.h>
#include <weft/result.h>

typedef struct weft__verdict {
    int32_t result; /* WEFT_OK, or the failure */
    char text[508];
} weft__verdict;

/* Add what came next: the first failure stays, with this thread's last message. Returns @p result. */
weft_result weft__verdict_add(weft__verdict *verdict, weft_result result);
/* Lead the message with "rank 3: ", unless it names that rank first anyway: others are going to read it. */
void weft__verdict_sign(weft__verdict *verdict, int rank);
/* The text as others tell it: who told it first is said once. */
const char *weft__verdict_told(const char *text, int by_rank, char *out, size_t bytes);
/* The verdict as the result of a call on this thread: its message becomes the last one. */
weft_result weft__verdict_result(const weft__verdict *verdict);

#endif
