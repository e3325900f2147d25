/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory, network card and PUs are near an object, and where a rank runs that uses them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "machine_build.h"

static const weft_object *above(const weft_machine *machine, int object, weft_object_kind kind)
{
    return weft_machine_object(machine, weft_machine_above(machine, object, kind));
}

static int is_below(const weft_machine *machine, int object, int root)
{
    return object >= root && object < machine->objects[root].end;
}

int weft__near_depth(const weft_machine *machine, int a, int b)
{
    while (!is_below(machine, a, b))
        b = machine->objects[b].parent;
    int depth = 0;
    for (; machine->objects[b].parent != WEFT_NONE; b = machine->objects[b].parent)
        depth++;
    return depth;
}

int weft__near_is_known(const weft_machine *machine, int device)
{
    while (device > 0 && machine->objects[device].kind >= WEFT_OBJECT_BRIDGE)
        device = machine->objects[device].parent;
    return device > 0 ||
           (weft_machine_count(machine, WEFT_OBJECT_PACKAGE) < 2 && weft_machine_count(machine, WEFT_OBJECT_NUMA) < 2);
}

/* Local memory if the process may use it; else the only memory that it may use. */
static int near_numa(const weft_machine *machine, int object)
{
    int numa = weft_machine_above(machine, object, WEFT_OBJECT_NUMA), only = WEFT_NONE, allowed = 0;
    if (numa != WEFT_NONE && machine->objects[numa].allowed)
        return numa;
    for (int n = 0; n < weft_machine_count(machine, WEFT_OBJECT_NUMA); n++) {
        numa = weft_machine_find(machine, WEFT_OBJECT_NUMA, n);
        if (machine->objects[numa].allowed)
            allowed++, only = numa;
    }
    return allowed == 1 ? only : WEFT_NONE;
}

/* RDMA cards if there are any, of these the nearest: how deep they part from @p object in the tree. */
typedef struct choice {
    int rdma, depth, count;
} choice;

static choice choose_nics(const weft_machine *machine, int object)
{
    choice best = {0, WEFT_NONE, 0};
    for (int n = 0; n < weft_machine_count(machine, WEFT_OBJECT_NIC); n++) {
        int nic = weft_machine_find(machine, WEFT_OBJECT_NIC, n);
        choice c = {machine->objects[nic].rdma, weft__near_depth(machine, object, nic), 1};
        if (c.rdma > best.rdma || (c.rdma == best.rdma && c.depth > best.depth))
            best = c;
        else if (c.rdma == best.rdma && c.depth == best.depth)
            best.count++;
    }
    return best;
}

/* The @p turn-th (around) of the best cards for @p object. */
static int nic_in_turn(const weft_machine *machine, int object, int turn)
{
    choice best = choose_nics(machine, object);
    int left = best.count ? turn % best.count : 0;
    for (int n = 0; n < weft_machine_count(machine, WEFT_OBJECT_NIC); n++) {
        int nic = weft_machine_find(machine, WEFT_OBJECT_NIC, n);
        if (machine->objects[nic].rdma == best.rdma && weft__near_depth(machine, object, nic) == best.depth &&
            left-- == 0)
            return nic;
    }
    return WEFT_NONE;
}

static int near_nic(const weft_machine *machine, int object)
{
    int first = nic_in_turn(machine, object, 0), turn = 0;
    if (machine->objects[object].kind == WEFT_OBJECT_GPU)
        for (int g = 0; g < machine->objects[object].number; g++)
            turn += nic_in_turn(machine, weft_machine_find(machine, WEFT_OBJECT_GPU, g), 0) == first;
    return nic_in_turn(machine, object, turn);
}

static void near_pus(const weft_machine *machine, int object, weft_pus *pus)
{
    static _Atomic int warned;
    const weft_object *o = &machine->objects[object];
    *pus = (weft_pus){{0}};
    for (int i = 0; i < o->pu_count; i++) {
        const weft_object *pu = &machine->objects[weft_machine_find(machine, WEFT_OBJECT_PU, o->first_pu + i)];
        if (pu->allowed)
            weft_pus_add(pus, pu->os_number);
    }
    if (o->allowed)
        return;
    *pus = machine->allowed;
    weft__warn_once(&warned, "no PU that this process may use is near %s %d %s: it may run on all that are allowed",
                    weft_object_string(o->kind), o->number, o->pci_id);
}

weft_result weft_machine_near(const weft_machine *machine, int object, weft_near *near_out)
{
    if (!machine || !near_out)
        return weft__fail(WEFT_E_INVALID, "what is near: no machine, or nowhere to write it");
    if (object < 0 || object >= machine->count)
        return weft__fail(WEFT_E_RANGE, "what is near: there is no object %d among %d", object, machine->count);
    near_out->numa = near_numa(machine, object);
    near_out->nic = near_nic(machine, object);
    near_pus(machine, object, &near_out->pus);
    return WEFT_OK;
}

/* The number of the outermost cache above, which most PUs share. */
static int cache_above(const weft_machine *machine, int object)
{
    int found = WEFT_NONE;
    for (int i = weft_machine_above(machine, object, WEFT_OBJECT_CACHE); i != WEFT_NONE;
         i = weft_machine_above(machine, machine->objects[i].parent, WEFT_OBJECT_CACHE))
        found = machine->objects[i].number;
    return found;
}

static int number_above(const weft_machine *machine, int object, weft_object_kind kind)
{
    if (machine->flat)
        return WEFT_UNKNOWN;
    if (kind == WEFT_OBJECT_CACHE)
        return cache_above(machine, object);
    const weft_object *o = above(machine, object, kind);
    return o ? o->number : WEFT_NONE;
}

/* The one number that all PUs of the set have; the PUs that the machine does not have are passed over. */
static int common_number(const weft_machine *machine, const weft_pus *pus, weft_object_kind kind)
{
    int common = WEFT_UNKNOWN, any = 0;
    for (int p = 0; p < weft_machine_count(machine, WEFT_OBJECT_PU); p++) {
        int pu = weft_machine_find(machine, WEFT_OBJECT_PU, p);
        if (!weft_pus_has(pus, machine->objects[pu].os_number))
            continue;
        int number = number_above(machine, pu, kind);
        if (any++ && number != common)
            return WEFT_SPREAD;
        common = number;
    }
    return common;
}

static int first_position(const weft_machine *machine, const weft_pus *pus)
{
    for (int p = 0; p < weft_machine_count(machine, WEFT_OBJECT_PU); p++)
        if (weft_pus_has(pus, machine->objects[weft_machine_find(machine, WEFT_OBJECT_PU, p)].os_number))
            return p;
    return WEFT_UNKNOWN;
}

/* A device that hangs on several packages, or on none that can be seen, has an unknown one. */
static int number_of_device(const weft_machine *machine, int device, weft_object_kind kind)
{
    const weft_object *o = above(machine, device, kind);
    int count = weft_machine_count(machine, kind);
    if (o)
        return o->number;
    return count == 0 ? WEFT_NONE : count == 1 ? 0 : WEFT_UNKNOWN;
}

static void locate_gpu(const weft_machine *machine, int gpu, weft_location *location)
{
    const weft_object *o = &machine->objects[gpu];
    char text[WEFT_GPU_ID_MAX + 1];
    snprintf(text, sizeof text, "%s", *o->uuid ? o->uuid : *o->pci_id ? o->pci_id : o->name);
    memcpy(location->gpu_id, text, sizeof text);
    location->gpu = o->number;
    location->position = machine->gpu_position[o->number];
    location->island = o->island;
    location->cache = WEFT_NONE;
    location->numa = number_of_device(machine, gpu, WEFT_OBJECT_NUMA);
    location->package = number_of_device(machine, gpu, WEFT_OBJECT_PACKAGE);
}

weft_result weft_machine_locate(const weft_machine *machine, const weft_pus *pus, int gpu, weft_location *location_out)
{
    if (!machine || !location_out)
        return weft__fail(WEFT_E_INVALID, "where a rank runs: no machine, or nowhere to write it");
    if (gpu != WEFT_NONE && (gpu < 0 || gpu >= machine->count || machine->objects[gpu].kind != WEFT_OBJECT_GPU))
        return weft__fail(WEFT_E_RANGE, "where a rank runs: object %d is not a GPU", gpu);
    weft_location location = WEFT_LOCATION_INIT(0);
    if (pus)
        location.pus = *pus;
    else
        WEFT_TRY(weft_pus_of_thread(&location.pus));
    location.position = first_position(machine, &location.pus);
    location.cache = common_number(machine, &location.pus, WEFT_OBJECT_CACHE);
    location.numa = common_number(machine, &location.pus, WEFT_OBJECT_NUMA);
    location.package = common_number(machine, &location.pus, WEFT_OBJECT_PACKAGE);
    if (gpu != WEFT_NONE)
        locate_gpu(machine, gpu, &location);
    *location_out = location;
    return WEFT_OK;
}

void weft_location_name_hosts(weft_location *locations, const char *const *names, int count)
{
    for (int r = 0; r < count; r++) {
        int first = 0;
        while (strcmp(names[first], names[r]) != 0)
            first++;
        locations[r].host = first;
        snprintf(locations[r].host_name, sizeof locations[r].host_name, "%s", names[r]);
    }
}
