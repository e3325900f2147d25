/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings on token files: from the same bytes the same to the bit, and the same in every layout. */
#include <stdlib.h>
#include <sys/stat.h>

#include "../spawn.h"
#include "gpt/tokens.h"
#include "harness/test.h"
#include "training.h"

/* `weft gpt --make-data OUT --data FROM`; what it says. */
static void import(const char *from, const char *out, const char *says)
{
    spawned r = spawn_weft(NULL, (const char *const[]){"gpt", "--make-data", out, "--data", from, NULL});
    CHECK_MSG(spawn_finish(&r) == 0, "%s", r.complained.data);
    CHECK_HAS(r.said.data, says);
    CHECK_STR(r.complained.data, "");
    spawn_forget(&r);
}

static void put(const char *path, const char *word, int times)
{
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (int i = 0; i < times; i++)
        CHECK(fprintf(file, "%s %d, ", word, i * i) > 0);
    CHECK(fclose(file) == 0);
}

static void check_same(const training *a, const training *b)
{
    CHECK(a->code == 0 && b->code == 0 && a->steps == b->steps && a->steps > 0);
    for (int i = 0; i < a->steps; i++)
        CHECK_MSG(a->loss[i] == b->loss[i] && a->norm[i] == b->norm[i], "step %d: %.9g, %.9g", i + 1, a->loss[i],
                  b->loss[i]);
    CHECK_STR(training_text(a, "weights_hash"), training_text(b, "weights_hash"));
    CHECK(training_number(a, "loss_held_out") == training_number(b, "loss_held_out"));
}

TEST_LIMIT(a_text_and_its_tokens_train_alike_to_the_bit, 120)
{
    char flags[128], out[96], says[256];
    (void)training_model(); /* the text is there */
    snprintf(out, sizeof out, "%s", training_file("imported"));
    snprintf(says, sizeof says, " tokens of type u8 in 1 document: %s.bin, %s.idx\n", out, out);
    import(training_file("text"), out, says);
    snprintf(flags, sizeof flags, "--data %s", out);
    training text = training_on_threads(1, ""), tokens = training_on_threads(1, flags);
    check_same(&text, &tokens);
    training_forget(&text);
    training_forget(&tokens);
    text = training_on_threads(2, ""), tokens = training_on_threads(2, flags);
    check_same(&text, &tokens);
    training_forget(&text);
    training_forget(&tokens);
}

/* Documents are put in another order, which every rank must find by itself. */
TEST_LIMIT(documents_train_alike_in_every_layout, 120)
{
    static const char *const layouts[] = {"", "--tensor-model-parallel-size 2 --sequence-parallel",
                                          "--pipeline-model-parallel-size 2"};
    char flags[256], out[96], folder[96];
    snprintf(folder, sizeof folder, "%s", training_file("documents"));
    snprintf(out, sizeof out, "%s", training_file("imported"));
    CHECK(mkdir(folder, 0700) == 0);
    put(training_file("documents/a"), "warp", 100);
    put(training_file("documents/b"), "weft", 300);
    put(training_file("documents/c"), "shuttle", 50);
    import(folder, out, " in 3 documents: ");
    snprintf(flags, sizeof flags, "--data %s", out);
    training alone = training_on_threads(1, flags);
    CHECK_INT(alone.code, 0);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        snprintf(flags, sizeof flags, "--data %s %s", out, layouts[i]);
        training t = training_on_threads(2, flags), again = training_on_threads(2, flags);
        check_same(&t, &again);
        for (int k = 0; k < alone.steps; k++)
            CHECK_MSG(fabs(t.loss[k] - alone.loss[k]) <= 1e-4 * alone.loss[k], "'%s', step %d: %.9g, not %.9g",
                      layouts[i], k + 1, t.loss[k], alone.loss[k]);
        training_forget(&t);
        training_forget(&again);
    }
    training_forget(&alone);
}

/* Tokens of 16 bits, one too high, on four ranks: one line, and the code of a run that failed. */
TEST(tokens_that_cannot_be_used_are_named_once)
{
    static const unsigned char bytes[2 * 64] = {[2 * 61] = 0x2c, [2 * 61 + 1] = 1};
    size_t end = 64;
    gpt_tokens tokens = {.bytes = bytes, .count = 64, .type = GPT_TOKEN_U16, .ends = &end, .documents = 1};
    gpt_failure failure;
    char out[96], says[256];
    snprintf(out, sizeof out, "%s", training_file("high"));
    CHECK_MSG(gpt_megatron_write(&tokens, out, &failure) == 0, "%s", failure.text);
    spawned r = spawn_weft(NULL, (const char *const[]){"run", "-n", "4", "--threads", "--", spawn_command(), "gpt",
                                                       "--data-path", out, "--seq-length", "8", "--split", "1", NULL});
    CHECK_INT(spawn_finish(&r), 1);
    snprintf(says, sizeof says, "weft: the data '%s' has token 300 at 61, outside a vocabulary of 256\n", out);
    CHECK_HAS(r.complained.data, says);
    CHECK_INT(spawn_count(r.complained.data, "vocabulary"), 1);
    CHECK_STR(r.said.data, "");
    spawn_forget(&r);
}

TEST(launched_ranks_write_the_files_once)
{
    char out[96];
    (void)training_model(); /* the text is there */
    snprintf(out, sizeof out, "%s", training_file("once"));
    spawned r =
        spawn_weft(NULL, (const char *const[]){"run", "-n", "3", "--prefix", "none", "--", spawn_command(), "gpt",
                                               "--make-data", out, "--data", training_file("text"), NULL});
    CHECK_MSG(spawn_finish(&r) == 0, "%s", r.complained.data);
    CHECK_INT(spawn_count(r.said.data, " tokens of type u8 "), 1);
    spawn_forget(&r);
}
