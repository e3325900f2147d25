/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tokens as Megatron's pair of files. Each gets its name when it is whole. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "gpt/megatron.h"
#include "gpt/tokens.h"

static void put(FILE *file, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(number >> (8 * i) & 0xff), file);
}

/* A sequence is a document, or if it is too long for 32 bits, as many as it takes. */
static size_t sequences_of(const gpt_tokens *tokens, size_t document)
{
    size_t begin = document ? tokens->ends[document - 1] : 0;
    return (tokens->ends[document] - begin + INT32_MAX - 1) / INT32_MAX;
}

/* Call it for each sequence, with where that begins and how long it is. */
static void each_sequence(const gpt_tokens *tokens, FILE *file,
                          void (*call)(FILE *, const gpt_tokens *, size_t, size_t))
{
    for (size_t i = 0, at = 0; i < tokens->documents; i++)
        while (at < tokens->ends[i]) {
            size_t left = tokens->ends[i] - at, length = left < INT32_MAX ? left : INT32_MAX;
            call(file, tokens, at, length);
            at += length;
        }
}

static void put_length(FILE *file, const gpt_tokens *tokens, size_t at, size_t length)
{
    (void)tokens, (void)at;
    put(file, length, 4);
}

static void put_offset(FILE *file, const gpt_tokens *tokens, size_t at, size_t length)
{
    (void)length;
    put(file, at * gpt_token_types[tokens->type].bytes, 8);
}

static void put_index(FILE *file, const gpt_tokens *tokens)
{
    size_t sequences = 0;
    for (size_t i = 0; i < tokens->documents; i++)
        sequences += sequences_of(tokens, i);
    fwrite(GPT_MEGATRON_MAGIC, 1, 9, file);
    put(file, GPT_MEGATRON_VERSION, 8);
    put(file, (uint64_t)tokens->type, 1);
    put(file, sequences, 8);
    put(file, tokens->documents + 1, 8);
    each_sequence(tokens, file, put_length);
    each_sequence(tokens, file, put_offset);
    put(file, 0, 8);
    for (size_t i = 0, border = 0; i < tokens->documents; i++)
        put(file, border += sequences_of(tokens, i), 8);
}

static void put_tokens(FILE *file, const gpt_tokens *tokens)
{
    fwrite(tokens->bytes, gpt_token_types[tokens->type].bytes, tokens->count, file);
}

static int write_file(const gpt_tokens *tokens, const char *stem, const char *ending,
                      void (*fill)(FILE *, const gpt_tokens *), gpt_failure *failure)
{
    char path[4096], part[4096 + 32];
    if (snprintf(path, sizeof path, "%s%s", stem, ending) >= (int)sizeof path)
        return gpt_fail(failure, EXIT_FAILED, "the path '%.200s...' is too long", stem);
    snprintf(part, sizeof part, "%s.part.%ld", path, (long)getpid());
    errno = 0;
    FILE *file = fopen(part, "wb");
    if (!file)
        return gpt_fail(failure, EXIT_FAILED, "cannot write '%s': %s", path, strerror(errno));
    fill(file, tokens);
    bool lost = ferror(file);
    if (fclose(file) != 0 || lost || rename(part, path) != 0) {
        gpt_fail(failure, EXIT_FAILED, "cannot write '%s': %s", path, strerror(errno ? errno : EIO));
        unlink(part);
        return failure->code;
    }
    return 0;
}

int gpt_megatron_write(const gpt_tokens *tokens, const char *stem, gpt_failure *failure)
{
    int code = write_file(tokens, stem, ".bin", put_tokens, failure);
    return code ? code : write_file(tokens, stem, ".idx", put_index, failure);
}
