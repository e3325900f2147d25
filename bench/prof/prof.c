/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof`: picks what is to be made of a trace. */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "prof/prof.h"
#include "subcommands.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} views[] = {
    {"cost", "what tracing costs: steps with and without it, in turn (needs no DIR)", prof_cost},
    {"html", "a page with timelines that says the same as the report, for a browser", prof_html},
    {"report", "what was hidden, what was not, and why, as text and JSON", prof_report},
    {"trace", "trace events, for ui.perfetto.dev", prof_trace},
};
enum { VIEW_COUNT = sizeof views / sizeof *views };

static void print_help(FILE *out)
{
    fprintf(out,
            "usage: weft prof VIEW [options] DIR\n\nReads the traces that the ranks of a run wrote into folder DIR "
            "(--trace DIR, WEFT_TRACE=DIR).\n\nviews (each has --help):\n");
    for (size_t i = 0; i < VIEW_COUNT; i++)
        fprintf(out, "  %-10s %s\n", views[i].name, views[i].help);
}

int command_prof(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < VIEW_COUNT; i++)
        if (strcmp(argv[1], views[i].name) == 0)
            return views[i].run(argc - 1, argv + 1);
    return complain(EXIT_USAGE, "there is no view '%s' of a trace (see weft prof --help)", argv[1]);
}
