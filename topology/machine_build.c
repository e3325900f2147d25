/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a machine: adds objects and links, then derives what follows from them. */
#include "machine_build.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

static weft_result grow_objects(weft_machine *machine)
{
    int capacity = machine->capacity ? machine->capacity * 2 : 64;
    weft_object *objects = machine->capacity < INT_MAX / 2 ? weft__alloc((size_t)capacity * sizeof *objects) : NULL;
    if (!objects)
        return WEFT_E_NO_MEMORY;
    if (machine->count)
        memcpy(objects, machine->objects, (size_t)machine->count * sizeof *objects);
    free(machine->objects);
    machine->objects = objects;
    machine->capacity = capacity;
    return WEFT_OK;
}

weft_result weft__machine_begin(weft_machine *machine, weft_object_kind kind, int parent, int *index_out)
{
    if (machine->count == machine->capacity)
        WEFT_TRY(grow_objects(machine));
    *index_out = machine->count++;
    machine->objects[*index_out] = (weft_object){
        .kind = kind,
        .os_number = WEFT_NONE,
        .parent = parent,
        .island = WEFT_NONE,
        .name = "",
        .model = "",
        .pci_id = "",
        .uuid = "",
    };
    return WEFT_OK;
}

void weft__machine_end(weft_machine *machine, int index)
{
    machine->objects[index].end = machine->count;
}

weft_result weft__machine_unseen(weft_machine *machine, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *kept = weft__machine_text(machine, line);
    const char **lines = kept ? weft__alloc((size_t)(machine->unseen_count + 1) * sizeof *lines) : NULL;
    if (!lines)
        return WEFT_E_NO_MEMORY;
    if (machine->unseen_count)
        memcpy(lines, machine->unseen, (size_t)machine->unseen_count * sizeof *lines);
    free(machine->unseen);
    machine->unseen = lines;
    lines[machine->unseen_count++] = kept;
    return WEFT_OK;
}

weft_result weft__machine_add_links(weft_machine *machine, const char *name, int count, int **objects_out,
                                    uint64_t **mb_per_s_out)
{
    size_t n = (size_t)count;
    weft_links *links = weft__alloc((size_t)(machine->links_count + 1) * sizeof *links);
    int *objects = weft__alloc(n * sizeof *objects);
    uint64_t *mb_per_s = weft__alloc(n * n * sizeof *mb_per_s);
    const char *kept = weft__machine_text(machine, name);
    if (!links || !objects || !mb_per_s || !kept) {
        free(links);
        free(objects);
        free(mb_per_s);
        return WEFT_E_NO_MEMORY;
    }
    if (machine->links_count)
        memcpy(links, machine->links, (size_t)machine->links_count * sizeof *links);
    free(machine->links);
    machine->links = links;
    links[machine->links_count++] = (weft_links){kept, count, objects, mb_per_s};
    *objects_out = objects;
    *mb_per_s_out = mb_per_s;
    return WEFT_OK;
}

/* Number the objects of each kind, and index them. */
static weft_result number_objects(weft_machine *machine)
{
    machine->by_kind = weft__alloc((size_t)machine->count * sizeof *machine->by_kind);
    if (!machine->by_kind)
        return WEFT_E_NO_MEMORY;
    int next = 0;
    for (int kind = 0; kind < WEFT_OBJECT_KINDS; kind++) {
        machine->first_of_kind[kind] = next;
        for (int i = 0; i < machine->count; i++) {
            if ((int)machine->objects[i].kind != kind)
                continue;
            machine->objects[i].number = next - machine->first_of_kind[kind];
            machine->by_kind[next++] = i;
        }
    }
    machine->first_of_kind[WEFT_OBJECT_KINDS] = next;
    return WEFT_OK;
}

static int is_device(const weft_object *object)
{
    return object->kind >= WEFT_OBJECT_BRIDGE;
}

static int allowed_below(const weft_machine *machine, const weft_object *o)
{
    for (int i = 0; i < o->pu_count; i++)
        if (machine->objects[weft_machine_find(machine, WEFT_OBJECT_PU, o->first_pu + i)].allowed)
            return 1;
    return 0;
}

/* The PUs below every object are a run, because the order is depth-first; a device has those of what it hangs on. */
static void find_pu_runs(weft_machine *machine)
{
    int pus = 0;
    for (int i = 0; i < machine->count; i++) {
        weft_object *o = &machine->objects[i];
        o->first_pu = pus;
        pus += o->kind == WEFT_OBJECT_PU;
    }
    for (int i = 0; i < machine->count; i++) {
        weft_object *o = &machine->objects[i];
        int behind = o->end < machine->count ? machine->objects[o->end].first_pu : pus;
        o->pu_count = behind - o->first_pu;
    }
    for (int i = 1; i < machine->count; i++) {
        weft_object *o = &machine->objects[i];
        if (is_device(o)) {
            o->first_pu = machine->objects[o->parent].first_pu;
            o->pu_count = machine->objects[o->parent].pu_count;
            o->allowed = allowed_below(machine, o);
        }
    }
}

static weft_result say_what_is_missing(weft_machine *machine)
{
    static const struct {
        weft_object_kind kind;
        const char *what;
    } wanted[] = {
        {WEFT_OBJECT_PACKAGE, "packages"},
        {WEFT_OBJECT_NUMA, "NUMA nodes"},
        {WEFT_OBJECT_CACHE, "caches"},
        {WEFT_OBJECT_CORE, "cores (each PU counts as one)"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (weft_machine_count(machine, wanted[i].kind) == 0)
            WEFT_TRY(weft__machine_unseen(machine, "%s", wanted[i].what));
    return WEFT_OK;
}

static weft_result say_what_hangs_nowhere(weft_machine *machine)
{
    static _Atomic int warned;
    for (int i = 0; i < machine->count; i++) {
        const weft_object *o = &machine->objects[i];
        if ((o->kind != WEFT_OBJECT_GPU && o->kind != WEFT_OBJECT_NIC) || weft__near_is_known(machine, i))
            continue;
        const char *id = *o->pci_id ? o->pci_id : o->name;
        WEFT_TRY(weft__machine_unseen(machine, "where %s %s hangs: no NUMA node is given for it",
                                      weft_object_string(o->kind), id));
        weft__warn_once(&warned, "it is not known where %s %s hangs; such devices follow their PCI ids",
                        weft_object_string(o->kind), id);
    }
    return WEFT_OK;
}

weft_result weft__machine_finish(weft_machine *machine)
{
    WEFT_TRY(number_objects(machine));
    find_pu_runs(machine);
    if (machine->flat)
        return weft__links_finish(machine);
    WEFT_TRY(say_what_is_missing(machine));
    WEFT_TRY(say_what_hangs_nowhere(machine));
    return weft__links_finish(machine);
}
