/* SPDX-License-Identifier: Apache-2.0 */
/* Text as bytes, and the samples that training and evaluation take from it. */
#ifndef WEFT_BENCH_GPT_TEXT_H
#define WEFT_BENCH_GPT_TEXT_H
#include <stddef.h>
#include <stdint.h>

#include "gpt/failure.h"

/* Bytes 0 ... train - 1 are trained on, the rest is held out. A sample is sequence + 1 bytes side by side: each byte
 * but the last is an input, and the byte behind it its target. */
typedef struct gpt_text {
    unsigned char *bytes;
    size_t count, train;
    size_t sequence;
} gpt_text;

/* Read a file, or the files of a folder in the order of their names (symbolic links and folders in it are skipped), as
 * one text. @p held_out: the share of it, at its end, that is kept for evaluation. The text must have a sample in each
 * part and no byte of @p vocabulary or above. */
int gpt_text_open(gpt_text *text, const char *path, double held_out, size_t sequence, size_t vocabulary,
                  gpt_failure *failure);
/* A made-up text of @p count bytes: words in an order by chance, the same for the same seed. */
int gpt_text_mock(gpt_text *text, size_t count, uint64_t seed, double held_out, size_t sequence, size_t vocabulary,
                  gpt_failure *failure);
void gpt_text_close(gpt_text *text);

/* Where sample @p sample of step @p step begins: no other rank or layout is asked. */
size_t gpt_text_position(const gpt_text *text, uint64_t seed, uint64_t step, uint64_t sample);
/* The samples of the held-out part, one behind the other: how many there are, and where one begins. */
size_t gpt_text_held_out_count(const gpt_text *text);
size_t gpt_text_held_out_position(const gpt_text *text, size_t sample);

/* Put the sample at @p position in column @p column of the [sequence][columns] arrays of inputs and targets. */
void gpt_text_sample(const gpt_text *text, size_t position, size_t column, size_t columns, int32_t *inputs,
                     int32_t *targets);

#endif
