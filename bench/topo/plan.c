/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan: gives every rank a GPU or a core of a machine like the one read, and lays the axes over them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "plural.h"
#include "topo/topo.h"

enum { RANKS_MAX = 1 << 20 };

static int no_memory(void)
{
    return complain(EXIT_FAILED, "no memory for the plan");
}

static int open_machine(const topo_options *options, plan *p)
{
    weft_machine_config config = WEFT_MACHINE_CONFIG_INIT;
    config.xml = options->xml;
    config.synthetic = options->synthetic;
    if (options->xml && options->synthetic)
        return complain(EXIT_USAGE, "--xml and --synthetic are two machines: give one");
    weft_result result = weft_machine_open(&config, &p->machine);
    if (result == WEFT_E_INVALID && options->synthetic)
        return complain(EXIT_USAGE, "%s", weft_last_error());
    return result < 0 ? complain(EXIT_FAILED, "%s", weft_last_error()) : 0;
}

static int object_at(const plan *p, int index)
{
    return p->on == WEFT_OBJECT_GPU ? weft_machine_find(p->machine, WEFT_OBJECT_GPU, index)
                                    : weft_machine_core(p->machine, index);
}

static int objects(const plan *p)
{
    int count = 0;
    while (object_at(p, count) != WEFT_NONE)
        count++;
    return count;
}

static int choose_objects(const topo_options *options, plan *p)
{
    enum { AUTO, ON_GPU, ON_CORE };
    int gpus = weft_machine_count(p->machine, WEFT_OBJECT_GPU);
    if (options->on == ON_GPU && gpus == 0)
        return complain(EXIT_USAGE, "--on gpu: this machine shows no GPU");
    p->on = gpus > 0 && options->on != ON_CORE ? WEFT_OBJECT_GPU : WEFT_OBJECT_CORE;
    return 0;
}

/* "A", or "A:4" for four ranks on A: cut off the number. 0 after a message. */
static int read_count(char *name)
{
    char *colon = strchr(name, ':'), *end;
    if (colon == name || !*name)
        return complain(0, "--hosts has an empty name");
    if (strcspn(name, ":") > WEFT_HOST_NAME_MAX)
        return complain(0, "--hosts: '%s' is longer than %d bytes", name, WEFT_HOST_NAME_MAX);
    if (!colon)
        return 1;
    long count = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || count < 1 || count > RANKS_MAX)
        return complain(0, "--hosts: '%s' does not end in a number from 1 to %d", name, RANKS_MAX);
    *colon = 0;
    return (int)count;
}

/* The host of each rank out of @p text, which is cut up; how many ranks, 0 after a message. */
static int read_hosts(char *text, const char ***names_out)
{
    const char **names = NULL;
    int ranks = 0;
    for (char *at = text, *next; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = 0;
        int count = read_count(at);
        if (count && ranks > RANKS_MAX - count)
            count = complain(0, "--hosts names more than %d ranks", RANKS_MAX);
        const char **more = count ? realloc(names, (size_t)(ranks + count) * sizeof *names) : NULL;
        if (count && !more)
            (void)no_memory();
        if (!more) {
            free(names);
            return 0;
        }
        names = more;
        while (count-- > 0)
            names[ranks++] = at;
    }
    *names_out = names;
    return ranks;
}

/* The k-th rank of a host gets its k-th GPU or core, as launchers do. Hosts with more ranks than that share them in
 * a way that nobody knows. */
static int give_objects(plan *p)
{
    int available = objects(p), *used = calloc((size_t)p->ranks, sizeof *used);
    if (!used)
        return no_memory();
    for (int r = 0; r < p->ranks; r++)
        p->objects[r] = used[p->locations[r].host]++;
    for (int r = 0; r < p->ranks; r++) {
        int host = p->locations[r].host, crowded = used[host] > available;
        p->objects[r] = crowded ? WEFT_NONE : object_at(p, p->objects[r]);
    }
    for (int r = 0; r < p->ranks; r++) /* hosts are numbered by their first rank here */
        if (p->locations[r].host == r && used[r] > available)
            fprintf(stderr, "weft: %s has %d ranks but %d %s%s: where they run is not known\n",
                    *p->locations[r].host_name ? p->locations[r].host_name : "the host", used[r], available,
                    weft_object_string(p->on), plural(available, "s"));
    free(used);
    return 0;
}

static weft_result locate(const plan *p, int rank)
{
    weft_location *location = &p->locations[rank], there;
    int object = p->objects[rank];
    weft_near near;
    if (object == WEFT_NONE)
        return WEFT_OK;
    weft_result result = weft_machine_near(p->machine, object, &near);
    if (result == WEFT_OK)
        result = weft_machine_locate(p->machine, &near.pus, p->on == WEFT_OBJECT_GPU ? object : WEFT_NONE, &there);
    if (result < 0)
        return result;
    there.host = location->host;
    memcpy(there.host_name, location->host_name, sizeof there.host_name);
    /* Hosts are copies of one machine, but their GPUs are not the same. */
    if (*there.gpu_id)
        snprintf(there.gpu_id, sizeof there.gpu_id, "%d:%.40s", there.host,
                 weft_machine_object(p->machine, object)->pci_id);
    *location = there;
    return WEFT_OK;
}

static int place_ranks(const topo_options *options, plan *p)
{
    char *text = options->hosts ? strdup(options->hosts) : NULL;
    const char **names = NULL;
    if (options->hosts && !text)
        return no_memory();
    p->ranks = text ? read_hosts(text, &names) : objects(p);
    int code = p->ranks ? 0 : EXIT_USAGE;
    if (code == 0) {
        p->objects = calloc((size_t)p->ranks, sizeof *p->objects);
        p->locations = calloc((size_t)p->ranks, sizeof *p->locations);
        code = p->objects && p->locations ? 0 : no_memory();
    }
    if (code == 0) {
        for (int r = 0; r < p->ranks; r++)
            p->locations[r] = (weft_location)WEFT_LOCATION_INIT(0);
        if (names)
            weft_location_name_hosts(p->locations, names, p->ranks);
        code = give_objects(p);
    }
    free(names);
    free(text);
    for (int r = 0; r < p->ranks && code == 0; r++)
        if (locate(p, r) < 0)
            code = complain(EXIT_FAILED, "%s", weft_last_error());
    return code;
}

static int lay_out(const topo_options *options, plan *p)
{
    weft_mesh_config config = WEFT_MESH_CONFIG_INIT;
    config.order = options->order;
    config.tp = options->tp;
    config.cp = options->cp;
    config.ep = options->ep;
    config.dp = options->dp;
    config.pp = options->pp;
    config.etp = options->etp;
    if (weft_cluster_create(p->locations, p->ranks, &p->cluster) < 0)
        return complain(EXIT_FAILED, "%s", weft_last_error());
    if (weft_mesh_create(p->ranks, &config, &p->mesh) < 0)
        return complain(EXIT_USAGE, "%s%s%s%s", weft_last_error(), options->hosts ? "" : " (one a ",
                        options->hosts ? "" : weft_object_string(p->on), options->hosts ? "" : "; see --hosts)");
    return 0;
}

int plan_make(const topo_options *options, plan *p)
{
    int code = open_machine(options, p);
    if (code == 0)
        code = choose_objects(options, p);
    if (code == 0)
        code = place_ranks(options, p);
    return code ? code : lay_out(options, p);
}

void plan_free(plan *p)
{
    weft_mesh_destroy(p->mesh);
    weft_cluster_destroy(p->cluster);
    weft_machine_close(p->machine);
    free(p->locations);
    free(p->objects);
}

weft_axes plan_axes(const plan *p, int index, bool all)
{
    static const struct {
        weft_axes axes, needs; /* shown only if this axis is larger than 1 */
    } shown[] = {
        {WEFT_AXIS_TP, 0},
        {WEFT_AXIS_CP, 0},
        {WEFT_AXIS_DP, 0},
        {WEFT_AXIS_DP | WEFT_AXIS_CP, WEFT_AXIS_CP},
        {WEFT_AXIS_PP, 0},
        {WEFT_AXIS_ETP, WEFT_AXIS_EP},
        {WEFT_AXIS_EP, WEFT_AXIS_EP},
        {WEFT_AXIS_EDP, WEFT_AXIS_EP},
    };
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        bool needed = shown[i].needs == 0 || weft_mesh_size(p->mesh, shown[i].needs) > 1;
        if (needed && (all || weft_mesh_size(p->mesh, shown[i].axes) > 1) && index-- == 0)
            return shown[i].axes;
    }
    return 0;
}

const char *plan_level(const plan *p, weft_level level, char text[32])
{
    const weft_links *links = weft_machine_links(p->machine, 0);
    if (level == WEFT_LEVEL_ISLAND && links)
        snprintf(text, 32, "%.20s island", links->name);
    else
        snprintf(text, 32, "%s", weft_level_string(level));
    return text;
}

bool plan_sentence(const plan *p, weft_axes axes, const weft_crossing *crossing, char *text, size_t bytes)
{
    char name[WEFT_AXES_TEXT_MAX + 1], level[32];
    int count = crossing->at[crossing->worst];
    if (crossing->worst == WEFT_LEVEL_NOTHING)
        return false;
    weft_axes_text(axes, name);
    if (crossing->worst == WEFT_LEVEL_UNKNOWN)
        snprintf(text, bytes, "what %d of %d %s groups %s inside a host is not known", count, crossing->groups, name,
                 count == 1 ? "crosses" : "cross");
    else
        snprintf(text, bytes, "%d of %d %s groups %s %ss", count, crossing->groups, name,
                 count == 1 ? "crosses" : "cross", plan_level(p, crossing->worst, level));
    return true;
}

char *plan_groups(const plan *p, weft_axes axes)
{
    size_t bytes = 0;
    char *text = NULL;
    if (weft_groups_text(p->mesh, p->cluster, axes, NULL, 0, &bytes) == WEFT_OK)
        text = malloc(bytes + 1);
    if (!text || weft_groups_text(p->mesh, p->cluster, axes, text, bytes + 1, NULL) < 0) {
        free(text);
        (void)no_memory();
        return NULL;
    }
    return text;
}
