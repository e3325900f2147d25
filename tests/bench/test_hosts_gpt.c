/* SPDX-License-Identifier: Apache-2.0 */
/* A training on hosts gives the losses of one process, and the same bits whatever the size of buckets. */
#include <stdlib.h>

#include "harness/json.h"
#include "harness/test.h"
#include "spawn.h"

enum { STEPS = 3, NOT_PERMITTED = 77 };

typedef struct course {
    double loss[STEPS];
    char hash[32];
} course;

#define GPT                                                                                                         \
    "gpt", "--mock-data", "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", \
        "64", "--train-iters", "3", "--global-batch-size", "8", "--micro-batch-size", "2", "--json", "-"

static void take_line(course *c, const char *line)
{
    char message[128];
    json *j = json_parse(line, message, sizeof message);
    CHECK_MSG(j, "%s: %s", message, line);
    int64_t step = json_int(json_get(j, "step"), 0);
    if (step >= 1 && step <= STEPS)
        c->loss[step - 1] = json_real(json_get(j, "loss"), -1);
    snprintf(c->hash, sizeof c->hash, "%s", json_text(json_get(json_get(j, "summary"), "weights_hash"), c->hash));
    json_free(j);
}

/* Rank 0 prints a line a step, and a summary. */
static course train(const char *const *arguments)
{
    course c = {.loss = {-1, -1, -1}};
    spawned r = spawn_weft(NULL, arguments);
    int code = spawn_finish(&r);
    if (code == NOT_PERMITTED)
        test_skip("%s", r.complained.data);
    CHECK_MSG(code == 0, "code %d: %s", code, r.complained.data);
    for (char *line = strtok(r.said.data, "\n"); line; line = strtok(NULL, "\n")) {
        line += strncmp(line, "[0] ", 4) == 0 ? 4 : 0;
        if (*line == '{')
            take_line(&c, line);
    }
    spawn_forget(&r);
    return c;
}

#define HOSTS(...)                                                                                            \
    train((const char *const[]){"hosts", "--hosts", "2", "--ranks-per-host", "2", "--", spawn_command(), GPT, \
                                "--overlap-grad-reduce", "--overlap-param-gather", __VA_ARGS__, NULL})

static void check_like(const course *c, const course *one)
{
    for (int i = 0; i < STEPS; i++)
        CHECK_NEAR(c->loss[i], one->loss[i], 1e-4);
}

TEST(hosts_learn_what_one_process_learns)
{
    course one = train((const char *const[]){GPT, NULL});
    course small = HOSTS("--ddp-bucket-size", "5000"), large = HOSTS("--ddp-bucket-size", "10000000");
    course tensor = HOSTS("--tensor-model-parallel-size", "2");
    course pipeline = HOSTS("--pipeline-model-parallel-size", "2");
    CHECK(one.loss[0] > 1 && one.loss[2] < one.loss[0]);
    check_like(&small, &one);
    check_like(&tensor, &one);
    check_like(&pipeline, &one);
    CHECK(*small.hash);
    CHECK_STR(small.hash, large.hash);
    for (int i = 0; i < STEPS; i++)
        CHECK(small.loss[i] == large.loss[i]);
}
