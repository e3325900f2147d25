/* SPDX-License-Identifier: Apache-2.0 */
/* A whole run: starts the ranks, passes on what they write and what signals come, ends all when one fails. */
#ifndef WEFT_BENCH_RUN_LAUNCHER_H
#define WEFT_BENCH_RUN_LAUNCHER_H
#include <stdbool.h>
#include <stddef.h>

#include "option.h"
#include "run/start.h"

enum { LAUNCH_BIND_SHARE, LAUNCH_BIND_CORE, LAUNCH_BIND_NONE };
enum { LAUNCH_PREFIX_RANK, LAUNCH_PREFIX_NONE };

typedef struct launch_config {
    int ranks, bind, prefix;
    bool threads;
    double timeout_s;         /* 0 = none */
    double last_words_s;      /* from the first failure to SIGTERM for the others */
    double grace_s;           /* from SIGTERM to SIGKILL */
    char **command;           /* ends with NULL */
    const start_hosts *hosts; /* NULL = this one */
} launch_config;

/* clang-format off */

/* weft tells the ranks within 1 s that one is lost: 2 s are enough to say so. */
#define LAUNCH_DEFAULTS { .last_words_s = 2, .grace_s = 5 }

/* Options of a subcommand that launches; its values hold a launch_config at @p offset. */
#define LAUNCH_FIELD(offset, name) ((offset) + offsetof(launch_config, name))
#define LAUNCH_OPTIONS(offset)                                                          \
    {"bind", OPTION_CHOICE, LAUNCH_FIELD(offset, bind), 0, 0, "share|core|none",        \
     "cores of a rank: a share of all where there are enough, one in turn, any (share)"}, \
    {"timeout", OPTION_REAL, LAUNCH_FIELD(offset, timeout_s), 0, 1e9, "SECONDS",        \
     "end all ranks after this time; 0 = never (0)"},                                   \
    {"last-words", OPTION_REAL, LAUNCH_FIELD(offset, last_words_s), 0, 1e9, "SECONDS",  \
     "for the others, when a rank has failed (2)"},                                     \
    {"grace", OPTION_REAL, LAUNCH_FIELD(offset, grace_s), 0, 1e9, "SECONDS",            \
     "from SIGTERM to SIGKILL, for a rank that must end (5)"},                          \
    {"prefix", OPTION_CHOICE, LAUNCH_FIELD(offset, prefix), 0, 0, "rank|none",          \
     "what stands before each line of output (rank)"}

/* clang-format on */

/* Returns the code to exit with. */
int launch(const launch_config *config);

#endif
