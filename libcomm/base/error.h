/* SPDX-License-Identifier: Apache-2.0 */
/* How a failure is told: the first to see it calls weft__fail(), everybody above passes the code up. */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H
#include <stdbool.h>
#include <weft/result.h>

/* Keep the message for weft_last_error(), log it, return @p result. errno is untouched. What a caller did wrong or may
 * try again is logged for debugging only, the rest as an error. */
weft_result weft__fail(weft_result result, const char *format, ...) WEFT_PRINTF(2, 3);
/* The same for E_SYSTEM, with the text of errno behind the message. */
weft_result weft__fail_errno(const char *format, ...) WEFT_PRINTF(1, 2);
/* Keep a message that was logged elsewhere (a verdict met again). */
weft_result weft__fail_quietly(weft_result result, const char *message);

/* Is it one of WEFT_E_*? For what comes from elsewhere. */
bool weft__is_failure(int result);

/* What weft_last_error() says: kept and put back by calls that do not fail, whatever goes wrong on their way. */
typedef struct weft__last_error {
    char text[512];
} weft__last_error;
weft__last_error weft__error_keep(void);
void weft__error_restore(const weft__last_error *kept);

/* For functions that hold nothing: pass a failure up. */
#define WEFT_TRY(call)                         \
    do {                                       \
        weft_result weft_try_result_ = (call); \
        if (weft_try_result_ < 0)              \
            return weft_try_result_;           \
    } while (0)

#endif
