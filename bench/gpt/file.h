/* SPDX-License-Identifier: Apache-2.0 */
/* Data files, opened and mapped to be read. */
#ifndef WEFT_BENCH_GPT_FILE_H
#define WEFT_BENCH_GPT_FILE_H
#include <stddef.h>

#include "gpt/failure.h"

typedef struct gpt_mapping {
    const unsigned char *bytes; /* NULL if there are none */
    size_t count;
} gpt_mapping;

/* A descriptor to read @p path with, which must be a file; -1: @p failure says why not. */
int gpt_file_open(const char *path, size_t *count_out, gpt_failure *failure);
/* The bytes of a file, read when they are looked at. If somebody shortens it meanwhile, a look at what is gone ends the
 * process with a line that names the file, and EXIT_FAILED. */
int gpt_file_map(gpt_mapping *mapping, const char *path, gpt_failure *failure);
void gpt_file_unmap(gpt_mapping *mapping);

#endif
