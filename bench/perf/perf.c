/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf`: picks the benchmark. */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "perf/api.h"
#include "perf/conform/conform.h"
#include "subcommands.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} benchmarks[] = {
    {"api", "what weft's own calls cost, apart from the moving of bytes", perf_api},
    {"conform", "whether a backend keeps its contract", perf_conform},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static void print_help(FILE *out)
{
    fprintf(out, "usage: weft perf BENCHMARK [options]\n\nbenchmarks (each has --help):\n");
    for (size_t i = 0; i < BENCHMARKS; i++)
        fprintf(out, "  %-10s %s\n", benchmarks[i].name, benchmarks[i].help);
}

int command_perf(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; argc >= 2 && i < BENCHMARKS; i++)
        if (strcmp(argv[1], benchmarks[i].name) == 0)
            return benchmarks[i].run(argc - 1, argv + 1);
    if (argc >= 2)
        return complain(EXIT_USAGE, "there is no benchmark '%s' (see weft perf --help)", argv[1]);
    print_help(stderr);
    return EXIT_USAGE;
}
