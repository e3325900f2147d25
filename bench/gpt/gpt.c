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

static int plan(gpt_run *run)
{
    if (run->failure.code || gpt_plan_run(&run->options, &run->failure))
        return complain(run->failure.code, "%s", run->failure.text);
    gpt_options_note(&run->options, run->argc, run->argv, stderr);
    return EXIT_DONE;
}

int command_gpt(int argc, char **argv)
{
    gpt_run run = {.argc = argc, .argv = argv};
    gpt_gemm_restart(argv - 1); /* main()'s */
    if (gpt_options_read(&run.options, argc, argv, &run.failure) == EXIT_DONE)
        return EXIT_DONE;
    if (!run.failure.code && run.options.make_data)
        return gpt_import(&run.options, &run.failure) ? complain(run.failure.code, "%s", run.failure.text) : EXIT_DONE;
    if (run.options.plan)
        return plan(&run);
    if (!getenv("WEFT_LOG"))
        weft_log_set(WEFT_LOG_WARN, show_warnings, &run);
    weft_world_config config = gpt_train_world(&run);
    weft_result result = weft_world_run(&config, gpt_train, &run);
    if (run.code || result == WEFT_OK)
        return run.code;
    gpt_fail_weft(&run.failure, result); /* no world */
    return complain(run.failure.code, "%s", run.failure.text);
}
