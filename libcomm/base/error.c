/* SPDX-License-Identifier: Apache-2.0 */
/* Results as text, and the last message of each thread. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static _Thread_local char last_message[sizeof(weft__last_error)];

const char *weft_result_string(weft_result result)
{
    switch (result) {
    case WEFT_OK:
        return "OK";
    case WEFT_PENDING:
        return "PENDING";
    case WEFT_AGAIN:
        return "AGAIN";
    case WEFT_E_INVALID:
        return "E_INVALID";
    case WEFT_E_RANGE:
        return "E_RANGE";
    case WEFT_E_STATE:
        return "E_STATE";
    case WEFT_E_TWICE:
        return "E_TWICE";
    case WEFT_E_UNSUPPORTED:
        return "E_UNSUPPORTED";
    case WEFT_E_FORKED:
        return "E_FORKED";
    case WEFT_E_CAPTURE:
        return "E_CAPTURE";
    case WEFT_E_NO_MEMORY:
        return "E_NO_MEMORY";
    case WEFT_E_SYSTEM:
        return "E_SYSTEM";
    case WEFT_E_NO_DEVICE:
        return "E_NO_DEVICE";
    case WEFT_E_NOT_FOUND:
        return "E_NOT_FOUND";
    case WEFT_E_BUSY:
        return "E_BUSY";
    case WEFT_E_PEER_LOST:
        return "E_PEER_LOST";
    case WEFT_E_MISMATCH:
        return "E_MISMATCH";
    case WEFT_E_TIMEOUT:
        return "E_TIMEOUT";
    case WEFT_E_ABORTED:
        return "E_ABORTED";
    case WEFT_E_STUCK:
        return "E_STUCK";
    case WEFT_E_BUG:
        return "E_BUG";
    }
    return "?";
}

bool weft__is_failure(int result)
{
    return result < 0 && strcmp(weft_result_string((weft_result)result), "?") != 0;
}

const char *weft_last_error(void)
{
    return last_message;
}

weft__last_error weft__error_keep(void)
{
    weft__last_error kept;
    memcpy(kept.text, last_message, sizeof kept.text);
    return kept;
}

void weft__error_restore(const weft__last_error *kept)
{
    memcpy(last_message, kept->text, sizeof last_message);
}

weft_result weft__fail_quietly(weft_result result, const char *message)
{
    if (message != last_message)
        snprintf(last_message, sizeof last_message, "%s", message);
    return result;
}

/* A caller that asked for what cannot be is told so by its result; so is one that may ask again. */
static weft_log_level level_of(weft_result result)
{
    bool callers = result > WEFT_E_NO_MEMORY || result == WEFT_E_BUSY || result == WEFT_E_NOT_FOUND;
    return callers ? WEFT_LOG_DEBUG : WEFT_LOG_ERROR;
}

weft_result weft__fail(weft_result result, const char *format, ...)
{
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_message, sizeof last_message, format, arguments);
    va_end(arguments);
    weft__log(level_of(result), "%s (%s)", last_message, weft_result_string(result));
    errno = saved;
    return result;
}

weft_result weft__fail_errno(const char *format, ...)
{
    int saved = errno;
    char what[384];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    weft_result result = weft__fail(WEFT_E_SYSTEM, "%s: %s", what, strerror(saved));
    errno = saved;
    return result;
}
