/* SPDX-License-Identifier: Apache-2.0 */
/* Turns data into Megatron's pair of files. */
#include "gpt/import.h"

#include "gpt/text.h"
#include "plural.h"

int gpt_import(const gpt_options *o, gpt_failure *failure)
{
    gpt_tokens tokens;
    int code = o->mock ? gpt_text_mock(&tokens, GPT_MOCK_BYTES, o->seed, (size_t)o->vocabulary, failure)
                       : gpt_tokens_open(&tokens, o->data, failure);
    if (!code && tokens.count == 0)
        code = gpt_fail(failure, EXIT_FAILED, "the data '%s' is empty", o->data);
    if (!code)
        code = gpt_megatron_write(&tokens, o->make_data, failure);
    if (!code)
        printf("%zu tokens of type %s in %zu document%s: %s.bin, %s.idx\n", tokens.count,
               gpt_token_types[tokens.type].name, tokens.documents, plural(tokens.documents, "s"), o->make_data,
               o->make_data);
    gpt_tokens_close(&tokens);
    return code;
}
