/* SPDX-License-Identifier: Apache-2.0 */
/* What views that go into a file have in common: a folder and options in any order, and where they write. */
#ifndef WEFT_BENCH_PROF_VIEW_H
#define WEFT_BENCH_PROF_VIEW_H
#include <stdio.h>

#include "option.h"
#include "prof/split.h"

/* What the files of a run in its folder are called. */
#define PROF_FILES "trace.*.weft"

/* Read one folder and the options of a table into @p values: options_read()'s answer. */
int prof_view_options(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                      const char **folder_out);

typedef struct prof_view {
    const char *name;                                     /* of its file in the folder */
    int (*prepare)(const prof_split *split, void *state); /* before the file is opened: an exit code; NULL = nothing */
    bool (*write)(FILE *out, const prof_split *split, void *state); /* false: no memory */
    void (*release)(void *state); /* what was prepared, whatever came of it; NULL = nothing */
} prof_view;

/* Write a view of the run in a folder into @p path or, if that is NULL, into its own file, which is then said on
 * stderr. An exit code, after a complaint if it is not EXIT_DONE. */
int prof_view_write(const prof_view *view, const char *folder, const char *path, void *state);

#endif
