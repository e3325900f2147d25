/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: picks the subcommand, and sees that what it printed is not lost. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/version.h>

#include "complain.h"
#include "menu.h"
#include "perf/operations_run.h"
#include "subcommands.h"

static const menu_item subcommands[] = {
    {"gpt", "train a GPT on text over tensor, pipeline and data parallel ranks", command_gpt},
    {"hosts", "start the ranks of a program on hosts made of network namespaces", command_hosts},
    {"info", "what weft is here: modules, backends, variables, and what a comm would choose", command_info},
    {"perf", "benchmarks of operations, in the manner of nccl-tests, and of calls", command_perf},
    {"prof", "what the traces of a run tell: where the time of its steps went", command_prof},
    {"run", "start the ranks of a program on this host", command_run},
    {"schedule", "pipeline schedules: when each stage computes what; checks your own", command_schedule},
    {"topo", "the machine, where ranks sit, and what their groups cross", command_topo},
};

static const menu all = {"weft",
                         "usage: weft COMMAND [options]\n       weft --version\n\ncommands (each has --help):\n",
                         "command", subcommands, sizeof subcommands / sizeof *subcommands};

/* What was closed must not become a file or socket that is opened later. Results that nobody can take stay an error;
 * messages that nobody wants are none. */
static void fill_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

static int run(int argc, char **argv)
{
    int code = argc > 0 ? perf_as_program(argc, argv) : -1;
    if (code >= 0)
        return code;
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("weft %s\n", weft_version_string());
        return EXIT_DONE;
    }
    return menu_run(&all, argc, argv);
}

int main(int argc, char **argv)
{
    fill_standard_files();
    int code = run(argc, argv);
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && code == EXIT_DONE)
        return complain(EXIT_FAILED, "cannot write standard output: %s", strerror(errno ? errno : EIO));
    return code;
}
