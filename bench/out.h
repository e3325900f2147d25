/* SPDX-License-Identifier: Apache-2.0 */
/* Where a subcommand writes its results: into a file, or for "-" on standard output. */
#ifndef WEFT_BENCH_OUT_H
#define WEFT_BENCH_OUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* See that the file which an option names is none that is read, by whatever name or link: not @p input nor, if that is
 * a folder, a file in it whose name @p pattern matches. EXIT_DONE, or EXIT_USAGE after complain(); a NULL @p path or
 * @p input is no file. Call it before anything is written. */
int out_spare(const char *option, const char *path, const char *input, const char *pattern);
/* See that two options name different files, or are not both standard output: EXIT_DONE, or EXIT_USAGE after
 * complain(). A NULL path is no file. */
int out_apart(const char *option, const char *path, const char *other_option, const char *other_path);
/* NULL: errno says why. */
FILE *out_open(const char *path);
/* Take what is left to where it goes, and close it but for a standard stream. False: some was lost, errno says why. */
bool out_close(FILE *out);
/* What a message calls it. */
const char *out_name(const char *path);
/* Complain that it cannot be opened or closed, as errno says; EXIT_FAILED. */
int out_complain(const char *path);

#endif
