/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in a failure: its text and its exit code. */
#include "gpt/failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "complain.h"

int gpt_fail(gpt_failure *failure, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return failure->code = code;
}

static const char *last_error(weft_result result)
{
    return *weft_last_error() ? weft_last_error() : weft_result_string(result);
}

int gpt_fail_making(gpt_failure *failure, weft_result result, const char *what)
{
    if (result != WEFT_E_NO_MEMORY)
        return gpt_fail_weft(failure, result);
    return gpt_fail(failure, EXIT_FAILED, "%s: %s", what, last_error(result));
}

int gpt_fail_weft(gpt_failure *failure, weft_result result)
{
    if (result >= 0)
        return 0;
    return gpt_fail(failure, result == WEFT_E_TIMEOUT ? EXIT_DEADLINE : EXIT_FAILED, "%s", last_error(result));
}
