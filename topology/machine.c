/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as its user sees it: opening, closing, looking up. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/machine.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "machine_build.h"

struct weft__text {
    weft__text *next;
    char text[];
};

const char *weft_object_string(weft_object_kind kind)
{
    static const char *const names[WEFT_OBJECT_KINDS] = {"machine", "package", "group", "NUMA node", "cache", "core",
                                                         "PU",      "bridge",  "GPU",   "NIC",       "switch"};
    return (int)kind >= 0 && (int)kind < WEFT_OBJECT_KINDS ? names[kind] : "?";
}

/* Drop what a reader that gave up has left, but not what it could not see. */
static void forget_objects(weft_machine *machine)
{
    machine->count = 0;
    for (int i = 0; i < machine->links_count; i++) {
        free((void *)machine->links[i].objects);
        free((void *)machine->links[i].mb_per_s);
    }
    machine->links_count = 0;
}

static weft_result fill(weft_machine *machine, const weft_machine_config *config)
{
    weft_result result = weft__machine_read(machine, config);
    if (result == WEFT_AGAIN) {
        forget_objects(machine);
        result = weft__machine_read_flat(machine);
    }
    return result < 0 ? result : weft__machine_finish(machine);
}

weft_result weft_machine_open(const weft_machine_config *config, weft_machine **machine_out)
{
    if (!machine_out)
        return weft__fail(WEFT_E_INVALID, "a machine is opened without a place for it");
    *machine_out = NULL;
    weft_machine_config own = WEFT_MACHINE_CONFIG_INIT;
    WEFT_TRY(weft__take_sized(&own, sizeof own, config, "weft_machine_config"));
    if (own.flags || own.reserved)
        return weft__fail(WEFT_E_INVALID, "a machine config has flags 0x%x and %u in reserved, not 0", own.flags,
                          own.reserved);
    if (own.xml && own.synthetic)
        return weft__fail(WEFT_E_INVALID, "a machine is read from '%s' or described by '%s', not both", own.xml,
                          own.synthetic);
    weft_machine *machine = weft__alloc(sizeof *machine);
    if (!machine)
        return WEFT_E_NO_MEMORY;
    weft_result result = fill(machine, &own);
    if (result < 0) {
        weft_machine_close(machine);
        return result;
    }
    *machine_out = machine;
    return WEFT_OK;
}

void weft_machine_close(weft_machine *machine)
{
    if (!machine)
        return;
    forget_objects(machine);
    while (machine->texts) {
        weft__text *next = machine->texts->next;
        free(machine->texts);
        machine->texts = next;
    }
    free(machine->objects);
    free(machine->links);
    free(machine->unseen);
    free(machine->by_kind);
    free(machine->gpu_mb_per_s);
    free(machine->gpu_position);
    free(machine);
}

const char *weft__machine_text(weft_machine *machine, const char *text)
{
    if (!text || !*text)
        return "";
    size_t bytes = strlen(text);
    while (bytes > 0 && text[bytes - 1] == ' ') /* firmware pads names */
        bytes--;
    weft__text *kept = weft__alloc(sizeof *kept + bytes + 1);
    if (!kept)
        return NULL;
    memcpy(kept->text, text, bytes);
    kept->next = machine->texts;
    machine->texts = kept;
    return kept->text;
}

const weft_pus *weft_machine_allowed(const weft_machine *machine)
{
    return &machine->allowed;
}

const char *weft_machine_source(const weft_machine *machine)
{
    return machine->source;
}

int weft_machine_is_flat(const weft_machine *machine)
{
    return machine->flat;
}

const char *weft_machine_unseen(const weft_machine *machine, int index)
{
    return index >= 0 && index < machine->unseen_count ? machine->unseen[index] : NULL;
}

const weft_object *weft_machine_object(const weft_machine *machine, int index)
{
    return index >= 0 && index < machine->count ? &machine->objects[index] : NULL;
}

int weft_machine_count(const weft_machine *machine, weft_object_kind kind)
{
    if ((int)kind < 0 || (int)kind >= WEFT_OBJECT_KINDS)
        return 0;
    return machine->first_of_kind[kind + 1] - machine->first_of_kind[kind];
}

int weft_machine_find(const weft_machine *machine, weft_object_kind kind, int number)
{
    if (number < 0 || number >= weft_machine_count(machine, kind))
        return WEFT_NONE;
    return machine->by_kind[machine->first_of_kind[kind] + number];
}

/* PCI ids are equal if they are after leading zeros: NVML writes 00000000:34:00.0; some leave the domain out. */
static int same_pci_id(const char *a, const char *b)
{
    if (!*a || !*b)
        return 0;
    const char *const ids[] = {a, b};
    unsigned fields[2][4];
    for (int i = 0; i < 2; i++) {
        unsigned *f = fields[i];
        char more;
        if (sscanf(ids[i], "%x:%x:%x.%x%c", &f[0], &f[1], &f[2], &f[3], &more) == 4)
            continue;
        f[0] = 0;
        if (sscanf(ids[i], "%x:%x.%x%c", &f[1], &f[2], &f[3], &more) != 3)
            return 0;
    }
    return memcmp(fields[0], fields[1], sizeof fields[0]) == 0;
}

/* The driver's name may stand before others: "cuda0 (nvml0)". */
static int has_name(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = names; n && (at = strstr(at, name)); at++)
        if ((at == names || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return 1;
    return 0;
}

int weft_machine_find_gpu(const weft_machine *machine, const char *id)
{
    for (int i = machine->first_of_kind[WEFT_OBJECT_GPU]; id && i < machine->first_of_kind[WEFT_OBJECT_GPU + 1]; i++) {
        const weft_object *gpu = &machine->objects[machine->by_kind[i]];
        if ((*gpu->uuid && strcmp(gpu->uuid, id) == 0) || same_pci_id(gpu->pci_id, id) || has_name(gpu->name, id))
            return machine->by_kind[i];
    }
    return WEFT_NONE;
}

int weft_machine_above(const weft_machine *machine, int object, weft_object_kind kind)
{
    while (object >= 0 && object < machine->count && machine->objects[object].kind != kind)
        object = machine->objects[object].parent;
    return object >= 0 && object < machine->count ? object : WEFT_NONE;
}

const weft_links *weft_machine_links(const weft_machine *machine, int index)
{
    return index >= 0 && index < machine->links_count ? &machine->links[index] : NULL;
}

uint64_t weft_machine_gpu_mb_per_s(const weft_machine *machine, int gpu, int other)
{
    int gpus = weft_machine_count(machine, WEFT_OBJECT_GPU);
    if (gpu < 0 || gpu >= gpus || other < 0 || other >= gpus)
        return 0;
    return machine->gpu_mb_per_s[gpu * gpus + other];
}

int weft_machine_islands(const weft_machine *machine)
{
    return machine->islands;
}

static int is_core(const weft_machine *machine, int object)
{
    weft_object_kind kind = machine->objects[object].kind;
    return kind == WEFT_OBJECT_CORE ||
           (kind == WEFT_OBJECT_PU && weft_machine_above(machine, object, WEFT_OBJECT_CORE) == WEFT_NONE);
}

int weft_machine_core(const weft_machine *machine, int index)
{
    for (int i = 0; index >= 0 && i < machine->count; i++)
        if (machine->objects[i].allowed && is_core(machine, i) && index-- == 0)
            return i;
    return WEFT_NONE;
}
