/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft topo` shows: a machine, and a plan of ranks on hosts that are all like it. */
#ifndef WEFT_BENCH_TOPO_H
#define WEFT_BENCH_TOPO_H
#include <stdbool.h>
#include <weft/groups.h>
#include <weft/machine.h>

typedef struct topo_options {
    const char *xml, *synthetic, *hosts, *order;
    int on; /* index into "auto|gpu|core" */
    int tp, cp, ep, dp, pp, etp;
    const char *json, *svg;
    bool strict;
} topo_options;

typedef struct plan {
    weft_machine *machine;
    weft_object_kind on; /* what a rank is given: a GPU or a core */
    int ranks;
    int *objects; /* by rank: its GPU or core; WEFT_NONE = not known */
    weft_location *locations;
    weft_cluster *cluster;
    weft_mesh *mesh;
} plan;

/* Make the plan that the options ask for; 0, or the exit code after a message. */
int plan_make(const topo_options *options, plan *p);
void plan_free(plan *p);

/* Axes that are shown, from 0; 0 = no more. With @p all those of size 1 too. */
weft_axes plan_axes(const plan *p, int index, bool all);
/* A level as this machine's user would say it: "NVLink island". */
const char *plan_level(const plan *p, weft_level level, char text[32]);
/* "1 of 2 tp groups crosses hosts" about the worst level; false if nothing is crossed. */
bool plan_sentence(const plan *p, weft_axes axes, const weft_crossing *crossing, char *text, size_t bytes);
/* All groups along some axes as text, to be given back with free(); NULL after a message. */
char *plan_groups(const plan *p, weft_axes axes);

/* How an object is called: packages, NUMA nodes and PUs by the numbers that other tools use, "NUMA node 1". */
const char *object_text(const weft_object *object, char text[48]);
/* "16 GiB". */
const char *size_text(uint64_t bytes, char text[32]);
/* A core or a PU, or caches around one: what a line of cores is made of. */
bool machine_is_chain(const weft_machine *machine, int index);
/* The last of those beside each other that are like this one. */
int machine_last_alike(const weft_machine *machine, int index);
/* "cores 0-3", or "" if they are PUs alone, and "PUs 0-7". */
void machine_chains_text(const weft_machine *machine, int first, int last, char cores[48], char *pus, size_t bytes);
void machine_print(const weft_machine *machine);
int plan_print(const plan *p);
/* Into @p path, or on standard output for "-". */
int plan_write_json(const plan *p, const char *path);
int plan_draw(const plan *p, const char *path);

#endif
