/* SPDX-License-Identifier: Apache-2.0 */
/* Short files that are the kernel's. */
#ifndef WEFT_BENCH_HOSTS_FILE_H
#define WEFT_BENCH_HOSTS_FILE_H
#include <stdbool.h>
#include <stddef.h>

/* The first line, without its end. False: errno says why, and @p line is empty. */
bool file_read(const char *path, char *line, size_t bytes);
/* False: errno says why. */
bool file_write(const char *path, const char *text);

#endif
