/* SPDX-License-Identifier: Apache-2.0 */
/* Trainings of a tiny model as tests run them, and what came of them: read from the JSON they write. */
#ifndef WEFT_TESTS_BENCH_GPT_TRAINING_H
#define WEFT_TESTS_BENCH_GPT_TRAINING_H
#include "harness/json.h"

enum { TRAINING_STEPS = 400 };

typedef struct training {
    int code;  /* the exit code */
    int steps; /* how many lines there are */
    double loss[TRAINING_STEPS], norm[TRAINING_STEPS];
    json *lines[TRAINING_STEPS], *summary; /* the summary itself */
} training;

/* The flags of the tiny model, with a text of its own: four layers, 32 wide; 16 samples of 16 bytes a step. */
const char *training_model(void);
/* Train it on thread ranks of this process, with more flags. */
training training_on_threads(int ranks, const char *flags);
/* Train it by the built command: `weft run @p how -- weft gpt ...`. */
training training_by_command(const char *how, const char *flags);
void training_forget(training *t);

/* A summary's text or number; fails if it is not there. */
const char *training_text(const training *t, const char *key);
double training_number(const training *t, const char *key);

/* A file in a folder that is removed at the end of the test. Static text. */
const char *training_file(const char *name);

#endif
