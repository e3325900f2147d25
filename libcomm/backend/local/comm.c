/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a comm: a page in this rank's heap, then the pages of the others, and in the end everybody's leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/local/local.h"
#include "base/error.h"

static void free_parts(weft__local_comm *lc)
{
    if (lc->page)
        weft__heap_free(&lc->local->world->heap, lc->page);
    free(lc->pages);
    free(lc->bases);
    free(lc->writers);
    free(lc->readers);
    free(lc->plan.move);
    free(lc->plan.push);
    free(lc->help.parts);
    free(lc->help.shared);
    free(lc->help.pace);
    free(lc->help.plan.move);
    free(lc->help.plan.push);
    free(lc->met);
    free(lc->sources);
    free(lc->targets);
    free(lc->lanes);
    free(lc);
}

static weft_result alloc_parts(weft__local_comm *lc)
{
    size_t n = (size_t)lc->count;
    lc->pages = weft__alloc(n * sizeof *lc->pages);
    lc->bases = weft__alloc(n * sizeof *lc->bases);
    lc->writers = weft__alloc(n * sizeof *lc->writers);
    lc->readers = weft__alloc(n * sizeof *lc->readers);
    lc->plan.move = weft__alloc(n * sizeof *lc->plan.move);
    lc->plan.push = weft__alloc(n * sizeof *lc->plan.push);
    lc->help.parts = weft__alloc(n * sizeof *lc->help.parts);
    lc->help.shared = weft__alloc(n * sizeof *lc->help.shared);
    lc->help.pace = weft__alloc(n * sizeof *lc->help.pace);
    lc->help.plan.move = weft__alloc(n * sizeof *lc->help.plan.move);
    lc->help.plan.push = weft__alloc(n * sizeof *lc->help.plan.push);
    lc->met = weft__alloc(n * sizeof *lc->met);
    lc->sources = weft__alloc(n * sizeof *lc->sources);
    lc->targets = weft__alloc(n * sizeof *lc->targets);
    if (!lc->pages || !lc->bases || !lc->writers || !lc->readers || !lc->plan.move || !lc->plan.push ||
        !lc->help.parts || !lc->help.shared || !lc->help.pace || !lc->help.plan.move || !lc->help.plan.push ||
        !lc->met || !lc->sources || !lc->targets)
        return WEFT_E_NO_MEMORY;
    void *page;
    WEFT_TRY(weft__lanes_open(lc));
    WEFT_TRY(weft__heap_alloc(&lc->local->world->heap, lc->layout.total, &page));
    lc->page = page;
    return WEFT_OK;
}

weft_result weft__local_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    weft__local *local = state;
    weft__local_comm *lc = weft__alloc(sizeof *lc);
    if (!lc)
        return WEFT_E_NO_MEMORY;
    lc->local = local;
    lc->comm = comm->comm;
    lc->name = comm->name;
    lc->rank = comm->rank;
    lc->count = comm->count;
    lc->ranks = comm->ranks;
    lc->channels = comm->p2p_channels;
    lc->slot_bytes = local->slot_bytes;
    lc->tail = &lc->head;
    lc->layout = weft__page_lay_out(comm->count, (int)comm->p2p_channels, local->slot_bytes);
    weft_result result = alloc_parts(lc);
    if (result != WEFT_OK) {
        free_parts(lc);
        return result;
    }
    weft__local_card mine = {.page = (uint64_t)((unsigned char *)lc->page - local->world->own->base)};
    memcpy(card, &mine, sizeof mine);
    *comm_out = lc;
    return WEFT_OK;
}

weft_result weft__local_comm_connect(void *comm, const unsigned char *cards)
{
    weft__local_comm *lc = comm;
    const weft__page_layout *l = &lc->layout;
    for (int i = 0; i < lc->count; i++) {
        weft__local_card theirs;
        memcpy(&theirs, cards + (size_t)i * sizeof theirs, sizeof theirs);
        lc->bases[i] = weft__local_segment(lc, i)->base;
        lc->pages[i] = (weft__page *)(lc->bases[i] + theirs.page);
        if (i == lc->rank)
            continue;
        lc->writers[i] = (weft__pipe_writer){.out = weft__page_pipe_out(l, lc->page, i),
                                             .in = weft__page_pipe_in(l, lc->pages[i], lc->rank),
                                             .bytes = l->pipe_bytes};
        lc->readers[i] = (weft__pipe_reader){.out = weft__page_pipe_out(l, lc->pages[i], lc->rank),
                                             .in = weft__page_pipe_in(l, lc->page, i),
                                             .bytes = l->pipe_bytes};
    }
    lc->pages[lc->rank] = lc->page;
    weft__lanes_connect(lc);
    lc->connected = true;
    return WEFT_OK;
}

/* What is left will not be done: the others must not take what it reads or writes for good. */
static void fail_what_is_left(weft__local_comm *lc)
{
    weft_result verdict = (weft_result)atomic_load(&lc->comm->verdict);
    char text[sizeof lc->page->verdict_text];
    snprintf(text, sizeof text, "rank %d has destroyed comm %s with operations in flight", lc->ranks[lc->rank],
             lc->name);
    weft__local_abort(lc, verdict == WEFT_OK ? WEFT_E_ABORTED : verdict,
                      verdict == WEFT_OK ? text : lc->comm->verdict_text);
}

void weft__local_comm_leave(void *comm)
{
    weft__local_comm *lc = comm;
    if ((lc->head || lc->busy_lanes) && !lc->failed)
        fail_what_is_left(lc);
    for (weft__local_comm **link = &lc->local->active; lc->active && *link; link = &(*link)->next)
        if (*link == lc) {
            *link = lc->next;
            break;
        }
    lc->active = false;
    atomic_store(&lc->page->destroyed, 1);
    weft__local_wake_all(lc); /* members may have connected, though this rank has not */
}

void weft__local_comm_destroy(void *comm)
{
    free_parts(comm);
}
