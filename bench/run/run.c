/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`: N processes, or N threads, of a program as the ranks of one world. */
#include "complain.h"
#include "option.h"
#include "run/launcher.h"
#include "subcommands.h"

static const option table[] = {
    {"n", OPTION_INT, offsetof(launch_config, ranks), 1, 4096, "N", "how many ranks (required)"},
    {"threads", OPTION_FLAG, offsetof(launch_config, threads), 0, 0, NULL,
     "one process that makes its ranks of N threads"},
    LAUNCH_OPTIONS(0),
};

static const char usage[] =
    "usage: weft run -n N [options] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Starts N ranks of PROGRAM on this host and waits for them. Lines of output are passed on whole, as \"[3] ...\";\n"
    "a line that goes on after an interruption (longer than 256 KiB) as \"[3]+...\". Standard input is rank 0's.\n"
    "Signals are passed on to all ranks. When a rank fails, the others may go on for 2 s, to say what they lost;\n"
    "then they get SIGTERM, and 5 s later SIGKILL.\n"
    "\n"
    "Exit code: that of the first rank that failed, 128 + N if signal N killed it; 0 if none failed; 4 if the time\n"
    "limit passed first; 127 if PROGRAM is not found, 126 if it cannot be run; 1 another failure of the start; 2 "
    "usage.";

int command_run(int argc, char **argv)
{
    launch_config config = LAUNCH_DEFAULTS;
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &config, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (config.ranks == 0)
        return complain(EXIT_USAGE, "-n is missing: how many ranks? (see weft run --help)");
    if (rest >= argc)
        return complain(EXIT_USAGE, "no program to run (see weft run --help)");
    config.command = argv + rest;
    return launch(&config);
}
