/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `weft perf OPERATION...`: from the command line to the ranks, and from what they found to the exit code. */
#include "perf/operations_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "perf/product.h"
#include "perf/ranks.h"
#include "perf/sweep.h"
#include "subcommands.h"

static int run(const perf_settings *s, const char *name)
{
    int threads = s->threads * s->gpus;
    perf_job job = {.settings = s, .name = name, .bind = threads > 1};
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.timeout_ms = (uint32_t)s->timeout_s * 1000;
    int code = perf_ranks_run(threads, &config, perf_sweep, &job);
    return code == EXIT_DONE ? atomic_load(&job.code) : code;
}

/* @p main_argv: main()'s, if the command may start itself again. */
static int read_and_run(bool limits_only, const perf_operation *only, int argc, char **argv, char **main_argv)
{
    perf_settings s = {.limits_only = limits_only};
    char name[64];
    int code = perf_settings_read(&s, only, argc, argv);
    if (code != OPTIONS_GO)
        return code;
    if (s.contend)
        perf_product_open(main_argv);
    snprintf(name, sizeof name,
             limits_only             ? "limits"
             : s.operation_count > 1 ? "perf"
                                     : "%s_perf",
             s.operations[0]->name);
    return run(&s, name);
}

int perf_operations(int argc, char **argv)
{
    return read_and_run(false, NULL, argc, argv, argv - 1);
}

int perf_limits(int argc, char **argv)
{
    return read_and_run(true, NULL, argc, argv, argv - 2);
}

int perf_as_program(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    size_t length = strlen(name);
    bool is_perf = length > 5 && strcmp(name + length - 5, "_perf") == 0;
    const perf_operation *only = is_perf ? perf_operation_named(name, length) : NULL;
    return only ? read_and_run(false, only, argc, argv, argv) : -1;
}
