/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what data is, has it read, and gives its tokens. */
#include "gpt/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "gpt/text.h"

const gpt_token_type gpt_token_types[GPT_TOKEN_TYPES] = {
    {NULL, 0, false}, {"u8", 1, false}, {"i8", 1, true},  {"i16", 2, true},  {"i32", 4, true},
    {"i64", 8, true}, {"f64", 0, true}, {"f32", 0, true}, {"u16", 2, false},
};

uint64_t gpt_little_endian(const unsigned char *at, unsigned bytes)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << (8 * i);
    return number;
}

int64_t gpt_tokens_at(const gpt_tokens *tokens, size_t at)
{
    const gpt_token_type *type = &gpt_token_types[tokens->type];
    uint64_t number = gpt_little_endian(tokens->bytes + at * type->bytes, type->bytes);
    if (type->is_signed && type->bytes < 8 && number >> (8 * type->bytes - 1))
        number -= (uint64_t)1 << (8 * type->bytes);
    return (int64_t)number;
}

int gpt_tokens_end_document(gpt_tokens *tokens, size_t end, gpt_failure *failure)
{
    size_t count = tokens->documents;
    if ((count & (count - 1)) == 0) { /* it is full: room doubles */
        size_t *ends = realloc(tokens->ends, 2 * (count ? count : 1) * sizeof *ends);
        if (!ends)
            return gpt_fail(failure, EXIT_FAILED, "no memory for more than %zu documents of the data", count);
        tokens->ends = ends;
    }
    tokens->ends[tokens->documents++] = end;
    return 0;
}

/* ---- what it is ---- */

static bool has_ending(const char *path, const char *ending)
{
    size_t length = strlen(path), count = strlen(ending);
    return length > count && strcmp(path + length - count, ending) == 0;
}

static bool is_there(const char *stem, const char *ending)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s%s", stem, ending) < (int)sizeof path && access(path, F_OK) == 0;
}

static bool begins_as_llmc(const char *path)
{
    unsigned char head[4];
    size_t count;
    gpt_failure none;
    int fd = gpt_file_open(path, &count, &none);
    bool is = fd >= 0 && read(fd, head, sizeof head) == sizeof head && gpt_little_endian(head, 4) == GPT_LLMC_MAGIC;
    if (fd >= 0)
        close(fd);
    return is;
}

int gpt_tokens_open(gpt_tokens *tokens, const char *path, gpt_failure *failure)
{
    char stem[4096];
    bool bin = has_ending(path, ".bin"), idx = has_ending(path, ".idx");
    *tokens = (gpt_tokens){0};
    if (snprintf(stem, sizeof stem, "%s", path) >= (int)sizeof stem)
        return gpt_fail(failure, EXIT_FAILED, "the path of the data, '%.200s...', is too long", path);
    if (bin || idx)
        stem[strlen(stem) - 4] = 0;
    if (idx || (bin && is_there(stem, ".idx")) || (!is_there(path, "") && is_there(stem, ".idx")))
        return gpt_megatron_open(tokens, stem, failure);
    if (bin || begins_as_llmc(path))
        return gpt_llmc_open(tokens, path, failure);
    return gpt_text_read(tokens, path, failure);
}

void gpt_tokens_close(gpt_tokens *tokens)
{
    free(tokens->ends);
    free(tokens->memory);
    gpt_file_unmap(&tokens->file);
    *tokens = (gpt_tokens){0};
}
