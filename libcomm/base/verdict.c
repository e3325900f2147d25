/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts: the first failure with its words, signed by the rank that met it. */
#include "base/verdict.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

weft_result weft__verdict_add(weft__verdict *verdict, weft_result result)
{
    if (verdict->result < 0 || result >= 0)
        return result;
    verdict->result = result;
    snprintf(verdict->text, sizeof verdict->text, "%s", weft_last_error());
    return result;
}

void weft__verdict_sign(weft__verdict *verdict, int rank)
{
    char name[24];
    size_t bytes = (size_t)snprintf(name, sizeof name, "rank %d: ", rank), digits = bytes - 2;
    if (strncmp(verdict->text, name, digits) == 0 && !isdigit((unsigned char)verdict->text[digits]))
        return;
    memmove(verdict->text + bytes, verdict->text, sizeof verdict->text - bytes);
    memcpy(verdict->text, name, bytes);
    verdict->text[sizeof verdict->text - 1] = 0;
}

const char *weft__verdict_told(const char *text, int by_rank, char *out, size_t bytes)
{
    bool told = strstr(text, " [told by rank ");
    int n = snprintf(out, bytes, "%s", text);
    if (!told && n >= 0 && (size_t)n < bytes)
        snprintf(out + n, bytes - (size_t)n, " [told by rank %d]", by_rank);
    return out;
}

weft_result weft__verdict_result(const weft__verdict *verdict)
{
    return verdict->result < 0 ? weft__fail_quietly((weft_result)verdict->result, verdict->text) : WEFT_OK;
}
