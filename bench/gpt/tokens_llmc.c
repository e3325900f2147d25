/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a token file of llm.c: a header of 256 numbers of 32 bits, then tokens of 16. */
#include <limits.h>

#include "complain.h"
#include "gpt/tokens.h"

enum { HEADER = 1024, VERSION = 1 };

int gpt_llmc_open(gpt_tokens *tokens, const char *path, gpt_failure *failure)
{
    if (gpt_file_map(&tokens->file, path, failure))
        return failure->code;
    const unsigned char *bytes = tokens->file.bytes;
    size_t size = tokens->file.count;
    if (size < HEADER)
        return gpt_fail(failure, EXIT_FAILED, "the data file '%s' has %zu bytes: the header of llm.c has %d", path,
                        size, HEADER);
    uint64_t magic = gpt_little_endian(bytes, 4), version = gpt_little_endian(bytes + 4, 4),
             count = gpt_little_endian(bytes + 8, 4);
    if (magic != GPT_LLMC_MAGIC)
        return gpt_fail(
            failure, EXIT_FAILED,
            "the data file '%s' begins with %llu, not with llm.c's %d, and has no .idx of Megatron beside it", path,
            (unsigned long long)magic, GPT_LLMC_MAGIC);
    if (version != VERSION)
        return gpt_fail(failure, EXIT_FAILED, "the data file '%s' has version %llu of llm.c's format, not %d", path,
                        (unsigned long long)version, VERSION);
    if (count > INT_MAX || size - HEADER != 2 * count)
        return gpt_fail(failure, EXIT_FAILED,
                        "the data file '%s' has %zu bytes behind its header, not %llu tokens of 2", path, size - HEADER,
                        (unsigned long long)count);
    tokens->bytes = bytes + HEADER;
    tokens->count = (size_t)count;
    tokens->type = GPT_TOKEN_U16;
    tokens->unit = "token";
    return gpt_tokens_end_document(tokens, tokens->count, failure);
}
