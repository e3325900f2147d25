/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens side by side in memory, whatever they were read from, and the documents that they make up. */
#ifndef WEFT_BENCH_GPT_TOKENS_H
#define WEFT_BENCH_GPT_TOKENS_H
#include <stdbool.h>
#include <stdint.h>

#include "gpt/file.h"

typedef struct gpt_token_type {
    const char *name;
    unsigned bytes; /* 0: no type of tokens */
    bool is_signed;
} gpt_token_type;

/* By the codes that Megatron has for them: 1 ... 8. */
enum { GPT_TOKEN_U8 = 1, GPT_TOKEN_U16 = 8, GPT_TOKEN_TYPES };
extern const gpt_token_type gpt_token_types[GPT_TOKEN_TYPES];

typedef struct gpt_tokens {
    const unsigned char *bytes; /* little-endian */
    size_t count;
    int type;         /* index into gpt_token_types */
    const char *unit; /* what a token is called: "byte", "token" */
    bool is_text;
    size_t *ends; /* document i ends in front of token ends[i]; the first begins at 0, the last ends at count */
    size_t documents;
    void *memory;     /* what the bytes lie in: allocated, ... */
    gpt_mapping file; /* ... or a file */
} gpt_tokens;

/* Read what @p path names, and close it in any case. What it is, the files say:
 *   a folder: text, its files in the order of their names (symbolic links and folders in it are skipped);
 *   an .idx or .bin of Megatron, or the name without the ending: the tokens of the .bin;
 *   a .bin of llm.c: its tokens, one document;
 *   any other file: text. Tokens of text are bytes, and files its documents. */
int gpt_tokens_open(gpt_tokens *tokens, const char *path, gpt_failure *failure);
void gpt_tokens_close(gpt_tokens *tokens);

/* Number @p at of the tokens. */
int64_t gpt_tokens_at(const gpt_tokens *tokens, size_t at);
/* The whole number in @p bytes bytes, the lowest first. */
uint64_t gpt_little_endian(const unsigned char *at, unsigned bytes);
/* End a document behind token @p end. */
int gpt_tokens_end_document(gpt_tokens *tokens, size_t end, gpt_failure *failure);

/* Megatron's pair of files, @p stem.bin and @p stem.idx. Writing leaves whole files or none of that name. */
int gpt_megatron_open(gpt_tokens *tokens, const char *stem, gpt_failure *failure);
int gpt_megatron_write(const gpt_tokens *tokens, const char *stem, gpt_failure *failure);
/* A file of llm.c, and how such a one begins. */
int gpt_llmc_open(gpt_tokens *tokens, const char *path, gpt_failure *failure);
enum { GPT_LLMC_MAGIC = 20240520 };

#endif
