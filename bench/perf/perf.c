/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf`: picks the benchmark. */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "perf/api.h"
#include "perf/behind.h"
#include "perf/conform/conform.h"
#include "perf/operations_run.h"
#include "perf/overlap/command.h"
#include "perf/pipeline.h"
#include "subcommands.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} benchmarks[] = {
    {"api", "what weft's own calls cost, apart from the moving of bytes", perf_api},
    {"behind", "how long small operations take behind a large one on another comm", perf_behind},
    {"conform", "whether a backend keeps its contract", perf_conform},
    {"limits", "what memory allows: the traffic of operations without waiting for others", perf_limits},
    {"overlap", "how much communication in buckets hides behind computing, by their size", perf_overlap},
    {"pipeline", "how near the step of a pipeline comes to what its schedule allows", perf_pipeline},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static void print_help(void)
{
    printf("benchmarks (each has --help):\n");
    for (size_t i = 0; i < BENCHMARKS; i++)
        printf("  weft perf %-10s %s\n", benchmarks[i].name, benchmarks[i].help);
    printf("\n");
}

int command_perf(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < BENCHMARKS; i++)
        if (strcmp(argv[1], benchmarks[i].name) == 0)
            return benchmarks[i].run(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--help") == 0)
        print_help();
    return perf_operations(argc, argv);
}
