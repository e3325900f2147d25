/* SPDX-License-Identifier: Apache-2.0 */
/* Which files make the text, and which samples are drawn from it. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpt/text.h"
#include "harness/test.h"

static char folder[64];

static void put(const char *name, const char *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(bytes, file) >= 0 && fclose(file) == 0);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_gpt_text.XXXXXX");
    CHECK(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

TEST(a_folder_is_its_files_in_the_order_of_their_names)
{
    gpt_text text;
    gpt_failure failure;
    make_folder();
    put("b", "second ");
    put("a", "first ");
    put("C", "capital ");
    put(".hidden", "dot ");
    CHECK(mkdir(in_folder("folder"), 0700) == 0);
    CHECK(symlink("a", in_folder("z")) == 0);
    CHECK(gpt_text_open(&text, folder, 0, 4, 256, &failure) == 0);
    CHECK_INT(text.count, 25);
    CHECK(memcmp(text.bytes, "dot capital first second ", 25) == 0);
    gpt_text_close(&text);
    remove_folder();
}

TEST(a_link_that_is_named_is_followed)
{
    gpt_text text;
    gpt_failure failure;
    make_folder();
    put("a", "0123456789");
    CHECK(symlink("a", in_folder("z")) == 0);
    CHECK(gpt_text_open(&text, in_folder("z"), 0, 4, 256, &failure) == 0);
    CHECK_INT(text.count, 10);
    gpt_text_close(&text);
    remove_folder();
}

TEST(what_cannot_be_used_is_named)
{
    gpt_text text;
    gpt_failure failure;
    make_folder();
    CHECK_INT(gpt_text_open(&text, in_folder("missing"), 0, 4, 256, &failure), 1);
    CHECK_HAS(failure.text, "missing': No such file");
    CHECK_INT(gpt_text_open(&text, folder, 0, 4, 256, &failure), 1);
    CHECK_HAS(failure.text, folder);
    CHECK_HAS(failure.text, "is empty");
    put("short", "0123456789");
    CHECK_INT(gpt_text_open(&text, in_folder("short"), 0, 10, 256, &failure), 1);
    CHECK_HAS(failure.text, "too short: 10 bytes to train on and 0 held out, but a sample has 11");
    CHECK_INT(gpt_text_open(&text, in_folder("short"), 0.3, 4, 256, &failure), 1);
    CHECK_HAS(failure.text, "7 bytes to train on and 3 held out, but a sample has 5");
    put("wide", "abcdefgh\xc3\xa4");
    CHECK_INT(gpt_text_open(&text, in_folder("wide"), 0, 4, 128, &failure), 1);
    CHECK_HAS(failure.text, "byte 195 at 8, outside a vocabulary of 128");
    CHECK(text.bytes == NULL);
    if (geteuid() != 0) {
        CHECK(chmod(in_folder("short"), 0) == 0);
        CHECK_INT(gpt_text_open(&text, folder, 0, 4, 256, &failure), 1);
        CHECK_HAS(failure.text, "short': Permission denied");
    }
    remove_folder();
}

TEST(a_sample_is_bytes_side_by_side_and_each_next_one_is_the_target)
{
    gpt_text text = {.bytes = (unsigned char *)"abcdefghij", .count = 10, .train = 10, .sequence = 3};
    int32_t inputs[6] = {0}, targets[6] = {0};
    gpt_text_sample(&text, 2, 0, 2, inputs, targets);
    gpt_text_sample(&text, 6, 1, 2, inputs, targets);
    const int32_t want_inputs[] = {'c', 'g', 'd', 'h', 'e', 'i'}, want_targets[] = {'d', 'h', 'e', 'i', 'f', 'j'};
    CHECK(memcmp(inputs, want_inputs, sizeof inputs) == 0);
    CHECK(memcmp(targets, want_targets, sizeof targets) == 0);
}

TEST(samples_reach_every_place_and_never_the_held_out_part)
{
    enum { TRAIN = 20, SEQUENCE = 7 };
    gpt_text text = {.count = 40, .train = TRAIN, .sequence = SEQUENCE};
    int seen[TRAIN] = {0};
    for (uint64_t step = 0; step < 50; step++)
        for (uint64_t sample = 0; sample < 20; sample++)
            seen[gpt_text_position(&text, 1234, step, sample)]++;
    for (size_t i = 0; i < TRAIN; i++)
        CHECK_MSG((seen[i] > 0) == (i + SEQUENCE + 1 <= TRAIN), "place %zu is taken %d times", i, seen[i]);
    CHECK(gpt_text_position(&text, 1234, 7, 3) == gpt_text_position(&text, 1234, 7, 3));
}

TEST(the_held_out_part_is_covered_once)
{
    gpt_text text = {.count = 100, .train = 79, .sequence = 5};
    CHECK_INT(gpt_text_held_out_count(&text), 4); /* 21 bytes: 20 targets */
    CHECK_INT(gpt_text_held_out_position(&text, 0), 79);
    CHECK_INT(gpt_text_held_out_position(&text, 3) + 5 + 1, 100);
    text.train = 100;
    CHECK_INT(gpt_text_held_out_count(&text), 0);
}

TEST(the_made_up_text_follows_from_its_seed)
{
    gpt_text a, b, c;
    gpt_failure failure;
    CHECK(gpt_text_mock(&a, 10000, 1, 0.05, 128, 256, &failure) == 0);
    CHECK(gpt_text_mock(&b, 10000, 1, 0.05, 128, 256, &failure) == 0);
    CHECK(gpt_text_mock(&c, 10000, 2, 0.05, 128, 50, &failure) == 0);
    CHECK_INT(a.train, 9500);
    CHECK(memcmp(a.bytes, b.bytes, 10000) == 0 && memcmp(a.bytes, c.bytes, 10000) != 0);
    gpt_text_close(&a);
    gpt_text_close(&b);
    gpt_text_close(&c);
}
