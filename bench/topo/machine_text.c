/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a machine as an indented tree. Cores that are alike share a line; buses are left out. */
#include <stdio.h>
#include <string.h>

#include "plural.h"
#include "topo/topo.h"

const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double size = (double)bytes;
    for (; size >= 1024 && unit < 4; unit++)
        size /= 1024;
    snprintf(text, 32, "%.4g %s", size, units[unit]);
    return text;
}

static const weft_object *at(const weft_machine *machine, int index)
{
    return weft_machine_object(machine, index);
}

bool machine_is_chain(const weft_machine *machine, int index)
{
    const weft_object *o = at(machine, index);
    while (o->kind == WEFT_OBJECT_CACHE && index + 1 < o->end && at(machine, index + 1)->end == o->end)
        o = at(machine, ++index);
    return o->kind == WEFT_OBJECT_CORE || o->kind == WEFT_OBJECT_PU;
}

static bool alike(const weft_machine *machine, int a, int b)
{
    const weft_object *oa = at(machine, a), *ob = at(machine, b);
    if (oa->end - a != ob->end - b)
        return false;
    for (int i = 0; a + i < oa->end; i++) {
        const weft_object *x = at(machine, a + i), *y = at(machine, b + i);
        if (x->kind != y->kind || x->level != y->level || x->bytes != y->bytes || x->allowed != y->allowed)
            return false;
    }
    return true;
}

int machine_last_alike(const weft_machine *machine, int index)
{
    int last = index, parent_end = at(machine, at(machine, index)->parent)->end;
    while (at(machine, last)->end < parent_end && machine_is_chain(machine, at(machine, last)->end) &&
           alike(machine, index, at(machine, last)->end))
        last = at(machine, last)->end;
    return last;
}

void machine_chains_text(const weft_machine *machine, int first, int last, char cores[48], char *pus, size_t bytes)
{
    weft_pus set = {{0}};
    int core = first, last_core = last, prefix;
    while (at(machine, core)->kind == WEFT_OBJECT_CACHE)
        core++, last_core++;
    for (int i = first; i < at(machine, last)->end; i++)
        if (at(machine, i)->kind == WEFT_OBJECT_PU)
            weft_pus_add(&set, at(machine, i)->os_number);
    int from = at(machine, core)->number, to = at(machine, last_core)->number;
    *cores = 0;
    if (at(machine, core)->kind == WEFT_OBJECT_CORE)
        snprintf(cores, 48, from == to ? "core %d" : "cores %d-%d", from, to);
    prefix = snprintf(pus, bytes, "PU%s ", plural(weft_pus_count(&set), "s"));
    weft_pus_text(&set, pus + prefix, bytes - (size_t)prefix);
}

static void print_caches(const weft_machine *machine, int index)
{
    char size[32];
    for (int n = 0; at(machine, index)->kind == WEFT_OBJECT_CACHE; index++, n++)
        printf("%sL%d %s", n ? ", " : "  each with ", at(machine, index)->level,
               size_text(at(machine, index)->bytes, size));
}

/* The chains from @p first to @p last, which are alike: "cores 0-3  PUs 0-3  each with L2 256 KiB". */
static void print_chains(const weft_machine *machine, int first, int last)
{
    char cores[48], pus[264];
    machine_chains_text(machine, first, last, cores, pus, sizeof pus);
    printf("%s%s%s", cores, *cores ? "  " : "", pus);
    print_caches(machine, first);
    bool said = at(machine, first)->allowed || !at(machine, at(machine, first)->parent)->allowed;
    printf("%s\n", said ? "" : "  (not allowed)");
}

static void print_words(const weft_object *o)
{
    const char *const words[] = {o->pci_id, o->name, o->model, o->uuid};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*words[i])
            printf("  %s", words[i]);
}

const char *object_text(const weft_object *object, char text[48])
{
    if (!object)
        return strcpy(text, "-");
    bool by_system =
        object->kind == WEFT_OBJECT_PACKAGE || object->kind == WEFT_OBJECT_NUMA || object->kind == WEFT_OBJECT_PU;
    snprintf(text, 48, "%s %d", weft_object_string(object->kind),
             by_system && object->os_number >= 0 ? object->os_number : object->number);
    return text;
}

static void print_object(const weft_machine *machine, const weft_object *o)
{
    char text[48];
    if (o->kind == WEFT_OBJECT_CACHE)
        printf("L%d %s", o->level, size_text(o->bytes, text));
    else
        printf("%s", object_text(o, text));
    if (o->kind == WEFT_OBJECT_NUMA && o->bytes)
        printf("  %s", size_text(o->bytes, text));
    print_words(o);
    if (!o->allowed && o->kind < WEFT_OBJECT_BRIDGE && at(machine, o->parent)->allowed)
        printf("  (not allowed)");
    putchar('\n');
}

static void print_below(const weft_machine *machine, int parent, int indent);

static int print_one(const weft_machine *machine, int index, int indent)
{
    const weft_object *o = at(machine, index);
    if (o->kind == WEFT_OBJECT_BRIDGE) {
        print_below(machine, index, indent);
        return o->end;
    }
    printf("%*s", indent, "");
    if (!machine_is_chain(machine, index)) {
        print_object(machine, o);
        print_below(machine, index, indent + 2);
        return o->end;
    }
    int last = machine_last_alike(machine, index);
    print_chains(machine, index, last);
    return at(machine, last)->end;
}

static void print_below(const weft_machine *machine, int parent, int indent)
{
    for (int i = parent + 1; i < at(machine, parent)->end;)
        i = print_one(machine, i, indent);
}

static void print_counts(const weft_machine *machine)
{
    static const weft_object_kind kinds[] = {WEFT_OBJECT_PACKAGE, WEFT_OBJECT_NUMA, WEFT_OBJECT_CORE,
                                             WEFT_OBJECT_PU,      WEFT_OBJECT_GPU,  WEFT_OBJECT_NIC};
    const char *between = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int count = weft_machine_count(machine, kinds[i]);
        if (count)
            printf("%s%d %s%s", between, count, weft_object_string(kinds[i]), plural(count, "s"));
        between = count ? ", " : between;
    }
}

/* GPUs, by number; PU sets serve well for that. */
typedef weft_pus gpu_set;

static gpu_set gpus_of_island(const weft_machine *machine, int island)
{
    gpu_set members = {{0}};
    for (int g = 0; g < weft_machine_count(machine, WEFT_OBJECT_GPU); g++)
        if (at(machine, weft_machine_find(machine, WEFT_OBJECT_GPU, g))->island == island)
            weft_pus_add(&members, g);
    return members;
}

/* Those that @p gpu reaches directly or over a switch, and itself. */
static gpu_set gpus_reached(const weft_machine *machine, int gpu)
{
    gpu_set reached = {{0}};
    for (int g = 0; g < weft_machine_count(machine, WEFT_OBJECT_GPU); g++)
        if (g == gpu || weft_machine_gpu_mb_per_s(machine, gpu, g) > 0)
            weft_pus_add(&reached, g);
    return reached;
}

static void print_gpus(const weft_machine *machine, const gpu_set *set)
{
    uint64_t slowest = UINT64_MAX, fastest = 0;
    int gpus = weft_machine_count(machine, WEFT_OBJECT_GPU);
    for (int g = 0; g < gpus; g++)
        for (int h = 0; h < gpus; h++) {
            uint64_t speed = weft_machine_gpu_mb_per_s(machine, g, h);
            if (!speed || !weft_pus_has(set, g) || !weft_pus_has(set, h))
                continue;
            slowest = speed < slowest ? speed : slowest;
            fastest = speed > fastest ? speed : fastest;
        }
    char text[256];
    printf("GPUs %s", weft_pus_text(set, text, sizeof text));
    if (fastest)
        printf("  %g", (double)slowest / 1000);
    if (slowest < fastest)
        printf(" to %g", (double)fastest / 1000);
    printf(fastest ? " GB/s a pair\n" : "\n");
}

/* An island, and its parts if it falls into some that share switches. */
static void print_island(const weft_machine *machine, const char *name, int island)
{
    gpu_set members = gpus_of_island(machine, island);
    printf("  %s island %d  ", name, island);
    print_gpus(machine, &members);
    for (int g = 0; g < weft_machine_count(machine, WEFT_OBJECT_GPU); g++) {
        gpu_set part = gpus_reached(machine, g);
        int first = 0;
        while (!weft_pus_has(&part, first))
            first++;
        if (weft_pus_has(&members, g) && first == g && weft_machine_count(machine, WEFT_OBJECT_SWITCH) &&
            weft_pus_count(&part) < weft_pus_count(&members)) {
            printf("    on the same switches  ");
            print_gpus(machine, &part);
        }
    }
}

static void print_links(const weft_machine *machine)
{
    const weft_links *links = weft_machine_links(machine, 0);
    if (weft_machine_islands(machine))
        printf("\nlinks\n");
    for (int island = 0; island < weft_machine_islands(machine); island++)
        print_island(machine, links->name, island);
}

void machine_print(const weft_machine *machine)
{
    printf("machine");
    print_words(at(machine, 0));
    printf("  (%s)\n  ", weft_machine_source(machine));
    print_counts(machine);
    putchar('\n');
    print_below(machine, 0, 2);
    print_links(machine);
    if (weft_machine_unseen(machine, 0))
        printf("\nnot seen\n");
    for (int i = 0; weft_machine_unseen(machine, i); i++)
        printf("  %s\n", weft_machine_unseen(machine, i));
}
