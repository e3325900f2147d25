/* SPDX-License-Identifier: Apache-2.0 */
/* What the links between GPUs say is near: bandwidths of pairs, islands, and an order with near GPUs side by side. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "machine_build.h"

static int gpu_count(const weft_machine *machine)
{
    return weft_machine_count(machine, WEFT_OBJECT_GPU);
}

static const weft_object *object_at(const weft_machine *machine, const weft_links *links, int i)
{
    return &machine->objects[links->objects[i]];
}

static uint64_t link_mb_per_s(const weft_links *links, int i, int j)
{
    return links->mb_per_s[i * links->count + j];
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Direct, and by way of every switch that both are on. */
static uint64_t pair_mb_per_s(const weft_machine *machine, const weft_links *links, int i, int j)
{
    uint64_t sum = link_mb_per_s(links, i, j);
    for (int s = 0; s < links->count; s++)
        if (object_at(machine, links, s)->kind == WEFT_OBJECT_SWITCH)
            sum += least(link_mb_per_s(links, i, s), link_mb_per_s(links, s, j));
    return sum;
}

static void add_pairs(weft_machine *machine, const weft_links *links)
{
    int gpus = gpu_count(machine);
    for (int i = 0; i < links->count; i++) {
        const weft_object *a = object_at(machine, links, i);
        for (int j = 0; j < links->count; j++) {
            const weft_object *b = object_at(machine, links, j);
            if (a->kind == WEFT_OBJECT_GPU && b->kind == WEFT_OBJECT_GPU && a != b)
                machine->gpu_mb_per_s[a->number * gpus + b->number] += pair_mb_per_s(machine, links, i, j);
        }
    }
}

static weft_object *gpu_at(weft_machine *machine, int number)
{
    return &machine->objects[weft_machine_find(machine, WEFT_OBJECT_GPU, number)];
}

/* Give everybody in @p b's island the one of @p a; islands are still named by any of their GPUs. */
static void join(weft_machine *machine, int a, int b)
{
    int from = gpu_at(machine, b)->island, to = gpu_at(machine, a)->island;
    for (int g = 0; g < gpu_count(machine); g++)
        if (gpu_at(machine, g)->island == from)
            gpu_at(machine, g)->island = to;
}

/* Drivers report the links from GPUs to switches, not those between switches: the switches of a host are taken as one
 * fabric, in which every GPU reaches every other. */
static void join_across_switches(weft_machine *machine, const weft_links *links)
{
    int first = WEFT_NONE;
    for (int i = 0; i < links->count; i++) {
        const weft_object *gpu = object_at(machine, links, i);
        for (int s = 0; gpu->kind == WEFT_OBJECT_GPU && s < links->count; s++) {
            if (object_at(machine, links, s)->kind != WEFT_OBJECT_SWITCH || link_mb_per_s(links, i, s) == 0)
                continue;
            if (first == WEFT_NONE)
                first = gpu->number;
            join(machine, first, gpu->number);
        }
    }
}

static int shares_island(weft_machine *machine, int gpu)
{
    for (int g = 0; g < gpu_count(machine); g++)
        if (g != gpu && gpu_at(machine, g)->island == gpu_at(machine, gpu)->island)
            return 1;
    return 0;
}

/* Number islands by their first GPU; a GPU alone is in none. */
static void number_islands(weft_machine *machine, int *number_of)
{
    int gpus = gpu_count(machine);
    for (int g = 0; g < gpus; g++)
        number_of[g] = WEFT_NONE;
    for (int g = 0; g < gpus; g++) {
        int name = gpu_at(machine, g)->island;
        if (number_of[name] == WEFT_NONE && shares_island(machine, g))
            number_of[name] = machine->islands++;
    }
    for (int g = 0; g < gpus; g++)
        gpu_at(machine, g)->island = number_of[gpu_at(machine, g)->island];
}

static void find_islands(weft_machine *machine, int *scratch)
{
    int gpus = gpu_count(machine);
    for (int g = 0; g < gpus; g++)
        gpu_at(machine, g)->island = g;
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++)
            if (machine->gpu_mb_per_s[a * gpus + b] > 0)
                join(machine, a, b);
    for (int i = 0; i < machine->links_count; i++)
        join_across_switches(machine, &machine->links[i]);
    number_islands(machine, scratch);
}

/* A run of GPUs that will stay side by side: members[first ... first + count - 1]. */
typedef struct cluster {
    int first, count;
} cluster;

/* How near two clusters are; the earlier field decides. */
typedef struct likeness {
    uint64_t least_mb_per_s; /* of any pair: all of a group must reach each other */
    uint64_t total_mb_per_s; /* compared per pair */
    uint64_t pairs;
    int same_island, depth, members;
} likeness;

static likeness compare_clusters(weft_machine *machine, const int *members, cluster a, cluster b)
{
    likeness l = {.least_mb_per_s = UINT64_MAX, .same_island = 1, .depth = machine->count};
    int gpus = gpu_count(machine);
    for (int i = 0; i < a.count; i++)
        for (int j = 0; j < b.count; j++) {
            int g = members[a.first + i], h = members[b.first + j];
            uint64_t mb_per_s = machine->gpu_mb_per_s[g * gpus + h];
            int depth = weft__near_depth(machine, weft_machine_find(machine, WEFT_OBJECT_GPU, g),
                                         weft_machine_find(machine, WEFT_OBJECT_GPU, h));
            l.least_mb_per_s = least(l.least_mb_per_s, mb_per_s);
            l.total_mb_per_s += mb_per_s;
            l.same_island &=
                gpu_at(machine, g)->island == gpu_at(machine, h)->island && gpu_at(machine, g)->island != WEFT_NONE;
            l.depth = depth < l.depth ? depth : l.depth;
        }
    l.pairs = (uint64_t)a.count * (uint64_t)b.count;
    l.members = a.count + b.count;
    return l;
}

static int nearer(const likeness *a, const likeness *b)
{
    if (a->least_mb_per_s != b->least_mb_per_s)
        return a->least_mb_per_s > b->least_mb_per_s;
    if (a->total_mb_per_s * b->pairs != b->total_mb_per_s * a->pairs)
        return a->total_mb_per_s * b->pairs > b->total_mb_per_s * a->pairs;
    if (a->same_island != b->same_island)
        return a->same_island;
    if (a->depth != b->depth)
        return a->depth > b->depth;
    return a->members < b->members; /* pairs before threes: groups are mostly powers of two */
}

/* Move cluster @p b behind cluster @p a; what lies between moves up. */
static void merge(int *members, cluster *clusters, int *count, int a, int b, int *scratch)
{
    cluster from = clusters[b];
    int gap = clusters[a].first + clusters[a].count;
    memcpy(scratch, members + from.first, (size_t)from.count * sizeof *members);
    memmove(members + gap + from.count, members + gap, (size_t)(from.first - gap) * sizeof *members);
    memcpy(members + gap, scratch, (size_t)from.count * sizeof *members);
    clusters[a].count += from.count;
    for (int i = a + 1; i < b; i++)
        clusters[i].first += from.count;
    memmove(clusters + b, clusters + b + 1, (size_t)(*count - b - 1) * sizeof *clusters);
    --*count;
}

/* Merge the two nearest clusters until one is left; clusters stay in the order of their first member, so that
 * without links the order remains that of the tree. */
static void order_by_nearness(weft_machine *machine, int *members, cluster *clusters, int *scratch)
{
    int count = gpu_count(machine);
    for (int g = 0; g < count; g++)
        clusters[g] = (cluster){g, 1};
    while (count > 1) {
        int best_a = 0, best_b = 1;
        likeness best = compare_clusters(machine, members, clusters[0], clusters[1]);
        for (int a = 0; a < count; a++)
            for (int b = a + 1; b < count; b++) {
                likeness l = compare_clusters(machine, members, clusters[a], clusters[b]);
                if (nearer(&l, &best))
                    best = l, best_a = a, best_b = b;
            }
        merge(members, clusters, &count, best_a, best_b, scratch);
    }
}

/* GPUs of which nobody knows where they hang come last among equals, by PCI id. */
static void order_by_tree(const weft_machine *machine, int *members)
{
    int gpus = gpu_count(machine);
    for (int g = 0; g < gpus; g++) {
        int object = weft_machine_find(machine, WEFT_OBJECT_GPU, g), at = g;
        int known = weft__near_is_known(machine, object);
        for (; at > 0 && !known; at--) {
            int before = weft_machine_find(machine, WEFT_OBJECT_GPU, members[at - 1]);
            if (weft__near_is_known(machine, before) ||
                strcmp(machine->objects[before].pci_id, machine->objects[object].pci_id) <= 0)
                break;
            members[at] = members[at - 1];
        }
        members[at] = g;
    }
}

static weft_result order_gpus(weft_machine *machine, int *members, int *scratch)
{
    int gpus = gpu_count(machine);
    cluster *clusters = weft__alloc((size_t)gpus * sizeof *clusters);
    if (!clusters)
        return WEFT_E_NO_MEMORY;
    order_by_tree(machine, members);
    order_by_nearness(machine, members, clusters, scratch);
    for (int i = 0; i < gpus; i++)
        machine->gpu_position[members[i]] = i;
    free(clusters);
    return WEFT_OK;
}

static weft_result say_what_joins_switches(weft_machine *machine)
{
    int switches = 0;
    const char *name = "";
    for (int i = 0; i < machine->links_count; i++)
        for (int s = 0; s < machine->links[i].count; s++)
            if (object_at(machine, &machine->links[i], s)->kind == WEFT_OBJECT_SWITCH)
                switches++, name = machine->links[i].name;
    if (switches < 2)
        return WEFT_OK;
    return weft__machine_unseen(machine, "links between the %d %s switches: they are taken as one fabric", switches,
                                name);
}

weft_result weft__links_finish(weft_machine *machine)
{
    size_t gpus = (size_t)gpu_count(machine);
    if (gpus == 0)
        return WEFT_OK;
    machine->gpu_mb_per_s = weft__alloc(gpus * gpus * sizeof *machine->gpu_mb_per_s);
    machine->gpu_position = weft__alloc(gpus * sizeof *machine->gpu_position);
    int *members = weft__alloc(gpus * sizeof *members), *scratch = weft__alloc(gpus * sizeof *scratch);
    weft_result result = WEFT_E_NO_MEMORY;
    if (machine->gpu_mb_per_s && machine->gpu_position && members && scratch) {
        for (int i = 0; i < machine->links_count; i++)
            add_pairs(machine, &machine->links[i]);
        find_islands(machine, scratch);
        result = order_gpus(machine, members, scratch);
    }
    free(members);
    free(scratch);
    return result < 0 ? result : say_what_joins_switches(machine);
}
