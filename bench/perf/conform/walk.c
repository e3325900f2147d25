/* SPDX-License-Identifier: Apache-2.0 */
/* Runs cases one by one: makes the comm they need, and lets all ranks hear how each of them fared. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/conform/conform.h"

enum { TIMEOUT_MS = 60000 };

void conform_say(conform_verdict *verdict, int kind, const char *format, ...)
{
    va_list arguments;
    if (verdict->kind != CONFORM_WELL)
        return;
    verdict->kind = kind;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof verdict->text, format, arguments);
    va_end(arguments);
}

bool conform_expect(conform_verdict *verdict, const char *call, weft_result result, weft_result wanted)
{
    if (result != wanted)
        conform_say(verdict, CONFORM_FAILED, "%.60s gave %s, not %s%s%.120s", call, weft_result_string(result),
                    weft_result_string(wanted), result < 0 ? ": " : "", result < 0 ? weft_last_error() : "");
    return result == wanted;
}

void conform_finish(weft_work work, conform_verdict *verdict)
{
    if (work.value)
        CONFORM_OK(verdict, weft_work_finish(work, WEFT_STREAM_HOST));
}

unsigned char *conform_memory(conform *c, bool from_weft, int which, size_t bytes)
{
    conform_arena *arena = &c->arenas[from_weft][which];
    void *memory = NULL;
    if (arena->bytes >= bytes)
        return arena->memory;
    if (from_weft) {
        weft_memory_free(c->world, arena->memory);
        if (weft_memory_alloc(c->world, bytes, &memory) != WEFT_OK)
            memory = NULL;
    } else {
        free(arena->memory);
        memory = malloc(bytes);
    }
    *arena = (conform_arena){memory, memory ? bytes : 0};
    return memory;
}

/* ------------------------------------------------------------------------------------------- comms */

const char *conform_backend(const conform *c)
{
    return strcmp(c->settings->backend, CONFORM_CHOSEN) == 0 ? NULL : c->settings->backend;
}

/* Which ranks of the world: the first or the last, forwards or backwards. Answers whether this rank is one. */
static bool choose_members(const conform *c, int count, int *members)
{
    bool one_of_them = false;
    int first = count % 2 ? weft_world_size(c->world) - count : 0;
    for (int i = 0; i < count; i++) {
        members[i] = first + (count % 3 == 0 ? count - 1 - i : i);
        one_of_them |= members[i] == weft_world_rank(c->world);
    }
    return one_of_them;
}

static weft_result make(conform *c, const char *name, int count, uint32_t flags, weft_comm **comm_out)
{
    int members[CONFORM_RANKS_MOST];
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = conform_backend(c);
    config.timeout_ms = TIMEOUT_MS;
    config.flags = flags;
    *comm_out = NULL;
    if (!choose_members(c, count, members))
        return WEFT_OK;
    return weft_comm_create(c->world, name, members, count, &config, comm_out);
}

/* Called by all ranks of the world, which count alike. */
static weft_result make_next(conform *c, int count, uint32_t flags, weft_comm **comm_out)
{
    char name[32];
    snprintf(name, sizeof name, "conform %d", c->comms_made++);
    return make(c, name, count, flags, comm_out);
}

weft_result conform_comm_beside(conform *c, weft_comm **comm_out)
{
    char name[32];
    snprintf(name, sizeof name, "beside %d", c->comms_made);
    return make(c, name, c->comm_ranks, 0, comm_out);
}

/* The backend over hosts sums what a host has first; its comms have as many ranks of each, side by side. */
int conform_group(const conform *c)
{
    int ranks = weft_comm_size(c->comm), group = 1;
    if (strcmp(weft_comm_backend(c->comm), "host") != 0)
        return ranks;
    int host = c->hosts[weft_comm_world_rank(c->comm, 0)];
    while (group < ranks && c->hosts[weft_comm_world_rank(c->comm, group)] == host)
        group++;
    return group;
}

void conform_drop(conform *c)
{
    weft_comm_destroy(c->comm);
    c->comm = NULL;
    c->comm_ranks = 0;
}

/* ------------------------------------------------------------------------------------------- cases */

/* The first that something went wrong on, or -1. */
static int first_of(const conform_verdict *all, int ranks)
{
    for (int kind = CONFORM_WRONG; kind > CONFORM_WELL; kind--) /* others often fail because of one that is wrong */
        for (int r = 0; r < ranks; r++)
            if ((int)all[r].kind == kind)
                return r;
    return -1;
}

/* All ranks hear how all fared, and the first says so. */
static weft_result judge(conform *c, const char *line, const conform_verdict *mine, bool *well_out)
{
    int ranks = weft_world_size(c->world);
    conform_verdict *all = malloc((size_t)ranks * sizeof *all);
    if (!all)
        return WEFT_E_NO_MEMORY;
    weft_result result = weft_all_gather_run(c->control, mine, all, sizeof *mine, WEFT_UINT8, WEFT_STREAM_HOST);
    int bad = result == WEFT_OK ? first_of(all, ranks) : -1;
    *well_out = bad < 0;
    c->cases++;
    if (bad >= 0) {
        c->failed++;
        c->wrong += all[bad].kind == CONFORM_WRONG;
        if (weft_world_rank(c->world) == 0)
            printf("FAILED %s, %s, backend %s: rank %d: %s\n", line, c->carried, c->settings->backend, bad,
                   all[bad].text),
                fflush(stdout);
    }
    free(all);
    return result;
}

weft_result conform_try(conform *c, int ranks, const char *line, conform_body body, const void *what)
{
    conform_verdict verdict = {.kind = CONFORM_WELL};
    weft_result result = WEFT_OK;
    bool well = false;
    if (c->settings->only && !strstr(line, c->settings->only))
        return WEFT_OK;
    if (c->met++ % (unsigned)c->settings->parts != (unsigned)c->settings->part - 1)
        return WEFT_OK;
    if (c->comm_ranks != ranks) {
        conform_drop(c);
        (void)conform_expect(&verdict, "weft_comm_create", make_next(c, ranks, 0, &c->comm), WEFT_OK);
        c->comm_ranks = ranks;
        /* A failure on one member must not come before another has made it. */
        result = weft_barrier_run(c->control, WEFT_STREAM_HOST);
        if (result != WEFT_OK)
            return result;
    }
    bool member = c->comm;
    if (member)
        body(c, what, &verdict);
    result = judge(c, line, &verdict, &well);
    /* It may be lost, as some cases want it. */
    int lost = !well || (member && (!c->comm || weft_comm_error(c->comm, NULL, 0) != WEFT_OK)), any = 0;
    if (result == WEFT_OK)
        result = weft_all_reduce_run(c->control, &lost, &any, 1, WEFT_INT32, WEFT_MAX, WEFT_STREAM_HOST);
    if (any)
        conform_drop(c);
    return result;
}

weft_result conform_try_sizes(conform *c, int least, const char *line, conform_body body, const void *what)
{
    weft_result result = WEFT_OK;
    for (int ranks = least; ranks <= c->settings->ranks && result == WEFT_OK; ranks++) {
        char text[128];
        snprintf(text, sizeof text, "%s, %d ranks", line, ranks);
        if (c->settings->full || ranks <= 3 || ranks == c->settings->ranks)
            result = conform_try(c, ranks, text, body, what);
    }
    return result;
}

/* ------------------------------------------------------------------------------------------- the whole */

/* What the backend can do, as far as it can be asked for; the message says what it cannot. */
static weft_result find_out(conform *c)
{
    weft_comm *comm, *exact;
    int ranks = c->settings->ranks;
    weft_p2p_batch nothing = WEFT_P2P_BATCH_INIT;
    weft_result result = make_next(c, ranks, 0, &comm);
    if (result != WEFT_OK)
        return result;
    weft_result collectives = weft_barrier_run(comm, WEFT_STREAM_HOST);
    weft_result messages = weft_p2p_run(comm, &nothing, WEFT_STREAM_HOST);
    c->ordered = make_next(c, ranks, WEFT_COMM_EXACT, &exact) == WEFT_OK;
    weft_comm_destroy(exact);
    weft_comm_destroy(comm);
    c->collectives = collectives != WEFT_E_UNSUPPORTED;
    c->messages = messages != WEFT_E_UNSUPPORTED;
    return WEFT_OK;
}

weft_result conform_walk(conform *c)
{
    weft_result result = find_out(c);
    if (result == WEFT_OK && weft_world_rank(c->world) == 0) {
        printf("backend %s, %s, %d ranks: %s%s%s\n", c->settings->backend, c->carried, c->settings->ranks,
               c->collectives ? "collectives, " : "", c->messages ? "p2p messages, " : "",
               c->ordered ? "ordered sums" : "sums in any order");
        fflush(stdout);
    }
    if (result == WEFT_OK && c->collectives)
        result = conform_collectives(c);
    if (result == WEFT_OK && c->collectives)
        result = conform_sums(c);
    if (result == WEFT_OK && c->messages)
        result = conform_messages(c);
    if (result == WEFT_OK && c->collectives)
        result = conform_orders(c);
    return result == WEFT_OK ? conform_failures(c) : result;
}
