/* SPDX-License-Identifier: Apache-2.0 */
/* Reads text and cuts samples out of it. */
#include "gpt/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "gpt/random.h"

/* Each rank reads all of the data, so it must be a file. A pipe without a writer must not keep open() waiting. */
static FILE *open_file(const char *path, gpt_failure *failure)
{
    struct stat entry;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = NULL;
    if (fd < 0 || fstat(fd, &entry) < 0)
        gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    else if (!S_ISREG(entry.st_mode))
        gpt_fail(failure, EXIT_FAILED, "the data '%s' is neither a file nor a folder", path);
    else if (!(file = fdopen(fd, "rb")))
        gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    if (!file && fd >= 0)
        close(fd);
    return file;
}

static int append_file(gpt_text *text, const char *path, gpt_failure *failure)
{
    FILE *file = open_file(path, failure);
    if (!file)
        return failure->code;
    int code = 0;
    for (size_t got = 1; got > 0 && !code;) {
        const size_t step = 1 << 20;
        unsigned char *bytes = realloc(text->bytes, text->count + step);
        if (!bytes) {
            code = gpt_fail(failure, EXIT_FAILED, "no memory for the data file '%s'", path);
            break;
        }
        text->bytes = bytes;
        got = fread(bytes + text->count, 1, step, file);
        text->count += got;
        if (got == 0 && ferror(file))
            code = gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    }
    fclose(file);
    return code;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* alphasort() would follow the locale */
}

static int append_entry(gpt_text *text, const char *folder, const char *name, gpt_failure *failure)
{
    char path[4096];
    struct stat entry;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return gpt_fail(failure, EXIT_FAILED, "a path in the data folder '%.200s' is too long", folder);
    if (lstat(path, &entry) < 0)
        return gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    return S_ISREG(entry.st_mode) ? append_file(text, path, failure) : 0;
}

static int append_folder(gpt_text *text, const char *path, gpt_failure *failure)
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

static int read_all(gpt_text *text, const char *path, gpt_failure *failure)
{
    struct stat entry;
    if (stat(path, &entry) < 0)
        return gpt_fail(failure, EXIT_FAILED, "cannot read the data '%s': %s", path, strerror(errno));
    return S_ISDIR(entry.st_mode) ? append_folder(text, path, failure) : append_file(text, path, failure);
}

/* Divide the text into its two parts, and see that it can be used. */
static int divide(gpt_text *text, const char *name, double held_out, size_t vocabulary, gpt_failure *failure)
{
    text->train = text->count - (size_t)((double)text->count * held_out);
    size_t least = text->train < text->count - text->train || held_out <= 0 ? text->train : text->count - text->train;
    if (text->count == 0)
        return gpt_fail(failure, EXIT_FAILED, "the data '%s' is empty", name);
    if (least < text->sequence + 1)
        return gpt_fail(failure, EXIT_FAILED,
                        "the data '%s' is too short: %zu bytes to train on and %zu held out, but a sample has %zu",
                        name, text->train, text->count - text->train, text->sequence + 1);
    for (size_t i = 0; i < text->count; i++)
        if (text->bytes[i] >= vocabulary)
            return gpt_fail(failure, EXIT_FAILED, "the data '%s' has byte %d at %zu, outside a vocabulary of %zu", name,
                            text->bytes[i], i, vocabulary);
    return 0;
}

int gpt_text_open(gpt_text *text, const char *path, double held_out, size_t sequence, size_t vocabulary,
                  gpt_failure *failure)
{
    *text = (gpt_text){.sequence = sequence};
    int code = read_all(text, path, failure);
    if (!code)
        code = divide(text, path, held_out, vocabulary, failure);
    if (code)
        gpt_text_close(text);
    return code;
}

int gpt_text_mock(gpt_text *text, size_t count, uint64_t seed, double held_out, size_t sequence, size_t vocabulary,
                  gpt_failure *failure)
{
    enum { WORDS = 64, LONGEST = 8 };
    *text = (gpt_text){.sequence = sequence, .count = count, .bytes = malloc(count ? count : 1)};
    if (!text->bytes)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu bytes of data", count);
    gpt_random stream = gpt_random_stream(seed, "mock data");
    size_t letters = vocabulary < 128 ? vocabulary : 26, first = vocabulary < 128 ? 0 : 'a';
    for (size_t at = 0, place = 0; at < count; place++) {
        size_t word = (size_t)gpt_random_below(stream, 0, place, WORDS), length = 1 + word % LONGEST;
        for (size_t i = 0; i < length && at < count; i++)
            text->bytes[at++] = (unsigned char)(first + gpt_random_below(stream, 1 + word, i, letters));
        if (at < count)
            text->bytes[at++] = vocabulary < 128 ? 0 : ' ';
    }
    int code = divide(text, "made up", held_out, vocabulary, failure);
    if (code)
        gpt_text_close(text);
    return code;
}

void gpt_text_close(gpt_text *text)
{
    free(text->bytes);
    *text = (gpt_text){0};
}

size_t gpt_text_position(const gpt_text *text, uint64_t seed, uint64_t step, uint64_t sample)
{
    gpt_random stream = gpt_random_stream(seed, "sample positions");
    return (size_t)gpt_random_below(stream, step, sample, text->train - text->sequence);
}

size_t gpt_text_held_out_count(const gpt_text *text)
{
    size_t held_out = text->count - text->train;
    return held_out ? (held_out - 1) / text->sequence : 0; /* the last byte of a sample is the first of the next */
}

size_t gpt_text_held_out_position(const gpt_text *text, size_t sample)
{
    return text->train + sample * text->sequence;
}

void gpt_text_sample(const gpt_text *text, size_t position, size_t column, size_t columns, int32_t *inputs,
                     int32_t *targets)
{
    const unsigned char *bytes = text->bytes + position;
    for (size_t i = 0; i < text->sequence; i++) {
        inputs[i * columns + column] = bytes[i];
        targets[i * columns + column] = bytes[i + 1];
    }
}
