/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Megatron's pair of an index and a file of tokens, and believes the index nothing that does not add up. */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "gpt/megatron.h"
#include "gpt/tokens.h"

typedef struct index_file {
    const char *path, *bin;
    gpt_mapping file;
    size_t sequences, borders;
    const unsigned char *lengths, *offsets, *first; /* of each sequence, of each document */
} index_file;

static int read_header(index_file *x, int *type, gpt_failure *failure)
{
    const unsigned char *at = x->file.bytes;
    if (x->file.count < GPT_MEGATRON_HEADER)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has %zu bytes: its header has %d", x->path, x->file.count,
                        GPT_MEGATRON_HEADER);
    if (memcmp(at, GPT_MEGATRON_MAGIC, 9) != 0)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' does not begin with Megatron's MMIDIDX", x->path);
    uint64_t version = gpt_little_endian(at + 9, 8);
    if (version != GPT_MEGATRON_VERSION)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has version %llu, not %d", x->path,
                        (unsigned long long)version, GPT_MEGATRON_VERSION);
    *type = at[17];
    if (*type < 1 || *type >= GPT_TOKEN_TYPES)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has type code %d: there are 1 to %d", x->path, *type,
                        GPT_TOKEN_TYPES - 1);
    if (!gpt_token_types[*type].bytes)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has type %s, which is none of tokens", x->path,
                        gpt_token_types[*type].name);
    return 0;
}

static int find_tables(index_file *x, gpt_failure *failure)
{
    const unsigned char *at = x->file.bytes + GPT_MEGATRON_HEADER;
    uint64_t sequences = gpt_little_endian(at - 16, 8), borders = gpt_little_endian(at - 8, 8);
    size_t room = x->file.count - GPT_MEGATRON_HEADER;
    if (sequences > room / 12 || borders > room / 8 || sequences * 12 + borders * 8 != room)
        return gpt_fail(failure, EXIT_FAILED,
                        "the index '%s' has %zu bytes behind its header, which is not what %llu sequences and %llu "
                        "borders of documents take",
                        x->path, room, (unsigned long long)sequences, (unsigned long long)borders);
    x->sequences = (size_t)sequences, x->borders = (size_t)borders;
    x->lengths = at, x->offsets = at + 4 * x->sequences, x->first = at + 12 * x->sequences;
    return 0;
}

/* Are the sequences the tokens of the other file, one behind the other? */
static int check_sequences(const index_file *x, gpt_tokens *tokens, gpt_failure *failure)
{
    size_t size = tokens->file.count, at = 0, each = gpt_token_types[tokens->type].bytes;
    for (size_t i = 0; i < x->sequences; i++) {
        uint64_t length = gpt_little_endian(x->lengths + 4 * i, 4), offset = gpt_little_endian(x->offsets + 8 * i, 8);
        if (length > INT32_MAX || offset > size || length > (size - offset) / each)
            return gpt_fail(failure, EXIT_FAILED,
                            "the index '%s' has sequence %zu, %d tokens from byte %lld on, outside of '%s' with its "
                            "%zu bytes",
                            x->path, i, (int)(int32_t)length, (long long)(int64_t)offset, x->bin, size);
        if (offset != at)
            return gpt_fail(failure, EXIT_FAILED,
                            "the index '%s' has sequence %zu at byte %llu, but those in front of it end at %zu",
                            x->path, i, (unsigned long long)offset, at);
        at += (size_t)length * each;
    }
    if (at != size)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has sequences of %zu bytes, but '%s' has %zu", x->path,
                        at, x->bin, size);
    tokens->bytes = tokens->file.bytes;
    tokens->count = size / each;
    return 0;
}

static int take_documents(const index_file *x, gpt_tokens *tokens, gpt_failure *failure)
{
    size_t each = gpt_token_types[tokens->type].bytes;
    uint64_t last = 0;
    for (size_t i = 0; i < x->borders; i++) {
        uint64_t border = gpt_little_endian(x->first + 8 * i, 8);
        if (border < last || border > x->sequences || (i == 0 && border > 0))
            return gpt_fail(failure, EXIT_FAILED, "the index '%s' has document %zu begin at sequence %lld of %zu",
                            x->path, i, (long long)(int64_t)border, x->sequences);
        size_t end =
            border < x->sequences ? (size_t)gpt_little_endian(x->offsets + 8 * border, 8) / each : tokens->count;
        if (i > 0 && gpt_tokens_end_document(tokens, end, failure))
            return failure->code;
        last = border;
    }
    if (x->borders == 0 || last != x->sequences)
        return gpt_fail(failure, EXIT_FAILED, "the index '%s' has its last document end at sequence %llu of %zu",
                        x->path, (unsigned long long)last, x->sequences);
    return 0;
}

int gpt_megatron_open(gpt_tokens *tokens, const char *stem, gpt_failure *failure)
{
    char path[4096 + 8], bin[4096 + 8];
    index_file x = {.path = path, .bin = bin};
    snprintf(path, sizeof path, "%s.idx", stem);
    snprintf(bin, sizeof bin, "%s.bin", stem);
    tokens->unit = "token";
    int code = gpt_file_map(&x.file, path, failure);
    if (!code)
        code = read_header(&x, &tokens->type, failure);
    if (!code)
        code = find_tables(&x, failure);
    if (!code)
        code = gpt_file_map(&tokens->file, bin, failure);
    if (!code)
        code = check_sequences(&x, tokens, failure);
    if (!code)
        code = take_documents(&x, tokens, failure);
    gpt_file_unmap(&x.file);
    return code;
}
