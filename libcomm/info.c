/* SPDX-License-Identifier: Apache-2.0 */
/* What weft is here, fact by fact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/info.h>
#include <weft/version.h>

#include "backend/local/cache.h"
#include "backend/modules.h"
#include "base/env.h"
#include "base/error.h"
#include "device/device.h"
#include "device/vector.h"
#include "world.h"

typedef struct teller {
    weft_info_visit *visit;
    void *cookie;
} teller;

static void tell(const teller *t, weft_info_kind kind, const char *name, const char *value, const char *note)
{
    t->visit(t->cookie,
             &(weft_info){.size = sizeof(weft_info), .kind = kind, .name = name, .value = value, .note = note});
}

static void tell_module(void *cookie, const char *path, const char *why_not)
{
    tell(cookie, WEFT_INFO_MODULE, path, why_not ? "left out" : "loaded", why_not ? why_not : "");
}

/* ------------------------------------------------------------------------------------------- backends */

/* "collectives, messages, ordered sums" */
static void name_caps(uint64_t caps, char *text, size_t bytes)
{
    static const struct {
        uint64_t cap;
        const char *name;
    } names[] = {{WEFT_CAP_COLLECTIVE, "collectives"}, {WEFT_CAP_P2P, "messages"}, {WEFT_CAP_ORDERED, "ordered sums"}};
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (caps & names[i].cap)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", names[i].name);
}

static void tell_left_out(void *cookie, const char *name, const char *why)
{
    tell(cookie, WEFT_INFO_BACKEND, name, "left out", why);
}

static void tell_backend(const teller *t, const weft__backend_instance *b, const weft_backend_question *question)
{
    weft_backend_facts facts = {.size = sizeof facts};
    char caps[64], score[128];
    if (b->table->query(question, &facts) != WEFT_OK || facts.score <= WEFT_SCORE_NONE) {
        tell(t, WEFT_INFO_BACKEND, b->table->name, "does not serve these ranks", "");
        return;
    }
    name_caps(facts.caps, caps, sizeof caps);
    snprintf(score, sizeof score, "score %d%s%s", facts.score, facts.why ? ": " : "", facts.why ? facts.why : "");
    tell(t, WEFT_INFO_BACKEND, b->table->name, caps, score);
}

/* "0-3", "0" */
static void tell_choice(const teller *t, weft_world *world, const int *ranks, int count)
{
    weft__backend_instance *chosen;
    weft_backend_facts facts;
    char members[32];
    snprintf(members, sizeof members, count > 1 ? "%d-%d" : "%d", ranks[0], ranks[count - 1]);
    weft_result result = weft__backends_choose(world, &(weft_comm_config){.backend = world->config.backend}, ranks,
                                               count, &chosen, &facts);
    tell(t, WEFT_INFO_CHOICE, members, result == WEFT_OK ? chosen->table->name : "none",
         result == WEFT_OK ? "" : weft_last_error());
}

/* All ranks; and those of rank 0's machine, if there are others. */
static weft_result tell_ranks(const teller *t, weft_world *world)
{
    int near = 0, *ranks = weft__alloc((size_t)world->size * sizeof *ranks);
    if (!ranks)
        return WEFT_E_NO_MEMORY;
    for (int r = 0; r < world->size; r++)
        ranks[r] = r;
    while (near < world->size && world->segments && world->segments[near])
        near++;
    weft_backend_question question = {.size = sizeof question,
                                      .world = world,
                                      .ranks = ranks,
                                      .count = world->size,
                                      .same_memory = near == world->size};
    for (int i = 0; i < world->backend_count; i++)
        tell_backend(t, &world->backends[i], &question);
    weft__backends_tell_left_out(world, tell_left_out, (void *)(uintptr_t)t);
    tell_choice(t, world, ranks, world->size);
    if (near > 1 && near < world->size)
        tell_choice(t, world, ranks, near);
    free(ranks);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- all of it */

/* How much the ranks of a machine move before they store past its caches. */
static void tell_caches(const teller *t, int ranks)
{
    char hot[32];
    uint32_t worth = weft__cache_measure(weft__vector_host());
    snprintf(hot, sizeof hot, "%llu KiB", (unsigned long long)weft__cache_hot_bytes(worth, ranks) >> 10);
    tell(t, WEFT_INFO_LIBRARY, "hot", hot,
         worth == WEFT__CACHE_SHARED
             ? "a share of the last cache: measured, it takes stores faster than memory"
             : "the core's own cache: measured, the last one takes stores no faster than memory");
}

/* How many GPUs this process sees; or why none. */
static void tell_gpus(const teller *t)
{
    const weft__device_calls *calls;
    int count = 0;
    char text[16];
    weft_result result = weft__device_find("cuda", &calls);
    if (result == WEFT_OK)
        result = calls->count(&count);
    snprintf(text, sizeof text, "%d", count);
    tell(t, WEFT_INFO_LIBRARY, "GPUs", result == WEFT_OK ? text : "none", result == WEFT_OK ? "" : weft_last_error());
}

static void tell_variables(const teller *t)
{
    const weft__env_entry *entry;
    for (size_t i = 0; (entry = weft__env_table(i)); i++) {
        const char *set = getenv(entry->name);
        bool is_default = !set || !*set;
        t->visit(t->cookie, &(weft_info){.size = sizeof(weft_info),
                                         .kind = WEFT_INFO_VARIABLE,
                                         .name = entry->name,
                                         .value = is_default ? entry->fallback : set,
                                         .note = entry->help,
                                         .is_default = is_default});
    }
    weft__env_unread unread;
    for (size_t next = 0; weft__env_unknown(&next, &unread);) {
        char note[96] = "weft reads no such variable";
        if (unread.nearest)
            snprintf(note, sizeof note, "weft reads no such variable: did you mean %s?", unread.nearest);
        tell(t, WEFT_INFO_VARIABLE, unread.name, unread.value, note);
    }
}

static void tell_setting(void *cookie, const char *name, const char *value, const char *note)
{
    tell(cookie, WEFT_INFO_SETTING, name, value, note);
}

weft_result weft_info_tell(weft_world *world, weft_info_visit *visit, void *cookie)
{
    teller t = {visit, cookie};
    if (!visit)
        return weft__fail(WEFT_E_INVALID, "there is nobody to tell facts to");
    if (world)
        WEFT_TRY(weft__world_alive(world));
    tell(&t, WEFT_INFO_LIBRARY, "version", weft_version_string(), "");
    tell(&t, WEFT_INFO_LIBRARY, "vectors", weft__vector_host()->name, "");
    tell_caches(&t, world ? world->size : 1);
    tell_gpus(&t);
    weft__backend_modules_load();
    weft__backend_modules_tell(tell_module, &t);
    weft__device_tell("cuda", tell_module, &t);
    if (world) {
        WEFT_TRY(weft__backends_renew(world, NULL));
        WEFT_TRY(tell_ranks(&t, world));
    }
    tell_variables(&t);
    for (int i = 0; world && i < world->backend_count; i++)
        world->backends[i].table->tell(world->backends[i].state, tell_setting, &t);
    return WEFT_OK;
}
