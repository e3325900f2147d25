/* SPDX-License-Identifier: Apache-2.0 */
/* Which backends there are, and which of them carries a comm. */
#include "backend/registry.h"

#include <string.h>

#include "base/error.h"
#include "world.h"

static const weft_backend *const known[WEFT__BACKENDS] = {&weft__backend_self, &weft__backend_local};

/* ------------------------------------------------------------------------------------------- gaps in a table */

static weft_result no_query(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question, (void)facts;
    return WEFT_E_UNSUPPORTED;
}

static void no_explain(void *comm, const weft_op *op, char *text, size_t text_bytes)
{
    (void)comm, (void)op;
    if (text_bytes)
        text[0] = 0;
}

/* The table as this version knows it, with a stub in every gap that a backend may leave. */
static weft_result fill_table(const weft_backend *given, weft_backend *table)
{
    if (given->abi_major != WEFT_BACKEND_ABI)
        return weft__fail(WEFT_E_UNSUPPORTED, "backend %s speaks abi %u, weft %d", given->name, given->abi_major,
                          WEFT_BACKEND_ABI);
    memset(table, 0, sizeof *table);
    memcpy(table, given, given->size < sizeof *table ? given->size : sizeof *table);
    if (!table->query)
        table->query = no_query;
    if (!table->explain)
        table->explain = no_explain;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- opening and choosing */

weft_result weft__backends_open(weft_world *world)
{
    for (int i = 0; i < WEFT__BACKENDS; i++) {
        weft__backend_instance *b = &world->backends[i];
        WEFT_TRY(fill_table(known[i], &b->table));
        weft_result result = b->table.open(world, &b->state);
        if (result == WEFT_E_UNSUPPORTED)
            continue; /* not in this world */
        if (result != WEFT_OK)
            return result;
        b->open = true;
    }
    return WEFT_OK;
}

void weft__backends_close(weft_world *world)
{
    for (int i = WEFT__BACKENDS - 1; i >= 0; i--) {
        weft__backend_instance *b = &world->backends[i];
        if (b->open)
            b->table.close(b->state);
        b->open = false;
    }
}

static bool can_serve(const weft__backend_instance *b, const weft_backend_question *question, uint32_t comm_flags,
                      weft_backend_facts *facts)
{
    *facts = (weft_backend_facts){.size = sizeof *facts};
    return b->open && b->table.query(question, facts) == WEFT_OK && facts->score > 0 &&
           !((comm_flags & WEFT_COMM_EXACT) && !(facts->caps & WEFT_CAP_ORDERED));
}

weft_result weft__backends_choose(weft_world *world, const char *name, uint32_t comm_flags, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out)
{
    weft_backend_question question = {.size = sizeof question,
                                      .world = world,
                                      .ranks = ranks,
                                      .count = count,
                                      .same_memory = world->segments != NULL};
    weft__backend_instance *best = NULL;
    bool known_name = !name || !*name;
    for (int i = 0; i < WEFT__BACKENDS; i++) {
        weft__backend_instance *b = &world->backends[i];
        bool named = name && *name && strcmp(b->table.name, name) == 0;
        known_name = known_name || named;
        /* A comm of one rank is always its own business. */
        if (name && *name && !named && count > 1)
            continue;
        weft_backend_facts facts;
        if (!can_serve(b, &question, comm_flags, &facts) || (best && facts.score <= facts_out->score))
            continue;
        best = b;
        *facts_out = facts;
    }
    if (!known_name)
        return weft__fail(WEFT_E_NOT_FOUND, "there is no backend '%s'", name);
    if (!best)
        return weft__fail(WEFT_E_UNSUPPORTED, "no backend%s%s%s can carry these %d ranks", name ? " '" : "",
                          name ? name : "", name ? "'" : "", count);
    *instance_out = best;
    return WEFT_OK;
}
