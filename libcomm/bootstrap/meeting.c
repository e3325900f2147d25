/* SPDX-License-Identifier: Apache-2.0 */
/* One verdict for all: what ranks do at the end of each part of a meeting. */
#include "bootstrap/meeting.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

typedef struct verdict {
    int32_t result;
    char text[236];
} verdict;

weft_result weft__meeting_agree(weft__meeting *meeting, weft_result mine)
{
    verdict own = {.result = mine};
    snprintf(own.text, sizeof own.text, "%s", mine < 0 ? weft_last_error() : "");
    verdict *all = weft__alloc((size_t)meeting->size * sizeof *all);
    if (!all)
        return WEFT_E_NO_MEMORY;
    weft_result result = meeting->calls->exchange(meeting, &own, sizeof own, all);
    for (int r = 0; result == WEFT_OK && r < meeting->size; r++) {
        if (all[r].result >= 0)
            continue;
        result = (weft_result)all[r].result;
        if (r == meeting->rank)
            (void)weft__fail_quietly(result, own.text);
        else
            (void)weft__fail(result, "rank %d: %.*s", r, (int)sizeof all[r].text - 1, all[r].text);
    }
    free(all);
    return result;
}
