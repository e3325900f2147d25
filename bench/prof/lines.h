/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of lines for people: notes, findings, hints. */
#ifndef WEFT_BENCH_PROF_LINES_H
#define WEFT_BENCH_PROF_LINES_H
#include <stdarg.h>
#include <stddef.h>

/* One line more (given, as the list is), unless there is no memory for it. */
void prof_add_line(char ***lines, size_t *count, const char *format, va_list arguments);
void prof_free_lines(char **lines, size_t count);

#endif
