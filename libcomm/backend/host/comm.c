/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a comm: which ranks it can serve, and the comms of other backends below it. */
#include <stdlib.h>
#include <string.h>

#include "backend/host/host.h"
#include "base/error.h"

/* A message: long enough for the wire, short enough for the cache, and a little less than a power of two, which is what
 * wires cut into segments, heads of their own included. */
#define PIECE_MOST    ((size_t)255 << 10)
#define PIECE_LEAST   (PIECE_MOST / 16)
#define STAGING_BYTES ((size_t)6 << 20) /* of a comm, about */

enum { NEAR_FIRST, NEAR_SECOND, FAR };

/* ------------------------------------------------------------------------------------------- whom it serves */

static bool same_machine(const weft_world *world, int a, int b)
{
    return strcmp(world->identities[a].machine, world->identities[b].machine) == 0;
}

/* Members a machine: the same on all, side by side. 0: they lie otherwise. */
static int members_a_machine(const weft_world *world, const int *ranks, int count)
{
    int run = 1;
    while (run < count && same_machine(world, ranks[0], ranks[run]))
        run++;
    if (count % run)
        return 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j += run)
            if (same_machine(world, ranks[i], ranks[j]) != (i / run == j / run))
                return 0;
    return run;
}

weft__backend_instance *weft__host_near(const weft_world *world, const int *ranks, int count,
                                        weft_backend_facts *facts_out)
{
    weft_backend_question question = {
        .size = sizeof question, .world = world, .ranks = ranks, .count = count, .same_memory = 1};
    for (int i = 0; i < world->backend_count; i++)
        if (world->backends[i].table->query == weft__backend_local.query) {
            *facts_out = (weft_backend_facts){.size = sizeof *facts_out};
            return world->backends[i].table->query(&question, facts_out) == WEFT_OK ? &world->backends[i] : NULL;
        }
    return NULL;
}

weft__backend_instance *weft__host_far(const weft_backend_question *question, int *per_machine_out,
                                       weft_backend_facts *facts_out)
{
    const weft_world *world = question->world;
    weft__backend_instance *best = NULL;
    *per_machine_out = world->control ? members_a_machine(world, question->ranks, question->count) : 0;
    if (*per_machine_out < 2 || *per_machine_out == question->count)
        return NULL;
    for (int i = 0; i < world->backend_count; i++) {
        weft__backend_instance *b = &world->backends[i];
        weft_backend_facts facts = {.size = sizeof facts};
        if (b->table->query == weft__backend_host.query || b->table->query(question, &facts) != WEFT_OK ||
            !(facts.caps & WEFT_CAP_P2P) || facts.score <= (best ? facts_out->score : WEFT_SCORE_NONE))
            continue;
        best = b;
        *facts_out = facts;
    }
    return best;
}

/* ------------------------------------------------------------------------------------------- making one */

/* Bytes of staging for each byte of a piece; see part.h. */
static size_t pieces_of_cell(const weft__host_comm *hc)
{
    return (size_t)hc->count + 2 * (size_t)hc->machines;
}

static size_t piece_bytes(const weft__host_comm *hc)
{
    size_t bytes = PIECE_MOST;
    while (bytes > PIECE_LEAST && bytes * pieces_of_cell(hc) * WEFT__CELLS > STAGING_BYTES)
        bytes /= 2;
    return bytes / WEFT__LINE * WEFT__LINE;
}

static void lay_out(const weft__host_comm *hc, weft__cell *cell, unsigned char *staging)
{
    cell->whole = staging;
    cell->column = cell->whole + hc->piece_bytes * (size_t)hc->count;
    cell->heard = cell->column + hc->piece_bytes * (size_t)hc->machines;
}

/* Those that have been made; each is left before it is destroyed. */
static void leave_inner(weft__host_comm *hc)
{
    if (hc->near_first)
        hc->near->table->comm_leave(hc->near_first);
    if (hc->near_second)
        hc->near->table->comm_leave(hc->near_second);
    if (hc->far_comm)
        weft__wire_call(hc->far)->comm_leave(hc->far_comm);
}

static void free_parts(weft__host_comm *hc)
{
    if (hc->near_first)
        hc->near->table->comm_destroy(hc->near_first);
    if (hc->near_second)
        hc->near->table->comm_destroy(hc->near_second);
    if (hc->far_comm)
        weft__wire_call(hc->far)->comm_destroy(hc->far_comm);
    if (hc->staging)
        weft__heap_free(&hc->host->world->heap, hc->staging);
    free(hc->inner_memory);
    free(hc->sources);
    free(hc->near_ranks);
    free(hc);
}

/* Each cell has its staging, room for its operations, and memory for those of the backends below. */
static weft_result alloc_cells(weft__host_comm *hc)
{
    size_t messages = 2 * (size_t)hc->count, machines = (size_t)hc->machines;
    size_t near = weft__round_up(hc->near_facts.op_bytes, WEFT__LINE);
    size_t far = weft__round_up(hc->far_facts.op_bytes + messages * hc->far_facts.message_bytes, WEFT__LINE);
    size_t nears = weft__round_up(machines * sizeof(weft__inner), WEFT__LINE);
    size_t list = weft__round_up(messages * sizeof(weft_p2p), WEFT__LINE);
    size_t one = nears + machines * near + far + list, staging = pieces_of_cell(hc) * hc->piece_bytes;
    hc->inner_memory = weft__alloc(WEFT__CELLS * one);
    hc->sources = weft__alloc(machines * sizeof *hc->sources);
    if (!hc->inner_memory || !hc->sources)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(weft__heap_alloc(&hc->host->world->heap, WEFT__CELLS * staging, &hc->staging));
    for (size_t i = 0; i < WEFT__CELLS; i++) {
        weft__cell *cell = &hc->cells[i];
        unsigned char *at = (unsigned char *)hc->inner_memory + i * one;
        cell->nears = (weft__inner *)at;
        at += nears;
        for (size_t k = 0; k < machines; k++, at += near)
            cell->nears[k].memory = at;
        cell->far.memory = at;
        cell->messages = (weft_p2p *)(at + far);
        lay_out(hc, cell, (unsigned char *)hc->staging + i * staging);
    }
    return WEFT_OK;
}

static weft_result make_inner(weft__host_comm *hc, const weft_backend_comm *of, unsigned char *card)
{
    weft_backend_comm near = *of, far = *of;
    near.rank = hc->index;
    near.count = hc->per_machine;
    near.ranks = hc->near_ranks;
    far.part_channels = WEFT__WAYS;
    far.p2p_channels = hc->channels + far.part_channels;
    size_t near_card = hc->near_facts.card_bytes;
    WEFT_TRY(hc->near->table->comm_create(hc->near->state, &near, &hc->near_first, card));
    near.p2p_channels = 0;
    WEFT_TRY(hc->near->table->comm_create(hc->near->state, &near, &hc->near_second, card + near_card));
    return weft__wire_call(hc->far)->comm_create(hc->far->state, &far, &hc->far_comm, card + 2 * near_card);
}

weft_result weft__host_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    weft__host *host = state;
    weft_backend_question question = {
        .size = sizeof question, .world = host->world, .ranks = comm->ranks, .count = comm->count};
    weft__host_comm *hc = weft__alloc(sizeof *hc);
    if (!hc)
        return WEFT_E_NO_MEMORY;
    *hc = (weft__host_comm){
        .host = host, .comm = comm->comm, .rank = comm->rank, .count = comm->count, .channels = comm->p2p_channels};
    hc->tail = &hc->head;
    hc->last_batch = &hc->batches;
    hc->far = weft__host_far(&question, &hc->per_machine, &hc->far_facts);
    hc->near = weft__host_near(host->world, comm->ranks, comm->count, &hc->near_facts);
    weft_result result = hc->far && hc->near ? WEFT_OK : WEFT_E_UNSUPPORTED;
    if (result == WEFT_OK) {
        hc->machines = comm->count / hc->per_machine;
        hc->machine = comm->rank / hc->per_machine;
        hc->index = comm->rank % hc->per_machine;
        hc->piece_bytes = piece_bytes(hc);
        hc->near_ranks = weft__alloc((size_t)hc->per_machine * sizeof *hc->near_ranks);
        result = hc->near_ranks ? alloc_cells(hc) : WEFT_E_NO_MEMORY;
    }
    for (int i = 0; result == WEFT_OK && i < hc->per_machine; i++)
        hc->near_ranks[i] = comm->ranks[hc->machine * hc->per_machine + i];
    if (result == WEFT_OK)
        result = make_inner(hc, comm, card);
    if (result != WEFT_OK) {
        leave_inner(hc);
        free_parts(hc);
        return result;
    }
    *comm_out = hc;
    return WEFT_OK;
}

/* The cards of some members, that of one backend out of each. */
static weft_result connect_one(weft__host_comm *hc, int which, const unsigned char *cards)
{
    size_t near = hc->near_facts.card_bytes, far = hc->far_facts.card_bytes, all = 2 * near + far;
    size_t bytes = which == FAR ? far : near, at = (size_t)which * near;
    int first = which == FAR ? 0 : hc->machine * hc->per_machine;
    int count = which == FAR ? hc->count : hc->per_machine;
    void *comm = which == FAR ? hc->far_comm : which == NEAR_FIRST ? hc->near_first : hc->near_second;
    const weft_backend *table = weft__wire_call(which == FAR ? hc->far : hc->near);
    unsigned char *own = weft__alloc((size_t)count * bytes);
    if (!own)
        return WEFT_E_NO_MEMORY;
    for (int i = 0; i < count; i++)
        memcpy(own + (size_t)i * bytes, cards + (size_t)(first + i) * all + at, bytes);
    weft_result result = table->comm_connect(comm, own);
    free(own);
    return result;
}

weft_result weft__host_comm_connect(void *comm, const unsigned char *cards)
{
    weft__host_comm *hc = comm;
    for (int which = NEAR_FIRST; which <= FAR; which++) {
        if (hc->connected[which])
            continue;
        weft_result result = connect_one(hc, which, cards);
        if (result != WEFT_OK)
            return result;
        hc->connected[which] = true;
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- giving it up */

void weft__host_comm_abort(void *comm, weft_result result, const char *text)
{
    weft__host_comm *hc = comm;
    hc->failed = true;
    hc->near->table->comm_abort(hc->near_first, result, text);
    hc->near->table->comm_abort(hc->near_second, result, text);
    weft__wire_call(hc->far)->comm_abort(hc->far_comm, result, text);
}

void weft__host_comm_leave(void *comm)
{
    weft__host_comm *hc = comm;
    for (weft__host_comm **link = &hc->host->active; hc->active && *link; link = &(*link)->next)
        if (*link == hc) {
            *link = hc->next;
            break;
        }
    hc->active = false;
    leave_inner(hc);
}

void weft__host_comm_destroy(void *comm)
{
    weft__host_comm *hc = comm;
    free_parts(hc);
}
