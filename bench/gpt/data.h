/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that training and evaluation take, whatever the data is. A sample is sequence + 1 tokens side by side:
 * each but the last is an input, and the one behind it its target.
 *
 * The tokens in front are trained on, those at the end are held out. The documents of the former are put in an order
 * by chance, and read as one long row. An epoch cuts the row in samples, from a place by chance, and takes them in an
 * order by chance; the next epoch cuts elsewhere. Text is one document: what is side by side in a sample was so in it.
 * All of that follows from the seed and the number of a sample: no rank or layout is asked, and nothing is kept. */
#ifndef WEFT_BENCH_GPT_DATA_H
#define WEFT_BENCH_GPT_DATA_H
#include "gpt/tokens.h"

typedef struct gpt_data_config {
    const char *path;  /* of gpt_tokens_open(); NULL: a made-up text of ... */
    size_t mock_bytes; /* ... that many */
    uint64_t seed;
    double held_out; /* the share at the end */
    size_t sequence, vocabulary;
} gpt_data_config;

/* Tokens [begin, end) of the row lie side by side, from token `source` on. */
typedef struct gpt_data_piece {
    size_t begin, end, source;
} gpt_data_piece;

typedef struct gpt_data {
    gpt_tokens tokens;
    size_t train, sequence; /* the row's places 0 ... train - 1 are trained on, the rest is held out */
    uint64_t seed;
    gpt_data_piece *pieces; /* from place 0 to the last */
    size_t piece_count;
} gpt_data;

/* Open the data, and see that it has a sample in each part and no token outside of the vocabulary. */
int gpt_data_open(gpt_data *data, const gpt_data_config *config, gpt_failure *failure);
void gpt_data_close(gpt_data *data);

/* How many samples an epoch has, and where in the row sample @p number of the training begins. */
size_t gpt_data_epoch(const gpt_data *data);
size_t gpt_data_position(const gpt_data *data, uint64_t number);
/* The samples of the held-out part, one behind the other: how many there are, and where one begins. */
size_t gpt_data_held_out_count(const gpt_data *data);
size_t gpt_data_held_out_position(const gpt_data *data, size_t sample);

/* Put the sample at @p position in column @p column of the [sequence][columns] arrays of inputs and targets. */
void gpt_data_sample(const gpt_data *data, size_t position, size_t column, size_t columns, int32_t *inputs,
                     int32_t *targets);

#endif
