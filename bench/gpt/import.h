/* SPDX-License-Identifier: Apache-2.0 */
/* `weft gpt --make-data`: data as Megatron's pair of files. */
#ifndef WEFT_BENCH_GPT_IMPORT_H
#define WEFT_BENCH_GPT_IMPORT_H
#include "gpt/options.h"

/* Write the data that the options name, and say what was written on stdout. */
int gpt_import(const gpt_options *options, gpt_failure *failure);

#endif
