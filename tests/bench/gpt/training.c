/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tiny model, in this process or by the built command, and reads the JSON it leaves. */
#include "training.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "../spawn.h"
#include "gpt/train.h"
#include "harness/test.h"

enum { WORDS = 120, TEXT = 6000 };

static char folder[] = "/tmp/weft-test-gpt-XXXXXX";
static bool made;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *training_file(const char *name)
{
    static char paths[8][96];
    static int used;
    if (!made) {
        CHECK(mkdtemp(folder));
        CHECK(atexit(remove_folder) == 0);
        made = true;
    }
    char *path = paths[used++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Words by a formula, so that there is something to learn. */
static const char *text_file(void)
{
    static const char *const words[] = {"warp ", "weft ", "loom ", "thread ", "shuttle ", "cloth "};
    static char path[96];
    if (*path)
        return path;
    snprintf(path, sizeof path, "%s", training_file("text"));
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (unsigned i = 0, state = 1; i < TEXT / 6; i++) {
        state = state * 1103515245 + 12345;
        fputs(words[(state >> 16) % 6], file);
    }
    fclose(file);
    return path;
}

const char *training_model(void)
{
    static char flags[512];
    snprintf(flags, sizeof flags,
             "--num-layers 4 --hidden-size 32 --ffn-hidden-size 64 --num-attention-heads 4 --seq-length 16 "
             "--make-vocab-size-divisible-by 64 --micro-batch-size 2 --global-batch-size 16 --train-iters 20 --lr 3e-3 "
             "--min-lr 1e-4 "
             "--lr-warmup-iters 4 --clip-grad 0.8 --data %s",
             text_file());
    return flags;
}

/* ---- what came of it ---- */

static void take_line(training *t, char *text)
{
    char message[128];
    json *line = json_parse(text, message, sizeof message);
    CHECK_MSG(line, "'%s': %s", text, message);
    CHECK_MSG(!t->summary, "there is something behind the summary: %s", text);
    if (json_get(line, "summary")) {
        t->lines[t->steps] = line; /* freed with the rest */
        t->summary = json_get(line, "summary");
        return;
    }
    CHECK_INT(json_int(json_get(line, "step"), -1), t->steps + 1);
    CHECK(t->steps < TRAINING_STEPS - 1);
    t->lines[t->steps] = line;
    t->loss[t->steps] = json_real(json_get(line, "loss"), (double)NAN);
    t->norm[t->steps] = json_real(json_get(line, "grad_norm"), (double)NAN);
    t->steps++;
}

static void read_json(training *t, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (getline(&text, &room, file) > 0)
        take_line(t, text);
    free(text);
    fclose(file);
    unlink(path);
}

void training_forget(training *t)
{
    for (int i = 0; i < TRAINING_STEPS; i++)
        json_free(t->lines[i]);
}

const char *training_text(const training *t, const char *key)
{
    const char *text = json_text(json_get(t->summary, key), NULL);
    CHECK_MSG(text, "the summary has no text '%s'", key);
    return text;
}

double training_number(const training *t, const char *key)
{
    double number = json_real(json_get(t->summary, key), (double)NAN);
    CHECK_MSG(!isnan(number), "the summary has no number '%s'", key);
    return number;
}

/* ---- the ways to run it ---- */

static int add_words(char *text, char **argv, int argc)
{
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        CHECK(argc < WORDS - 1);
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return argc;
}

/* Standard output is the tests'. */
static void be_silent(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
    close(nowhere);
}

training training_on_threads(int ranks, const char *flags)
{
    training t = {0};
    gpt_run run = {0};
    char line[1024], *argv[WORDS] = {(char *)"gpt"};
    const char *path = training_file("json");
    snprintf(line, sizeof line, "%s --json %s %s", training_model(), path, flags);
    int argc = add_words(line, argv, 1);
    be_silent();
    gpt_options_read(&run.options, argc, argv, &run.failure);
    if (run.failure.code)
        FAIL("%s", run.failure.text);
    weft_world_config config = gpt_train_world(&run);
    weft_result result = weft_team_run(ranks, &config, gpt_train, &run);
    CHECK_MSG((result == WEFT_OK) == (run.code == 0), "the team's result is %s, the code %d",
              weft_result_string(result), run.code);
    t.code = run.code;
    read_json(&t, path);
    return t;
}

training training_by_command(const char *how, const char *flags)
{
    training t = {0};
    char line[1024], launch[128], *argv[WORDS] = {(char *)"run"};
    const char *path = training_file("json");
    snprintf(launch, sizeof launch, "%s --", how);
    int argc = add_words(launch, argv, 1);
    argv[argc++] = (char *)spawn_command();
    snprintf(line, sizeof line, "gpt %s --json %s %s", training_model(), path, flags);
    add_words(line, argv, argc);
    spawned r = spawn_weft(NULL, (const char *const *)argv);
    t.code = spawn_finish(&r);
    if (t.code)
        test_note("%.300s", r.complained.data);
    spawn_forget(&r);
    read_json(&t, path);
    return t;
}
