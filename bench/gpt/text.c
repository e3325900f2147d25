/* SPDX-License-Identifier: Apache-2.0 */
/* Reads text, or makes some up. */
#include "gpt/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "gpt/random.h"

static int append_file(gpt_tokens *text, const char *path, gpt_failure *failure)
{
    size_t size;
    int fd = gpt_file_open(path, &size, failure), code = 0;
    if (fd < 0)
        return failure->code;
    for (ssize_t got = 1; got > 0 && !code;) {
        const size_t step = 1 << 20;
        unsigned char *bytes = realloc(text->memory, text->count + step);
        if (!bytes) {
            code = gpt_fail(failure, EXIT_FAILED, "no memory for the data file '%s'", path);
            break;
        }
        text->bytes = text->memory = bytes;
        got = read(fd, bytes + text->count, step);
        if (got > 0)
            text->count += (size_t)got;
        else if (got < 0)
            code = gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    }
    close(fd);
    return code ? code : gpt_tokens_end_document(text, text->count, failure);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort() would follow the locale */
}

static int append_entry(gpt_tokens *text, const char *folder, const char *name, gpt_failure *failure)
{
    char path[4096];
    struct stat entry;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return gpt_fail(failure, EXIT_FAILED, "a path in the data folder '%.200s' is too long", folder);
    if (lstat(path, &entry) < 0)
        return gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    return S_ISREG(entry.st_mode) ? append_file(text, path, failure) : 0;
}

static int append_folder(gpt_tokens *text, const char *path, gpt_failure *failure)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_bytes), code = 0;
    if (count < 0)
        return gpt_fail(failure, EXIT_FAILED, "cannot read the data folder '%s': %s", path, strerror(errno));
    for (int i = 0; i < count; i++) {
        if (!code)
            code = append_entry(text, path, entries[i]->d_name, failure);
        free(entries[i]);
    }
    free(entries);
    return code;
}

static const gpt_tokens empty = {.type = GPT_TOKEN_U8, .unit = "byte", .is_text = true};

int gpt_text_read(gpt_tokens *text, const char *path, gpt_failure *failure)
{
    struct stat entry;
    *text = empty;
    if (stat(path, &entry) < 0)
        return gpt_fail(failure, EXIT_FAILED, "cannot read the data '%s': %s", path, strerror(errno));
    return S_ISDIR(entry.st_mode) ? append_folder(text, path, failure) : append_file(text, path, failure);
}

int gpt_text_mock(gpt_tokens *text, size_t count, uint64_t seed, size_t vocabulary, gpt_failure *failure)
{
    enum { WORDS = 64, LONGEST = 8 };
    unsigned char *bytes = malloc(count ? count : 1);
    *text = empty;
    if (!bytes)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu bytes of data", count);
    text->bytes = text->memory = bytes;
    text->count = count;
    gpt_random stream = gpt_random_stream(seed, "mock data");
    size_t letters = vocabulary < 128 ? vocabulary : 26, first = vocabulary < 128 ? 0 : 'a';
    for (size_t at = 0, place = 0; at < count; place++) {
        size_t word = (size_t)gpt_random_below(stream, 0, place, WORDS), length = 1 + word % LONGEST;
        for (size_t i = 0; i < length && at < count; i++)
            bytes[at++] = (unsigned char)(first + gpt_random_below(stream, 1 + word, i, letters));
        if (at < count)
            bytes[at++] = vocabulary < 128 ? 0 : ' ';
    }
    return gpt_tokens_end_document(text, count, failure);
}
