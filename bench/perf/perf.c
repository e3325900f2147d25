/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf`: picks the benchmark. */
#include <stdio.h>
#include <string.h>

#include "menu.h"
#include "perf/api.h"
#include "perf/behind.h"
#include "perf/conform/conform.h"
#include "perf/operations_run.h"
#include "perf/overlap/command.h"
#include "perf/pipeline.h"
#include "subcommands.h"

static const menu_item benchmarks[] = {
    {"api", "what weft's own calls cost, apart from the moving of bytes", perf_api},
    {"behind", "how long small operations take behind a large one on another comm", perf_behind},
    {"conform", "whether a backend keeps its contract", perf_conform},
    {"limits", "what memory allows: the traffic of operations without waiting for others", perf_limits},
    {"overlap", "how much communication in buckets hides behind computing, by their size", perf_overlap},
    {"pipeline", "how near the step of a pipeline comes to what its schedule allows", perf_pipeline},
};

static const menu all = {.command = "weft perf", .items = benchmarks, .count = sizeof benchmarks / sizeof *benchmarks};

/* Its first word may be an operation as well. */
int command_perf(int argc, char **argv)
{
    const menu_item *benchmark = argc >= 2 ? menu_find(&all, argv[1]) : NULL;
    if (benchmark)
        return benchmark->run(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        printf("benchmarks (each has --help):\n");
        menu_print_items(&all, "weft perf ", stdout);
        printf("\n");
    }
    return perf_operations(argc, argv);
}
