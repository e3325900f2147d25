/* SPDX-License-Identifier: Apache-2.0 */
/* Divides data into its two parts and its documents, and cuts samples out of it. */
#include "gpt/data.h"

#include <stdlib.h>

#include "complain.h"
#include "gpt/random.h"
#include "gpt/text.h"

/* ---- opening ---- */

static int divide(gpt_data *data, const char *name, double share, gpt_failure *failure)
{
    size_t count = data->tokens.count, held_out = (size_t)((double)count * share);
    data->train = count - held_out;
    size_t least = data->train < held_out || share <= 0 ? data->train : held_out;
    if (count == 0)
        return gpt_fail(failure, EXIT_FAILED, "the data '%s' is empty", name);
    if (least <= data->sequence)
        return gpt_fail(failure, EXIT_FAILED,
                        "the data '%s' is too short: %zu %ss to train on and %zu held out, but a sample has %zu", name,
                        data->train, data->tokens.unit, held_out, data->sequence + 1);
    return 0;
}

static int check_tokens(const gpt_tokens *tokens, const char *name, size_t vocabulary, gpt_failure *failure)
{
    const gpt_token_type *type = &gpt_token_types[tokens->type];
    if (!type->is_signed && vocabulary >> (8 * type->bytes)) /* no such token can be outside: no need to read them */
        return 0;
    for (size_t i = 0; i < tokens->count; i++) {
        int64_t token = gpt_tokens_at(tokens, i);
        if (token < 0 || (uint64_t)token >= vocabulary)
            return gpt_fail(failure, EXIT_FAILED, "the data '%s' has %s %lld at %zu, outside a vocabulary of %zu", name,
                            tokens->unit, (long long)token, i, vocabulary);
    }
    return 0;
}

static void add_piece(gpt_data *data, size_t source, size_t count)
{
    size_t begin = data->piece_count ? data->pieces[data->piece_count - 1].end : 0;
    if (count > 0)
        data->pieces[data->piece_count++] = (gpt_data_piece){begin, begin + count, source};
}

/* Each document as far as it is trained on; then what is held out. */
static int lay_out(gpt_data *data, gpt_failure *failure)
{
    gpt_random stream = gpt_random_stream(data->seed, "document order");
    size_t documents = data->tokens.is_text ? 1 : data->tokens.documents, *ends = data->tokens.ends;
    ends[documents - 1] = data->tokens.count; /* of text, one document out of all */
    data->pieces = calloc(documents + 1, sizeof *data->pieces);
    if (!data->pieces)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the order of %zu documents", documents);
    for (size_t i = 0; i < documents; i++) {
        size_t document = (size_t)gpt_random_shuffled(stream, 0, i, documents);
        size_t begin = document ? ends[document - 1] : 0, end = ends[document];
        end = end < data->train ? end : data->train;
        add_piece(data, begin, end > begin ? end - begin : 0);
    }
    add_piece(data, data->train, data->tokens.count - data->train);
    return 0;
}

static int open_tokens(gpt_data *data, const gpt_data_config *config, gpt_failure *failure)
{
    return config->path ? gpt_tokens_open(&data->tokens, config->path, failure)
                        : gpt_text_mock(&data->tokens, config->mock_bytes, config->seed, config->vocabulary, failure);
}

int gpt_data_open(gpt_data *data, const gpt_data_config *config, gpt_failure *failure)
{
    const char *name = config->path ? config->path : "made up";
    *data = (gpt_data){.sequence = config->sequence, .seed = config->seed};
    int code = open_tokens(data, config, failure);
    if (!code)
        code = divide(data, name, config->held_out, failure);
    if (!code)
        code = check_tokens(&data->tokens, name, config->vocabulary, failure);
    if (!code)
        code = lay_out(data, failure);
    if (code)
        gpt_data_close(data);
    return code;
}

void gpt_data_close(gpt_data *data)
{
    gpt_tokens_close(&data->tokens);
    free(data->pieces);
    *data = (gpt_data){0};
}

/* ---- samples ---- */

/* One less than fit, so that there is room to begin elsewhere in each epoch; but at least one. */
size_t gpt_data_epoch(const gpt_data *data)
{
    size_t samples = (data->train - data->sequence) / data->sequence;
    return samples ? samples : 1;
}

size_t gpt_data_position(const gpt_data *data, uint64_t number)
{
    size_t samples = gpt_data_epoch(data), room = data->train - samples * data->sequence;
    uint64_t epoch = number / samples;
    uint64_t first = gpt_random_below(gpt_random_stream(data->seed, "epoch begins"), 0, epoch, room);
    uint64_t place =
        gpt_random_shuffled(gpt_random_stream(data->seed, "sample order"), epoch, number % samples, samples);
    return (size_t)(first + place * data->sequence);
}

size_t gpt_data_held_out_count(const gpt_data *data)
{
    size_t held_out = data->tokens.count - data->train;
    return held_out ? (held_out - 1) / data->sequence : 0; /* the last token of a sample is the first of the next */
}

size_t gpt_data_held_out_position(const gpt_data *data, size_t sample)
{
    return data->train + sample * data->sequence;
}

static const gpt_data_piece *find_piece(const gpt_data *data, size_t place)
{
    size_t low = 0, high = data->piece_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (place < data->pieces[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return &data->pieces[low];
}

void gpt_data_sample(const gpt_data *data, size_t position, size_t column, size_t columns, int32_t *inputs,
                     int32_t *targets)
{
    const gpt_data_piece *piece = find_piece(data, position);
    for (size_t i = 0; i <= data->sequence; i++) {
        size_t place = position + i;
        piece += place == piece->end;
        int32_t token = (int32_t)gpt_tokens_at(&data->tokens, piece->source + (place - piece->begin));
        if (i < data->sequence)
            inputs[i * columns + column] = token;
        if (i > 0)
            targets[(i - 1) * columns + column] = token;
    }
}
