/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of views, reads and splits their run, and opens and closes their files. */
#include "prof/view.h"

#include "complain.h"
#include "out.h"

/* The first option that took the word behind it as its value; NULL: none did. */
static const char *taken(const option *table, size_t count, int argc, char **argv, const char **value_out)
{
    for (int i = 1; i + 1 < argc; i++) {
        const char *value;
        const option *o = argv[i][0] == '-' ? options_find(table, count, argv[i], &value) : NULL;
        bool is_file = o && (o->kind == OPTION_FILE || o->kind == OPTION_TEXT || o->kind == OPTION_TEXTS);
        *value_out = argv[i + 1];
        if (is_file && !value && (*value_out)[0] != '-')
            return argv[i];
    }
    return NULL;
}

static int no_folder(const char *view, const option *table, size_t count, int argc, char **argv)
{
    const char *value, *by = taken(table, count, argc, argv, &value);
    if (by)
        return complain(EXIT_USAGE, "of which folder? %s took '%s' as its value (see weft prof %s --help)", by, value,
                        view);
    return complain(EXIT_USAGE, "of which folder? (see weft prof %s --help)", view);
}

typedef struct folder_reader {
    const char *view, *folder;
} folder_reader;

static int take_folder(void *cookie, const char *word)
{
    folder_reader *r = cookie;
    if (r->folder)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft prof %s --help)", word, r->view);
    r->folder = word;
    return OPTIONS_GO;
}

int prof_view_options(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                      const char **folder_out)
{
    folder_reader r = {.view = argv[0]};
    const options_operands operands = {.take = take_folder, .cookie = &r};
    int code = options_read_mixed(usage, table, count, argc, argv, values, &operands);
    if (code == OPTIONS_GO && !r.folder)
        code = no_folder(argv[0], table, count, argc, argv);
    *folder_out = r.folder;
    return code;
}

static int write_split(const prof_view *view, const prof_split *split, const char *path, void *state)
{
    int code = view->prepare ? view->prepare(split, state) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    FILE *out = out_open(path);
    if (!out)
        return out_complain(path);
    bool done = view->write(out, split, state);
    if (!out_close(out))
        return out_complain(path);
    return done ? EXIT_DONE : complain(EXIT_FAILED, "no memory for '%s'", out_name(path));
}

static int write_run(const prof_view *view, const prof_run *run, const char *path, void *state)
{
    prof_split split;
    int code = prof_split_open(run, &split) ? write_split(view, &split, path, state)
                                            : complain(EXIT_FAILED, "no memory for the trace");
    if (view->release)
        view->release(state);
    prof_split_close(&split);
    return code;
}

int prof_view_write(const prof_view *view, const char *folder, const char *path, void *state)
{
    char own[4096];
    prof_run run;
    if (!path && snprintf(own, sizeof own, "%s/%s", folder, view->name) >= (int)sizeof own)
        return complain(EXIT_USAGE, "'%s' has too long a name", folder);
    int code = out_spare("--out", path ? path : own, folder, PROF_FILES);
    if (code != EXIT_DONE)
        return code;
    code = prof_run_open(folder, &run);
    if (code == EXIT_DONE)
        code = write_run(view, &run, path ? path : own, state);
    if (code == EXIT_DONE && !path)
        fprintf(stderr, "weft: wrote %s\n", own);
    prof_run_close(&run);
    return code;
}
