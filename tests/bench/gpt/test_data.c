/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples are taken from data: every place, in every epoch once, and each document in one piece. */
#include <stdlib.h>
#include <unistd.h>

#include "gpt/data.h"
#include "gpt/text.h"
#include "harness/test.h"

/* A row of one document that is all to train on. */
static gpt_data whole(const char *bytes, size_t count, size_t sequence, gpt_data_piece *piece)
{
    *piece = (gpt_data_piece){0, count, 0};
    return (gpt_data){.tokens = {.bytes = (const unsigned char *)bytes, .count = count, .type = GPT_TOKEN_U8},
                      .train = count,
                      .sequence = sequence,
                      .seed = 1234,
                      .pieces = piece,
                      .piece_count = 1};
}

static void put(char path[32], const char *bytes)
{
    snprintf(path, 32, "/tmp/test_gpt_data.XXXXXX");
    FILE *file = fdopen(mkstemp(path), "w");
    CHECK(file && fputs(bytes, file) >= 0 && fclose(file) == 0);
}

TEST(a_sample_is_tokens_side_by_side_and_each_next_one_is_the_target)
{
    gpt_data_piece piece;
    gpt_data data = whole("abcdefghij", 10, 3, &piece);
    int32_t inputs[6] = {0}, targets[6] = {0};
    gpt_data_sample(&data, 2, 0, 2, inputs, targets);
    gpt_data_sample(&data, 6, 1, 2, inputs, targets);
    const int32_t want_inputs[] = {'c', 'g', 'd', 'h', 'e', 'i'}, want_targets[] = {'d', 'h', 'e', 'i', 'f', 'j'};
    CHECK(memcmp(inputs, want_inputs, sizeof inputs) == 0);
    CHECK(memcmp(targets, want_targets, sizeof targets) == 0);
}

TEST(samples_reach_every_place_and_never_the_held_out_part)
{
    for (size_t sequence = 1; sequence < 10; sequence++)
        for (size_t train = sequence + 1; train < 40; train += 3) {
            gpt_data data = {.tokens = {.count = 60}, .train = train, .sequence = sequence, .seed = 1234};
            int seen[40] = {0};
            for (uint64_t number = 0; number < 4000; number++)
                seen[gpt_data_position(&data, number)]++;
            for (size_t i = 0; i < train; i++)
                CHECK_MSG((seen[i] > 0) == (i + sequence + 1 <= train), "place %zu of %zu is taken %d times", i, train,
                          seen[i]);
        }
}

TEST(an_epoch_takes_every_sample_once_and_the_next_in_another_order)
{
    enum { EPOCHS = 5, MOST = 300 };
    gpt_data data = {.tokens = {.count = 2000}, .train = 2000, .sequence = 7, .seed = 99};
    size_t samples = gpt_data_epoch(&data), alike = 0, first[MOST];
    CHECK_INT(samples, (2000 - 7) / 7);
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool seen[2000] = {false};
        for (size_t i = 0; i < samples; i++) {
            size_t at = gpt_data_position(&data, epoch * samples + i);
            for (size_t k = 0; k < 7; k++) {
                CHECK_MSG(!seen[at + k], "input %zu comes twice in epoch %zu", at + k, epoch);
                seen[at + k] = true;
            }
            first[i] = epoch ? first[i] : at;
            alike += epoch > 0 && first[i] == at;
        }
    }
    CHECK_MSG(alike < samples / 10, "%zu samples are where they were", alike);
}

TEST(another_seed_gives_other_samples)
{
    gpt_data a = {.train = 5000, .sequence = 4, .seed = 1}, b = {.train = 5000, .sequence = 4, .seed = 2};
    int alike = 0;
    for (uint64_t i = 0; i < 1000; i++)
        alike += gpt_data_position(&a, i) == gpt_data_position(&b, i);
    CHECK_MSG(alike < 10, "%d of 1000 alike", alike);
}

TEST(the_held_out_part_is_covered_once)
{
    gpt_data data = {.tokens = {.count = 100}, .train = 79, .sequence = 5};
    CHECK_INT(gpt_data_held_out_count(&data), 4); /* 21 bytes: 20 targets */
    CHECK_INT(gpt_data_held_out_position(&data, 0), 79);
    CHECK_INT(gpt_data_held_out_position(&data, 3) + 5 + 1, 100);
    data.train = 100;
    CHECK_INT(gpt_data_held_out_count(&data), 0);
}

/* Documents 0, 11, 222, ... as Megatron's files; what is held out begins within the last. */
TEST(documents_are_put_in_an_order_by_chance_and_stay_whole)
{
    enum { DOCUMENTS = 9, COUNT = DOCUMENTS * (DOCUMENTS + 1) / 2, HELD_OUT = 4 };
    unsigned char bytes[COUNT];
    size_t ends[DOCUMENTS], at = 0;
    char stem[48] = "/tmp/test_gpt_data.XXXXXX", idx[64], bin[64];
    gpt_failure failure;
    for (size_t i = 0; i < DOCUMENTS; ends[i++] = at)
        for (size_t k = 0; k <= i; k++)
            bytes[at++] = (unsigned char)i;
    const gpt_tokens tokens = {
        .bytes = bytes, .count = COUNT, .type = GPT_TOKEN_U8, .ends = ends, .documents = DOCUMENTS};
    CHECK(close(mkstemp(stem)) == 0 && unlink(stem) == 0);
    CHECK_MSG(gpt_megatron_write(&tokens, stem, &failure) == 0, "%s", failure.text);
    bool moved = false;
    for (uint64_t seed = 1; seed < 6; seed++) {
        gpt_data data;
        int32_t inputs[COUNT], targets[COUNT];
        const gpt_data_config config = {stem, 0, seed, (HELD_OUT + 0.5) / COUNT, 2, 256};
        CHECK_MSG(gpt_data_open(&data, &config, &failure) == 0, "%s", failure.text);
        CHECK_INT(data.train, COUNT - HELD_OUT);
        int runs[DOCUMENTS] = {0}, counts[DOCUMENTS] = {0}, last = -1;
        data.sequence = data.train - 1;
        gpt_data_sample(&data, 0, 0, 1, inputs, targets);
        for (size_t i = 0; i + 1 < data.train; i++) {
            runs[inputs[i]] += inputs[i] != last;
            counts[inputs[i]]++;
            CHECK(i == 0 || targets[i - 1] == inputs[i]);
            last = inputs[i];
        }
        counts[targets[data.train - 2]]++;
        for (int i = 0; i < DOCUMENTS; i++) {
            CHECK_MSG(runs[i] <= 1, "document %d is in %d pieces", i, runs[i]);
            CHECK_INT(counts[i], i + 1 - (i == DOCUMENTS - 1 ? HELD_OUT : 0));
        }
        moved = moved || inputs[0] != 0;
        data.sequence = HELD_OUT - 1;
        gpt_data_sample(&data, data.train, 0, 1, inputs, targets);
        for (int i = 0; i < HELD_OUT - 1; i++)
            CHECK(inputs[i] == DOCUMENTS - 1 && targets[i] == DOCUMENTS - 1);
        gpt_data_close(&data);
    }
    CHECK(moved);
    snprintf(idx, sizeof idx, "%s.idx", stem), snprintf(bin, sizeof bin, "%s.bin", stem);
    CHECK(unlink(idx) == 0 && unlink(bin) == 0);
}

TEST(what_cannot_be_used_is_named)
{
    static const struct {
        const char *bytes;
        double held_out;
        size_t sequence, vocabulary;
        const char *says;
    } cases[] = {
        {"", 0, 4, 256, "is empty"},
        {"0123456789", 0, 10, 256, "too short: 10 bytes to train on and 0 held out, but a sample has 11"},
        {"0123456789", 0.3, 4, 256, "7 bytes to train on and 3 held out, but a sample has 5"},
        {"abcdefgh\xc3\xa4", 0, 4, 128, "byte 195 at 8, outside a vocabulary of 128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[32];
        gpt_data data;
        gpt_failure failure;
        put(path, cases[i].bytes);
        const gpt_data_config config = {path, 0, 1, cases[i].held_out, cases[i].sequence, cases[i].vocabulary};
        CHECK_INT(gpt_data_open(&data, &config, &failure), 1);
        CHECK_HAS(failure.text, path);
        CHECK_HAS(failure.text, cases[i].says);
        CHECK(data.tokens.bytes == NULL && data.pieces == NULL);
        CHECK(unlink(path) == 0);
    }
}
