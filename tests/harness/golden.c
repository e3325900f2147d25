/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads the files that tests compare with. */
#include "harness/golden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/test.h"

void data_path(const char *name, char *path, size_t bytes)
{
    const char *folder = getenv("WEFT_TEST_DATA");
    snprintf(path, bytes, "%s/%s", folder ? folder : "tests/data", name);
}

void golden_path(const char *name, char *path, size_t bytes)
{
    const char *folder = getenv("WEFT_TEST_GOLDEN_DIR");
    if (folder && *folder) {
        snprintf(path, bytes, "%s/%s", folder, name);
        return;
    }
    char relative[256];
    snprintf(relative, sizeof relative, "golden/%s", name);
    data_path(relative, path, bytes);
}

void golden_lines(const char *name, void (*line)(char *text, void *cookie), void *cookie)
{
    char path[4096];
    golden_path(name, path, sizeof path);
    FILE *file = fopen(path, "r");
    if (!file)
        FAIL("%s: %s", path, strerror(errno));
    char *text = NULL;
    size_t size = 0, lines = 0;
    for (ssize_t n; (n = getline(&text, &size, file)) > 0; lines++) {
        if (text[n - 1] == '\n')
            text[n - 1] = 0;
        line(text, cookie);
    }
    free(text);
    fclose(file);
    CHECK_MSG(lines > 0, "%s is empty", path);
}

size_t split(char *text, char separator, char **fields, size_t most)
{
    size_t count = 0;
    for (char *at = text; at && count < most; count++) {
        fields[count] = at;
        at = strchr(at, separator);
        if (at)
            *at++ = 0;
    }
    return count;
}
