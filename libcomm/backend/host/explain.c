/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation waits for: the part of it that has not ended knows. */
#include <stdio.h>
#include <string.h>

#include "backend/host/host.h"

static void explain_far(const weft__host_comm *hc, const weft__inner *far, char *text, size_t bytes)
{
    hc->far->table->explain(hc->far_comm, &far->op, text, bytes);
}

static void explain_near(const weft__host_comm *hc, const weft__inner *near, void *comm, char *text, size_t bytes)
{
    hc->near->table->explain(comm, &near->op, text, bytes);
}

static void explain_cell(const weft__host_comm *hc, const weft__cell *cell, char *text, size_t bytes)
{
    if (!weft__inner_ended(&cell->far)) {
        explain_far(hc, &cell->far, text, bytes);
        size_t used = strlen(text);
        if (cell->station == WEFT__FIRST_FAR && used < bytes)
            snprintf(text + used, bytes - used, "; ranks of its machine may not have arrived");
        return;
    }
    for (int i = 0; i < cell->near_count; i++)
        if (!weft__inner_ended(&cell->nears[i])) {
            explain_near(hc, &cell->nears[i], cell->station == WEFT__ENTER_HOST ? hc->near_first : hc->near_second,
                         text, bytes);
            return;
        }
    snprintf(text, bytes, "it waits for earlier operations of this comm");
}

void weft__host_explain(void *comm, const weft_op *op, char *text, size_t bytes)
{
    const weft__host_comm *hc = comm;
    snprintf(text, bytes, "it waits for earlier operations of this comm");
    for (uint64_t serial = hc->closed; serial < hc->opened; serial++) {
        const weft__cell *cell = &hc->cells[serial % WEFT__CELLS];
        if (cell->op == op) {
            explain_cell(hc, cell, text, bytes);
            return;
        }
    }
    for (const weft__host_batch *b = hc->batches; b; b = b->next) {
        if (b->op == op && !weft__inner_ended(&b->near))
            explain_near(hc, &b->near, hc->near_first, text, bytes);
        else if (b->op == op && !weft__inner_ended(&b->far))
            explain_far(hc, &b->far, text, bytes);
    }
}
