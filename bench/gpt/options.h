/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft gpt` can be told, by the names that Megatron users know. */
#ifndef WEFT_BENCH_GPT_OPTIONS_H
#define WEFT_BENCH_GPT_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "complain.h"
#include "gpt/failure.h"
#include "gpt/lr.h"
#include "gpt/shape.h"
#include "gpt/switches.h"
#include "option.h"

enum { GPT_OVERLAP_ON, GPT_OVERLAP_OFF, GPT_OVERLAP_COMPARE }; /* words of --overlap */

enum { GPT_ON_HOST, GPT_ON_CUDA }; /* words of --device */

enum { GPT_AUTO, GPT_FLASH, GPT_FUSED, GPT_UNFUSED, GPT_LOCAL }; /* words of --attention-backend */

enum { GPT_COMPARE_LEAST = 6 }; /* steps: a block of each kind */

/* What computes: nothing but sleep, so long as is said here, or the real thing. */
typedef struct gpt_timed {
    bool is_on;
    double forward_ms, backward_ms, optimizer_ms; /* of a microbatch through a chunk; of a step */
} gpt_timed;

typedef struct gpt_options {
    /* the model */
    int layers, hidden, ffn, heads, groups, channels, sequence, longest_sequence, vocabulary, vocabulary_multiple;
    bool grouped, swiglu, no_bias, untied, bf16;
    double norm_epsilon, rotary_base, init_deviation, attention_dropout, hidden_dropout;
    int normalization, positions, experts;
    /* how it is shared out */
    int tensor, pipeline, context, layers_per_virtual_stage, virtual_stages, microbatch_group;
    bool sequence_parallel, sharded_optimizer, average_in_collective, pipeline_inside;
    int overlap;
    bool switched_on[GPT_SWITCHES], switched_off[GPT_SWITCHES]; /* one by one */
    gpt_switch_set switches;                                    /* from these three */
    size_t bucket_elements, last_bucket_elements;               /* 0 = weft's default */
    double timeout_minutes;
    /* batch and rate */
    int micro_batch, global_batch, iterations, decay_iterations, warmup_iterations, anneal_iterations;
    size_t samples; /* 0 = iterations * global_batch */
    int decay_style, anneal_curve;
    size_t seed;
    double rate, lowest_rate, warmup_fraction, weight_decay, clip, beta1, beta2, epsilon;
    /* data, log, and what to do */
    const char *data, *make_data, *split, *json, *html, *trace;
    double held_out; /* from split */
    const char *compute;
    gpt_timed timed; /* from compute */
    int device;      /* GPT_ON_* */
    int attention;   /* word of --attention-backend */
    int tokenizer, log_interval;
    bool mock, plan, show_defaults;
    int world_size, plan_rank; /* 0 = as many as there are, or as a plan needs */
} gpt_options;

/* Defaults, then the command line, then what follows from it: what was left open is filled in, what does not fit
 * together or asks for another model is refused. OPTIONS_GO, EXIT_DONE (help was given), or the code of @p failure. */
int gpt_options_read(gpt_options *options, int argc, char **argv, gpt_failure *failure);
/* The second half of it. The flags say whether --num-query-groups and --train-iters were given. */
int gpt_options_complete(gpt_options *options, bool groups_given, bool iterations_given, gpt_failure *failure);
/* The failure that @p flag asks for something that this GPT has not. */
int gpt_options_other_model(const char *flag, const char *what, gpt_failure *failure);
/* Say in one line each what was given without effect here, and what holds where nothing was given. */
void gpt_options_note(const gpt_options *options, int argc, char **argv, FILE *out);

/* The options as numbers, in the order of their table: what all ranks must be given alike. 0 for texts. Returns how
 * many there are, at most GPT_OPTIONS_MOST. */
enum { GPT_OPTIONS_MOST = 128 };
size_t gpt_options_numbers(const gpt_options *options, uint64_t numbers[GPT_OPTIONS_MOST]);
/* The name of one of them, without dashes. */
const char *gpt_options_name(size_t index);

/* The model's shape, and the learning rate's course, that the options ask for. */
int gpt_options_shape(const gpt_options *options, gpt_shape *shape, gpt_failure *failure);
gpt_lr gpt_options_lr(const gpt_options *options);

#endif
