/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a machine and a plan as one JSON object. */
#include <stdlib.h>

#include "complain.h"
#include "json.h"
#include "out.h"
#include "topo/topo.h"

/* A number, or null where it is not known. */
static void put_known(json_writer *json, const char *key, int number)
{
    if (number < 0)
        json_put_null(json, key);
    else
        json_put_whole(json, key, number);
}

static void put_object(json_writer *json, const weft_object *o)
{
    json_open(json, NULL, '{');
    json_put_text(json, "kind", weft_object_string(o->kind));
    json_put_whole(json, "number", o->number);
    put_known(json, "os", o->os_number);
    put_known(json, "parent", o->parent);
    json_put_whole(json, "pus", o->pu_count);
    json_put_bool(json, "allowed", o->allowed);
    if (o->kind == WEFT_OBJECT_CACHE)
        json_put_whole(json, "level", o->level);
    if (o->kind == WEFT_OBJECT_CACHE || o->kind == WEFT_OBJECT_NUMA)
        json_put_whole(json, "bytes", (int64_t)o->bytes);
    if (o->kind == WEFT_OBJECT_GPU)
        put_known(json, "island", o->island);
    const struct {
        const char *key, *text;
    } texts[] = {{"name", o->name}, {"model", o->model}, {"pci", o->pci_id}, {"uuid", o->uuid}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i].text)
            json_put_text(json, texts[i].key, texts[i].text);
    json_close(json, '}');
}

static void put_links(json_writer *json, const weft_links *links)
{
    json_open(json, NULL, '{');
    json_put_text(json, "name", links->name);
    json_open(json, "objects", '[');
    for (int i = 0; i < links->count; i++)
        json_put_whole(json, NULL, links->objects[i]);
    json_close(json, ']');
    json_open(json, "mb_per_s", '[');
    for (int i = 0; i < links->count; i++) {
        json_open(json, NULL, '[');
        for (int j = 0; j < links->count; j++)
            json_put_whole(json, NULL, (int64_t)links->mb_per_s[i * links->count + j]);
        json_close(json, ']');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void put_machine(json_writer *json, const weft_machine *machine)
{
    json_open(json, "machine", '{');
    json_put_text(json, "source", weft_machine_source(machine));
    json_put_bool(json, "flat", weft_machine_is_flat(machine));
    json_open(json, "objects", '[');
    for (int i = 0; weft_machine_object(machine, i); i++)
        put_object(json, weft_machine_object(machine, i));
    json_close(json, ']');
    json_put_whole(json, "islands", weft_machine_islands(machine));
    json_open(json, "links", '[');
    for (int i = 0; weft_machine_links(machine, i); i++)
        put_links(json, weft_machine_links(machine, i));
    json_close(json, ']');
    json_open(json, "not_seen", '[');
    for (int i = 0; weft_machine_unseen(machine, i); i++)
        json_put_text(json, NULL, weft_machine_unseen(machine, i));
    json_close(json, ']');
    json_close(json, '}');
}

static int put_rank(json_writer *json, const plan *p, int rank)
{
    const weft_location *location = weft_cluster_location(p->cluster, rank);
    weft_near near = {.numa = WEFT_NONE, .nic = WEFT_NONE};
    char pus[512] = "";
    if (p->objects[rank] != WEFT_NONE) {
        if (weft_machine_near(p->machine, p->objects[rank], &near) < 0)
            return complain(EXIT_FAILED, "%s", weft_last_error());
        weft_pus_text(&near.pus, pus, sizeof pus);
    }
    json_open(json, NULL, '{');
    json_put_whole(json, "rank", rank);
    json_put_whole(json, "place", weft_cluster_place(p->cluster, rank));
    json_put_text(json, "host", weft_cluster_host_name(p->cluster, location->host));
    const struct {
        const char *key;
        int number;
    } numbers[] = {{"object", p->objects[rank]}, {"gpu", location->gpu},     {"package", location->package},
                   {"numa", location->numa},     {"cache", location->cache}, {"island", location->island},
                   {"near_memory", near.numa},   {"near_nic", near.nic}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_known(json, numbers[i].key, numbers[i].number);
    json_put_text(json, "pus", pus);
    json_close(json, '}');
    return EXIT_DONE;
}

static int put_crossing(json_writer *json, const plan *p, weft_axes axes)
{
    weft_crossing crossing;
    char name[WEFT_AXES_TEXT_MAX + 1], line[160] = "";
    if (weft_groups_crossing(p->mesh, p->cluster, axes, &crossing) < 0)
        return complain(EXIT_FAILED, "%s", weft_last_error());
    plan_sentence(p, axes, &crossing, line, sizeof line);
    json_open(json, weft_axes_text(axes, name), '{');
    json_put_text(json, "worst", weft_level_string(crossing.worst));
    json_put_whole(json, "groups", crossing.groups);
    json_put_whole(json, "size", weft_mesh_size(p->mesh, axes));
    json_put_whole(json, "at_worst", crossing.at[crossing.worst]);
    json_put_whole(json, "in_one_island", crossing.groups - crossing.off_island);
    json_put_text(json, "text", line);
    json_close(json, '}');
    return EXIT_DONE;
}

static int put_axes(json_writer *json, const plan *p)
{
    weft_axes axes;
    char name[WEFT_AXES_TEXT_MAX + 1];
    json_open(json, "groups", '{');
    for (int i = 0; (axes = plan_axes(p, i, true)); i++) {
        char *groups = plan_groups(p, axes);
        if (!groups)
            return EXIT_FAILED;
        json_put_text(json, weft_axes_text(axes, name), groups);
        free(groups);
    }
    json_close(json, '}');
    json_open(json, "crosses", '{');
    for (int i = 0; (axes = plan_axes(p, i, true)); i++)
        if (put_crossing(json, p, axes) != EXIT_DONE)
            return EXIT_FAILED;
    json_close(json, '}');
    return EXIT_DONE;
}

static int put_plan(json_writer *json, const plan *p)
{
    put_machine(json, p->machine);
    json_open(json, "ranks", '[');
    for (int rank = 0; rank < p->ranks; rank++)
        if (put_rank(json, p, rank) != EXIT_DONE)
            return EXIT_FAILED;
    json_close(json, ']');
    json_put_text(json, "order", weft_mesh_order(p->mesh));
    if (put_axes(json, p) != EXIT_DONE)
        return EXIT_FAILED;
    json_open(json, "host_sequence", '[');
    for (int place = 0; place < p->ranks; place++) {
        int host = weft_cluster_location(p->cluster, weft_cluster_rank(p->cluster, place))->host;
        json_put_text(json, NULL, weft_cluster_host_name(p->cluster, host));
    }
    json_close(json, ']');
    return EXIT_DONE;
}

int plan_write_json(const plan *p, const char *path)
{
    json_writer json = {.out = out_open(path)};
    if (!json.out)
        return out_complain(path);
    json_open(&json, NULL, '{');
    int code = put_plan(&json, p);
    json_close(&json, '}');
    json_end_line(&json);
    if (!out_close(json.out))
        code = out_complain(path);
    return code;
}
