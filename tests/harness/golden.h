/* SPDX-License-Identifier: Apache-2.0 */
/* Files of values that tests compare with, read line by line. */
#ifndef WEFT_TESTS_HARNESS_GOLDEN_H
#define WEFT_TESTS_HARNESS_GOLDEN_H
#include <stdbool.h>
#include <stddef.h>

/* The path of a golden file, in WEFT_TEST_GOLDEN_DIR or else in tests/data/golden; of any file below tests/data. */
void golden_path(const char *name, char *path, size_t bytes);
void data_path(const char *name, char *path, size_t bytes);

/* Call @p line for every line of a golden file (without its end; it may be cut up by the callee). A file that cannot
 * be read, or has no line, fails the test. */
void golden_lines(const char *name, void (*line)(char *text, void *cookie), void *cookie);

/* Cut @p text at @p separator into at most @p most fields, in place; returns how many there were. */
size_t split(char *text, char separator, char **fields, size_t most);

#endif
