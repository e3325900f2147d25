/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a machine and a plan as one JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "topo/topo.h"

static void print_text(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    }
    putchar('"');
}

static void print_key_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    print_text(text);
}

/* A number, or null if it is none. */
static void print_key_number(const char *key, int number)
{
    if (number < 0)
        printf("\"%s\":null", key);
    else
        printf("\"%s\":%d", key, number);
}

static void print_object(const weft_object *o)
{
    putchar('{');
    print_key_text("kind", weft_object_string(o->kind));
    printf(",\"number\":%d,", o->number);
    print_key_number("os", o->os_number);
    putchar(',');
    print_key_number("parent", o->parent);
    printf(",\"pus\":%d,\"allowed\":%s", o->pu_count, o->allowed ? "true" : "false");
    if (o->kind == WEFT_OBJECT_CACHE)
        printf(",\"level\":%d", o->level);
    if (o->kind == WEFT_OBJECT_CACHE || o->kind == WEFT_OBJECT_NUMA)
        printf(",\"bytes\":%" PRIu64, o->bytes);
    if (o->kind == WEFT_OBJECT_GPU) {
        putchar(',');
        print_key_number("island", o->island);
    }
    const struct {
        const char *key, *text;
    } texts[] = {{"name", o->name}, {"model", o->model}, {"pci", o->pci_id}, {"uuid", o->uuid}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i].text) {
            putchar(',');
            print_key_text(texts[i].key, texts[i].text);
        }
    putchar('}');
}

static void print_links(const weft_links *links)
{
    putchar('{');
    print_key_text("name", links->name);
    printf(",\"objects\":[");
    for (int i = 0; i < links->count; i++)
        printf("%s%d", i ? "," : "", links->objects[i]);
    printf("],\"mb_per_s\":[");
    for (int i = 0; i < links->count; i++) {
        printf("%s[", i ? "," : "");
        for (int j = 0; j < links->count; j++)
            printf("%s%" PRIu64, j ? "," : "", links->mb_per_s[i * links->count + j]);
        putchar(']');
    }
    printf("]}");
}

static void print_machine(const weft_machine *machine)
{
    printf("\"machine\":{");
    print_key_text("source", weft_machine_source(machine));
    printf(",\"flat\":%s,\"objects\":[", weft_machine_is_flat(machine) ? "true" : "false");
    for (int i = 0; weft_machine_object(machine, i); i++) {
        fputs(i ? "," : "", stdout);
        print_object(weft_machine_object(machine, i));
    }
    printf("],\"islands\":%d,\"links\":[", weft_machine_islands(machine));
    for (int i = 0; weft_machine_links(machine, i); i++) {
        fputs(i ? "," : "", stdout);
        print_links(weft_machine_links(machine, i));
    }
    printf("],\"not_seen\":[");
    for (int i = 0; weft_machine_unseen(machine, i); i++) {
        fputs(i ? "," : "", stdout);
        print_text(weft_machine_unseen(machine, i));
    }
    printf("]}");
}

static int print_rank(const plan *p, int rank)
{
    const weft_location *location = weft_cluster_location(p->cluster, rank);
    weft_near near = {.numa = WEFT_NONE, .nic = WEFT_NONE};
    char pus[512] = "";
    if (p->objects[rank] != WEFT_NONE) {
        if (weft_machine_near(p->machine, p->objects[rank], &near) < 0)
            return complain(EXIT_FAILED, "%s", weft_last_error());
        weft_pus_text(&near.pus, pus, sizeof pus);
    }
    printf("{\"rank\":%d,\"place\":%d,", rank, weft_cluster_place(p->cluster, rank));
    print_key_text("host", weft_cluster_host_name(p->cluster, location->host));
    const struct {
        const char *key;
        int number;
    } numbers[] = {{"object", p->objects[rank]}, {"gpu", location->gpu},     {"package", location->package},
                   {"numa", location->numa},     {"cache", location->cache}, {"island", location->island},
                   {"near_memory", near.numa},   {"near_nic", near.nic}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        putchar(',');
        print_key_number(numbers[i].key, numbers[i].number);
    }
    putchar(',');
    print_key_text("pus", pus);
    putchar('}');
    return EXIT_DONE;
}

static int print_crossing(const plan *p, weft_axes axes)
{
    weft_crossing crossing;
    char line[160] = "";
    if (weft_groups_crossing(p->mesh, p->cluster, axes, &crossing) < 0)
        return complain(EXIT_FAILED, "%s", weft_last_error());
    plan_sentence(p, axes, &crossing, line, sizeof line);
    putchar('{');
    print_key_text("worst", weft_level_string(crossing.worst));
    printf(",\"groups\":%d,\"size\":%d,\"at_worst\":%d,\"in_one_island\":%d,", crossing.groups,
           weft_mesh_size(p->mesh, axes), crossing.at[crossing.worst], crossing.groups - crossing.off_island);
    print_key_text("text", line);
    putchar('}');
    return EXIT_DONE;
}

static int print_axes(const plan *p)
{
    weft_axes axes;
    char name[WEFT_AXES_TEXT_MAX + 1];
    printf(",\"groups\":{");
    for (int i = 0; (axes = plan_axes(p, i, true)); i++) {
        char *groups = plan_groups(p, axes);
        if (!groups)
            return EXIT_FAILED;
        fputs(i ? "," : "", stdout);
        print_key_text(weft_axes_text(axes, name), groups);
        free(groups);
    }
    printf("},\"crosses\":{");
    for (int i = 0; (axes = plan_axes(p, i, true)); i++) {
        printf("%s\"%s\":", i ? "," : "", weft_axes_text(axes, name));
        if (print_crossing(p, axes) != EXIT_DONE)
            return EXIT_FAILED;
    }
    putchar('}');
    return EXIT_DONE;
}

int plan_print_json(const plan *p)
{
    putchar('{');
    print_machine(p->machine);
    printf(",\"ranks\":[");
    for (int rank = 0; rank < p->ranks; rank++) {
        fputs(rank ? "," : "", stdout);
        if (print_rank(p, rank) != EXIT_DONE)
            return EXIT_FAILED;
    }
    printf("],");
    print_key_text("order", weft_mesh_order(p->mesh));
    if (print_axes(p) != EXIT_DONE)
        return EXIT_FAILED;
    printf(",\"host_sequence\":[");
    for (int place = 0; place < p->ranks; place++) {
        int host = weft_cluster_location(p->cluster, weft_cluster_rank(p->cluster, place))->host;
        fputs(place ? "," : "", stdout);
        print_text(weft_cluster_host_name(p->cluster, host));
    }
    printf("]}\n");
    return EXIT_DONE;
}
