/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a plan for people: places, groups, what they cross, and the sequence of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "plural.h"
#include "topo/topo.h"

enum { PLACES_SHOWN = 64, GROUPS_SHOWN = 96 /* bytes */ };

static int host_width(const plan *p)
{
    int width = 4;
    for (int host = 0; host < weft_cluster_hosts(p->cluster); host++) {
        int n = (int)strlen(weft_cluster_host_name(p->cluster, host));
        width = n > width ? n : width;
    }
    return width;
}

static const char *nic_text(const weft_object *nic)
{
    return !nic ? "-" : *nic->name ? nic->name : nic->pci_id;
}

static int print_place(const plan *p, int place, int width)
{
    int rank = weft_cluster_rank(p->cluster, place);
    const weft_location *location = weft_cluster_location(p->cluster, rank);
    char on[48], numa[48] = "-", pus[64] = "-";
    const char *nic = "-";
    object_text(weft_machine_object(p->machine, p->objects[rank]), on);
    if (p->objects[rank] != WEFT_NONE) {
        weft_near near;
        if (weft_machine_near(p->machine, p->objects[rank], &near) < 0)
            return complain(EXIT_FAILED, "%s", weft_last_error());
        object_text(weft_machine_object(p->machine, near.numa), numa);
        nic = nic_text(weft_machine_object(p->machine, near.nic));
        weft_pus_text(&near.pus, pus, sizeof pus);
    }
    printf("  %5d  %5d  %-*s  %-9s  %-13s  %-16s  %s\n", place, rank, width,
           weft_cluster_host_name(p->cluster, location->host), on, numa, pus, nic);
    return EXIT_DONE;
}

static int print_places(const plan *p)
{
    int width = host_width(p), code = EXIT_DONE, hosts = weft_cluster_hosts(p->cluster);
    printf("\nplacement  %d rank%s on %d host%s\n", p->ranks, plural(p->ranks, "s"), hosts, plural(hosts, "s"));
    printf("  %5s  %5s  %-*s  %-9s  %-13s  %-16s  %s\n", "place", "rank", width, "host", "runs on", "memory", "PUs",
           "network");
    for (int place = 0; place < p->ranks && place < PLACES_SHOWN && code == EXIT_DONE; place++)
        code = print_place(p, place, width);
    if (p->ranks > PLACES_SHOWN)
        printf("  ... and %d more (--json has all)\n", p->ranks - PLACES_SHOWN);
    return code;
}

static void print_level(const plan *p, const weft_crossing *crossing)
{
    char level[32], text[64], island[32];
    plan_level(p, crossing->worst, level);
    if (crossing->off_island == 0 && crossing->worst < WEFT_LEVEL_ISLAND)
        snprintf(text, sizeof text, "%s, in one %s", level, plan_level(p, WEFT_LEVEL_ISLAND, island));
    else
        snprintf(text, sizeof text, "%s", level);
    printf("  %-32s", text);
}

static int print_axes(const plan *p, weft_axes axes)
{
    weft_crossing crossing;
    char name[WEFT_AXES_TEXT_MAX + 1];
    char *groups = plan_groups(p, axes);
    if (!groups || weft_groups_crossing(p->mesh, p->cluster, axes, &crossing) < 0) {
        free(groups);
        return complain(EXIT_FAILED, "%s", weft_last_error());
    }
    printf("  %-5s  %6d  %4d", weft_axes_text(axes, name), crossing.groups, weft_mesh_size(p->mesh, axes));
    print_level(p, &crossing);
    printf(strlen(groups) > GROUPS_SHOWN ? "  %.*s...\n" : "  %.*s\n", GROUPS_SHOWN, groups);
    free(groups);
    return EXIT_DONE;
}

static void print_sizes(const plan *p)
{
    weft_axes axes;
    char name[WEFT_AXES_TEXT_MAX + 1];
    printf("\nlayout ");
    for (int i = 0; (axes = plan_axes(p, i, true)); i++)
        if ((axes & (axes - 1)) == 0)
            printf(" %s %d ", weft_axes_text(axes, name), weft_mesh_size(p->mesh, axes));
    printf(" order %s\n", weft_mesh_order(p->mesh));
}

static int print_groups(const plan *p)
{
    weft_axes axes;
    int code = EXIT_DONE;
    print_sizes(p);
    if (!plan_axes(p, 0, false)) {
        printf("  every group is one rank alone\n");
        return code;
    }
    printf("  %-5s  %6s  %4s  %-32s  %s\n", "axis", "groups", "size", "worst level crossed", "ranks");
    for (int i = 0; (axes = plan_axes(p, i, false)) && code == EXIT_DONE; i++)
        code = print_axes(p, axes);
    return code;
}

static int print_sentences(const plan *p)
{
    weft_axes axes;
    weft_crossing crossing;
    char line[160];
    for (int i = 0; (axes = plan_axes(p, i, false)); i++) {
        if (weft_groups_crossing(p->mesh, p->cluster, axes, &crossing) < 0)
            return complain(EXIT_FAILED, "%s", weft_last_error());
        if (plan_sentence(p, axes, &crossing, line, sizeof line))
            printf("  %s\n", line);
    }
    return EXIT_DONE;
}

static void print_hosts(const plan *p)
{
    printf("\nhost sequence  ");
    for (int place = 0; place < p->ranks; place++) {
        int host = weft_cluster_location(p->cluster, weft_cluster_rank(p->cluster, place))->host;
        printf("%s%s", place ? "," : "", weft_cluster_host_name(p->cluster, host));
    }
    putchar('\n');
}

int plan_print(const plan *p)
{
    machine_print(p->machine);
    int code = print_places(p);
    if (code == EXIT_DONE)
        code = print_groups(p);
    if (code == EXIT_DONE)
        code = print_sentences(p);
    if (code == EXIT_DONE)
        print_hosts(p);
    return code;
}
