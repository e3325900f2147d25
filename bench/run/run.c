/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`: N processes, or N threads, of a program as the ranks of one world. */
#include "complain.h"
#include "option.h"
#include "run/launcher.h"
#include "subcommands.h"

enum { BIND_NONE, BIND_CORE };
enum { PREFIX_RANK, PREFIX_NONE };

typedef struct run_options {
    int ranks, bind, prefix;
    bool threads;
    double timeout_s, last_words_s, grace_s;
} run_options;

#define FIELD(name) offsetof(run_options, name)

static const option table[] = {
    {"n", OPTION_INT, FIELD(ranks), 1, 4096, "N", "how many ranks (required)"},
    {"threads", OPTION_FLAG, FIELD(threads), 0, 0, NULL, "one process that makes its ranks of N threads"},
    {"bind", OPTION_CHOICE, FIELD(bind), 0, 0, "none|core", "each rank on a core of its own, in turn (none)"},
    {"timeout", OPTION_REAL, FIELD(timeout_s), 0, 1e9, "SECONDS", "end all ranks after this time; 0 = never (0)"},
    {"last-words", OPTION_REAL, FIELD(last_words_s), 0, 1e9, "SECONDS", "for the others, when a rank has failed (2)"},
    {"grace", OPTION_REAL, FIELD(grace_s), 0, 1e9, "SECONDS", "from SIGTERM to SIGKILL, for a rank that must end (5)"},
    {"prefix", OPTION_CHOICE, FIELD(prefix), 0, 0, "rank|none", "what stands before each line of output (rank)"},
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
    /* weft tells the ranks within 1 s that one is lost: 2 s are enough to say so. */
    run_options o = {.last_words_s = 2, .grace_s = 5};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &o, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (o.ranks == 0)
        return complain(EXIT_USAGE, "-n is missing: how many ranks? (see weft run --help)");
    if (rest >= argc)
        return complain(EXIT_USAGE, "no program to run (see weft run --help)");
    const launch_config config = {
        .ranks = o.ranks,
        .threads = o.threads,
        .bind = o.bind == BIND_CORE,
        .prefix = o.prefix == PREFIX_RANK,
        .timeout_s = o.timeout_s,
        .last_words_s = o.last_words_s,
        .grace_s = o.grace_s,
        .command = argv + rest,
    };
    return launch(&config);
}
