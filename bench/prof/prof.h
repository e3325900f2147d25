/* SPDX-License-Identifier: Apache-2.0 */
/* The views of `weft prof`, and how they take a folder and options. argv[0] is the view's name; the answer is the exit
 * code. */
#ifndef WEFT_BENCH_PROF_PROF_H
#define WEFT_BENCH_PROF_PROF_H
#include <stdio.h>

#include "option.h"
#include "prof/run.h"

int prof_html(int argc, char **argv);
int prof_trace(int argc, char **argv);

/* Read one folder and the options of a table into @p values, in any order: options_read()'s answer. */
int prof_options(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                 const char **folder_out);

/* Write the run in a folder as @p write does it, which answers false if there is no memory: into @p path or, if that
 * is NULL, into the file @p name of the folder, which is then said on stderr. */
int prof_write(const char *folder, const char *path, const char *name,
               bool (*write)(FILE *out, const prof_run *run, const void *values), const void *values);

#endif
