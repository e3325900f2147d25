/* SPDX-License-Identifier: Apache-2.0 */
/* Text, whose tokens are its bytes. */
#ifndef WEFT_BENCH_GPT_TEXT_H
#define WEFT_BENCH_GPT_TEXT_H
#include "gpt/tokens.h"

/* Read a file, or the files of a folder in the order of their names (symbolic links and folders in it are skipped), as
 * one text; each file is a document. */
int gpt_text_read(gpt_tokens *text, const char *path, gpt_failure *failure);
enum { GPT_MOCK_BYTES = 1 << 18 }; /* unless a test wants less */
/* A made-up text of @p count bytes below @p vocabulary: words in an order by chance, the same for the same seed. */
int gpt_text_mock(gpt_tokens *text, size_t count, uint64_t seed, size_t vocabulary, gpt_failure *failure);

#endif
