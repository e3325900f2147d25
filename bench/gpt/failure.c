/* SPDX-License-Identifier: Apache-2.0 */
/* One failure, as text and exit code. */
#include "gpt/failure.h"

#include <stdarg.h>
#include <stdio.h>

int gpt_fail(gpt_failure *failure, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return failure->code = code;
}
