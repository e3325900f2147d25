/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof`: picks what to make of the traces of a run. */
#include "prof/prof.h"

#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "out.h"
#include "subcommands.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} views[] = {
    {"html", "a page with the timeline, for a browser", prof_html},
    {"trace", "trace events for ui.perfetto.dev", prof_trace},
};
enum { VIEWS = sizeof views / sizeof *views };

static void print_help(void)
{
    printf("usage: weft prof VIEW DIR [options]\n\n"
           "Shows what a run that was started with --trace DIR, or WEFT_TRACE=DIR, has left in that folder.\n\n"
           "views (each has --help):\n");
    for (size_t i = 0; i < VIEWS; i++)
        printf("  %-10s %s\n", views[i].name, views[i].help);
}

int prof_options(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                 const char **folder_out)
{
    int rest = 0;
    *folder_out = NULL;
    for (int at = 0;; at += rest) {
        int code = options_read(usage, table, count, argc - at, argv + at, values, &rest);
        if (code != OPTIONS_GO)
            return code;
        if (at + rest >= argc)
            break;
        if (*folder_out)
            return complain(EXIT_USAGE, "prof: '%s' is no option, and one folder is enough", argv[at + rest]);
        *folder_out = argv[at + rest];
    }
    return *folder_out ? OPTIONS_GO : complain(EXIT_USAGE, "prof: the folder with the traces is missing");
}

static int write_run(const prof_run *run, const char *path,
                     bool (*write)(FILE *out, const prof_run *run, const void *values), const void *values)
{
    FILE *out = out_open(path);
    if (!out)
        return out_complain(path);
    bool done = write(out, run, values);
    if (!out_close(out))
        return out_complain(path);
    return done ? EXIT_DONE : complain(EXIT_FAILED, "no memory for '%s'", out_name(path));
}

int prof_write(const char *folder, const char *path, const char *name,
               bool (*write)(FILE *out, const prof_run *run, const void *values), const void *values)
{
    char own[4096];
    prof_run run;
    if (!path && snprintf(own, sizeof own, "%s/%s", folder, name) >= (int)sizeof own)
        return complain(EXIT_USAGE, "'%s' has too long a name", folder);
    int code = prof_run_open(folder, &run);
    if (code == EXIT_DONE)
        code = write_run(&run, path ? path : own, write, values);
    if (code == EXIT_DONE && !path)
        fprintf(stderr, "weft: wrote %s\n", own);
    prof_run_close(&run);
    return code;
}

int command_prof(int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < VIEWS; i++)
        if (strcmp(argv[1], views[i].name) == 0)
            return views[i].run(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "--help") != 0)
        return complain(EXIT_USAGE, "prof has no view '%s' (see weft prof --help)", argv[1]);
    print_help();
    return argc >= 2 ? EXIT_DONE : EXIT_USAGE;
}
