/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo`: the machine, where ranks sit on hosts like it, the groups of a layout, and what they cross. */
#include <stdio.h>
#include <string.h>
#include <weft/log.h>

#include "complain.h"
#include "option.h"
#include "out.h"
#include "subcommands.h"
#include "topo/topo.h"

static const char usage[] =
    "usage: weft topo [options]\n\n"
    "Prints the machine, the place of every rank, the groups of a layout and, for every axis, the worst level that "
    "its\n"
    "groups cross (cache, NUMA node, package, link island, host). No rank is started. Sizes are in bytes (KiB, MiB,\n"
    "GiB), link speeds in GB/s for one direction.";

#define FIELD(name) offsetof(topo_options, name)

enum { SIZE_MAX_OPTION = 1 << 24 };

static const option table[] = {
    {"xml", OPTION_TEXT, FIELD(xml), 0, 0, "FILE", "read the machine from an hwloc XML file (this host)"},
    {"synthetic", OPTION_TEXT, FIELD(synthetic), 0, 0, "TEXT", "a machine described as in \"package:2 core:4 pu:2\""},
    {"hosts", OPTION_TEXT, FIELD(hosts), 0, 0, "A,B,...", "host of each rank; A:4 is A four times (one host)"},
    {"on", OPTION_CHOICE, FIELD(on), 0, 0, "auto|gpu|core", "what a rank gets (a GPU, or a core without GPUs)"},
    {"order", OPTION_TEXT, FIELD(order), 0, 0, "ORDER", "axes, the innermost first (tp-cp-ep-dp-pp)"},
    {"tp", OPTION_INT, FIELD(tp), 1, SIZE_MAX_OPTION, "N", "tensor parallel ranks (1)"},
    {"cp", OPTION_INT, FIELD(cp), 1, SIZE_MAX_OPTION, "N", "context parallel ranks (1)"},
    {"ep", OPTION_INT, FIELD(ep), 1, SIZE_MAX_OPTION, "N", "expert parallel ranks, out of dp and cp (1)"},
    {"dp", OPTION_INT, FIELD(dp), 1, SIZE_MAX_OPTION, "N", "data parallel ranks (all that are left)"},
    {"pp", OPTION_INT, FIELD(pp), 1, SIZE_MAX_OPTION, "N", "pipeline stages (1)"},
    {"etp", OPTION_INT, FIELD(etp), 1, SIZE_MAX_OPTION, "N", "tensor parallel ranks inside an expert (tp)"},
    {"strict", OPTION_FLAG, FIELD(strict), 0, 0, NULL, "end with 1 if a tensor parallel group leaves its host"},
    {"json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "one JSON object; - = standard output, with nothing else"},
    {"svg", OPTION_FILE, FIELD(svg), 0, 0, "FILE", "draw it instead, as SVG; - = standard output"},
};

/* Errors are told by the command itself. */
static void to_stderr(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    if (level != WEFT_LOG_ERROR)
        fprintf(stderr, "weft: %s\n", line);
}

static int check_strict(const plan *p)
{
    if (weft_groups_keep_within(p->mesh, p->cluster, WEFT_AXIS_TP, WEFT_LEVEL_HOST) == WEFT_OK)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "--strict: %s", weft_last_error());
}

static int check_files(const topo_options *o)
{
    if (out_apart("--json", o->json, "--svg", o->svg) != EXIT_DONE)
        return EXIT_USAGE;
    int code = out_spare("--json", o->json, o->xml, "*");
    return code == EXIT_DONE ? out_spare("--svg", o->svg, o->xml, "*") : code;
}

static int show(const plan *p, const topo_options *o)
{
    int code = o->json ? plan_write_json(p, o->json) : EXIT_DONE;
    if (code == EXIT_DONE && o->svg)
        return plan_draw(p, o->svg);
    return code == EXIT_DONE && !(o->json && strcmp(o->json, "-") == 0) ? plan_print(p) : code;
}

int command_topo(int argc, char **argv)
{
    topo_options options = {.tp = 1, .cp = 1, .ep = 1, .pp = 1, .dp = WEFT_MESH_REST, .etp = WEFT_MESH_REST};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &options, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "topo takes no '%s'", argv[rest]);
    code = check_files(&options);
    if (code != EXIT_DONE)
        return code;
    weft_log_set(WEFT_LOG_WARN, to_stderr, NULL);
    plan p = {0};
    code = plan_make(&options, &p);
    if (code == EXIT_DONE)
        code = show(&p, &options);
    if (code == EXIT_DONE && options.strict)
        code = check_strict(&p);
    plan_free(&p);
    return code;
}
