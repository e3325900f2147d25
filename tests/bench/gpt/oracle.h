/* SPDX-License-Identifier: Apache-2.0 */
/* The same GPT written a second time, in fp64 and plain loops: only a forward, nothing shared with what it checks. */
#ifndef WEFT_TESTS_BENCH_GPT_ORACLE_H
#define WEFT_TESTS_BENCH_GPT_ORACLE_H

typedef struct oracle_layer {
    const double *attention_norm, *qkv, *attention_output, *mlp_norm, *gate_up, *down;
} oracle_layer;

typedef struct oracle_model {
    int layers, hidden, ffn, heads, groups, channels, sequence, batch, vocabulary;
    double epsilon, rotary_base;
    const double *embedding, *final_norm, *output;
    oracle_layer layer[8];
} oracle_model;

/* The mean over tokens of -log p(target); tokens and targets are [sequence][batch]. */
double oracle_loss(const oracle_model *model, const int *tokens, const int *targets);

#endif
