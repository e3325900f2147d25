/* SPDX-License-Identifier: Apache-2.0 */
/* `weft gpt`: reads the options and plans, or trains as the rank or the ranks that this process is. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/log.h>

#include "gpt/host/gemm.h"
#include "gpt/import.h"
#include "gpt/plan.h"
#include "gpt/train.h"
#include "subcommands.h"

/* Errors come back as results, and are said once; what follows from them is no news. WEFT_LOG=error shows all. */
static void show_warnings(void *cookie, weft_log_level level, const char *line)
{
    const gpt_run *run = cookie;
    if (level == WEFT_LOG_WARN && !run->code)
        fprintf(stderr, "weft warn: %s\n", line);
}

/* What needs one rank: under a launcher the first does it for all, and a plan is for as many as were launched. */
static weft_result write_once(weft_world *world, void *argument)
{
    gpt_run *run = argument;
    gpt_options *o = &run->options;
    gpt_failure *failure = &run->failure;
    if (weft_world_rank(world) > 0)
        return WEFT_OK;
    if (!o->world_size && weft_world_size(world) > 1)
        o->world_size = weft_world_size(world);
    if (!failure->code)
        run->code = o->plan ? gpt_plan_run(o, failure) : gpt_import(o, failure);
    if (failure->code)
        run->code = complain(failure->code, "%s", failure->text);
    else if (o->plan)
        gpt_options_note(o, run->argc, run->argv, stderr);
    return WEFT_OK;
}

int command_gpt(int argc, char **argv)
{
    gpt_run run = {.argc = argc, .argv = argv};
    gpt_gemm_restart(argv - 1); /* main()'s */
    if (gpt_options_read(&run.options, argc, argv, &run.failure) == EXIT_DONE)
        return EXIT_DONE;
    if (!getenv("WEFT_LOG"))
        weft_log_set(WEFT_LOG_WARN, show_warnings, &run);
    bool once = run.options.plan || run.options.make_data;
    weft_world_config config = once ? (weft_world_config)WEFT_WORLD_CONFIG_INIT : gpt_train_world(&run);
    weft_result result = weft_world_run(&config, once ? write_once : gpt_train, &run);
    if (run.code || result == WEFT_OK)
        return run.code;
    gpt_fail_weft(&run.failure, result); /* no world */
    return complain(run.failure.code, "%s", run.failure.text);
}
