/* SPDX-License-Identifier: Apache-2.0 */
/* How trainings end that cannot begin or go on: one clear line, the right code, and nothing is left. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../spawn.h"
#include "harness/test.h"
#include "training.h"

enum { MOST = 78 };

/* Start `weft` with the words of a line. */
static spawned start(const char *line)
{
    static char text[2048];
    const char *words[MOST];
    int count = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        CHECK(count < MOST - 1);
        words[count++] = word;
    }
    words[count] = NULL;
    return spawn_weft(NULL, words);
}

/* `weft run @p how -- weft gpt @p flags`, or without a how `weft gpt @p flags`, in the tiny model. */
static spawned start_training(const char *how, const char *flags)
{
    char line[1536];
    snprintf(line, sizeof line, "%s%s%s%s gpt %s %s", how ? "run " : "", how ? how : "", how ? " -- " : "",
             how ? spawn_command() : "", training_model(), flags);
    return start(line);
}

static int count_shared_memory(void)
{
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static char *make_file(const char *name, const char *text)
{
    static char paths[4][96];
    static int used;
    char *path = paths[used++ % 4];
    snprintf(path, sizeof paths[0], "%s", training_file(name));
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0);
    fclose(file);
    return path;
}

/* ---- what cannot begin ---- */

static void check_refused(const char *how, const char *flags, int code, const char *says)
{
    int before = count_shared_memory();
    spawned r = start_training(how, flags);
    CHECK_INT(spawn_finish(&r), code);
    CHECK_HAS(r.complained.data, says);
    CHECK_STR(r.said.data, "");
    int lines = spawn_count(r.complained.data, "\n"), of_launcher = how ? 1 : 0; /* "weft: rank 3 ended with code 2" */
    CHECK_MSG(lines == 1 + of_launcher, "%s", r.complained.data);
    CHECK_INT(count_shared_memory(), before);
    spawn_forget(&r);
}

TEST(what_is_wrong_is_said_once_by_whatever_number_of_ranks)
{
    static const char *const ways[] = {NULL, "-n 1", "-n 4", "-n 4 --threads"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        check_refused(ways[i], "--no-such-thing", 2, "weft: unknown option '--no-such-thing'");
        check_refused(ways[i], "--tensor-model-parallel-size 3", 2, "weft: --num-attention-heads 4 does not divide");
        check_refused(ways[i], "--data /no/such/data", 1,
                      "weft: cannot read the data '/no/such/data': No such file or directory");
    }
}

TEST(a_layout_that_does_not_multiply_to_the_world_is_named_with_its_product)
{
    check_refused("-n 6", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", 2,
                  "[0] weft: --tensor-model-parallel-size 2 times --pipeline-model-parallel-size 2 is 4: it does not "
                  "divide a world of 6 ranks");
    check_refused(NULL, "--tensor-model-parallel-size 2", 2, "is 2: it does not divide a world of 1 rank\n");
}

TEST(a_batch_that_does_not_divide_is_named)
{
    check_refused("-n 3", "", 2,
                  "--global-batch-size 16 does not divide by --micro-batch-size 2 times 3 data parallel ranks");
    check_refused(NULL, "--micro-batch-size 3", 2, "by --micro-batch-size 3 times 1 data parallel rank\n");
}

TEST(a_pipeline_that_cannot_be_scheduled_is_named)
{
    check_refused("-n 2",
                  "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                  "--microbatch-group-size-per-virtual-pipeline-stage 7",
                  2, "no schedule for this pipeline: 8 microbatches in groups of 7");
}

TEST(data_that_is_empty_short_or_foreign_is_named)
{
    char flags[128];
    const char *empty = make_file("empty", ""), *brief = make_file("brief", "too short"),
               *foreign = make_file("foreign", "bytes that a small vocabulary does not have, and enough of them: zzzz"
                                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz");
    snprintf(flags, sizeof flags, "--data %s", empty);
    check_refused("-n 2", flags, 1, "empty' is empty\n");
    snprintf(flags, sizeof flags, "--data %s", brief);
    check_refused("-n 2", flags, 1, "brief' is too short: 9 bytes to train on");
    snprintf(flags, sizeof flags, "--data %s --vocab-size 100", foreign);
    check_refused("-n 2", flags, 1, "foreign' has byte 121 at 1, outside a vocabulary of 100\n");
}

TEST(data_that_is_neither_a_file_nor_a_folder_is_named)
{
    char flags[128];
    const char *fifo = training_file("fifo");
    CHECK(mkfifo(fifo, 0600) == 0);
    snprintf(flags, sizeof flags, "--data %s", fifo);
    check_refused("-n 2", flags, 1, "fifo' is neither a file nor a folder\n");
    check_refused("-n 2", "--data /dev/zero", 1, "the data '/dev/zero' is neither a file nor a folder\n");
}

TEST(what_memory_is_too_little_for_is_named)
{
    spawned r = start_training(NULL, "--kv-channels 16777216");
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "\nweft: activations of the model: no memory for ");
    spawn_forget(&r);
}

TEST(a_report_that_cannot_be_written_is_named)
{
    check_refused("-n 2", "--json /no/such/folder/file", 1, "cannot write '/no/such/folder/file': No such file");
    spawned r = start_training("-n 2", "--json /dev/full");
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "[0] weft: cannot write '/dev/full': No space left on device\n");
    spawn_forget(&r);
    spawned full = spawn_weft(&(const spawn_setup){.out = "/dev/full"},
                              (const char *const[]){"gpt", "--mock-data", "--train-iters", "1", NULL});
    CHECK_INT(spawn_finish(&full), 1);
    CHECK_HAS(full.complained.data, "weft: cannot write 'standard output': No space left on device\n");
    spawn_forget(&full);
    spawned both = spawn_weft(&(const spawn_setup){.out = "/dev/full"},
                              (const char *const[]){"gpt", "--mock-data", "--train-iters", "1", "--json", "-", NULL});
    CHECK_INT(spawn_finish(&both), 1);
    CHECK_HAS(both.complained.data, "weft: cannot write 'standard output': No space left on device\n");
    spawn_forget(&both);
}

/* ---- ranks that differ ---- */

/* Every rank runs @p script, in which "$@" is `weft gpt` and its flags. */
static spawned start_script(const char *ranks, const char *script, const char *flags)
{
    static char model[640];
    const char *words[MOST] = {"run", "-n", ranks, "--", "sh", "-c", script, "sh", spawn_command(), "gpt"};
    int count = 10;
    snprintf(model, sizeof model, "%s %s", training_model(), flags);
    for (char *word = strtok(model, " "); word; word = strtok(NULL, " ")) {
        CHECK(count < MOST - 1);
        words[count++] = word;
    }
    words[count] = NULL;
    return spawn_weft(NULL, words);
}

TEST(the_one_rank_that_cannot_read_its_data_says_so)
{
    spawned r = start_script("4", "[ $WEFT_RANK = 2 ] && set -- \"$@\" --data /no/such/data; exec \"$@\"", "");
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "[2] weft: rank 2: cannot read the data '/no/such/data'");
    CHECK_INT(spawn_count(r.complained.data, "\n"), 2);
    spawn_forget(&r);
}

TEST(a_rank_that_was_told_something_else_is_named)
{
    static const struct {
        const char *flags, *says;
        int code;
    } cases[] = {
        {"--seed 99", "[3] weft: rank 3: --seed is not what it is on rank 0\n", 2},
        {"--lr-warmup-iters 5", "[3] weft: rank 3: --lr-warmup-iters is not what it is on rank 0\n", 2},
        {"--no-such-thing", "[3] weft: rank 3: unknown option '--no-such-thing'", 2},
        {"--data /etc/passwd", "[3] weft: rank 3: --data is not what it is on rank 0\n", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char script[160];
        snprintf(script, sizeof script, "[ $WEFT_RANK = 3 ] && set -- \"$@\" %s; exec \"$@\"", cases[i].flags);
        spawned r = start_script("4", script, "--tensor-model-parallel-size 2");
        CHECK_INT(spawn_finish(&r), cases[i].code);
        CHECK_HAS(r.complained.data, cases[i].says);
        CHECK_INT(spawn_count(r.complained.data, "\n"), 2);
        spawn_forget(&r);
    }
}

/* ---- ranks that are lost ---- */

#define ENDLESS "--train-iters 1000000 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "

static const char tell_pid[] = "echo \"rank $WEFT_RANK has pid $$.\"; exec \"$@\"";

static pid_t pid_of_rank(spawned *r, int rank)
{
    char part[32];
    snprintf(part, sizeof part, "rank %d has pid ", rank);
    spawn_read_until(r, part);
    spawn_read_until(r, "step       3/1000000"); /* all are at work */
    return atoi(strstr(r->said.data, part) + strlen(part));
}

TEST(when_a_rank_is_killed_all_others_name_it_and_end)
{
    static const int lost[] = {0, 5};
    int before = count_shared_memory();
    for (int i = 0; i < 2; i++) {
        char says[32];
        spawned r = start_script("8", tell_pid, ENDLESS "--sequence-parallel");
        CHECK(kill(pid_of_rank(&r, lost[i]), SIGKILL) == 0);
        CHECK_INT(spawn_finish(&r), 128 + SIGKILL);
        snprintf(says, sizeof says, "rank %d has ended", lost[i]);
        for (int rank = 0; rank < 8; rank++) {
            char begins[16];
            snprintf(begins, sizeof begins, "\n[%d] weft:", rank);
            const char *line = strstr(r.complained.data, begins);
            for (const char *more = line; more; more = strstr(more + 1, begins))
                line = more; /* rank 0 has said other things before */
            CHECK_MSG(rank == lost[i] || (line && strstr(line, says) && strstr(line, says) < strchr(line + 1, '\n')),
                      "rank %d does not say '%s': %s", rank, says, r.complained.data);
        }
        CHECK_INT(spawn_count(r.complained.data, "has ended"), 7);
        spawn_forget(&r);
    }
    CHECK_INT(count_shared_memory(), before);
}

TEST_LIMIT(a_rank_that_stands_still_is_a_deadline_that_passed, 120)
{
    char flags[160];
    snprintf(flags, sizeof flags, ENDLESS "--distributed-timeout-minutes %g", test_is_slow() ? 0.16 : 0.04);
    spawned r = start_script("4", tell_pid, flags);
    CHECK(kill(pid_of_rank(&r, 3), SIGSTOP) == 0);
    CHECK_INT(spawn_finish(&r), 4);
    CHECK_HAS(r.complained.data, "did not end in");
    CHECK_MSG(strstr(r.complained.data, "not arrived: 3 ") || strstr(r.complained.data, "rank 3 "),
              "rank 3 is not named: %s", r.complained.data);
    spawn_forget(&r);
}
