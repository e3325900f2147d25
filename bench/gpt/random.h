/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by position: element i of the stream of (seed, name) can be had without the ones before it, so that
 * every layout gives a parameter, and every rank a sample, the same values. */
#ifndef WEFT_BENCH_GPT_RANDOM_H
#define WEFT_BENCH_GPT_RANDOM_H
#include <stddef.h>
#include <stdint.h>

typedef struct gpt_random {
    uint32_t key[2];
} gpt_random;

/* The stream of @p name under @p seed. */
gpt_random gpt_random_stream(uint64_t seed, const char *name);
/* Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). */
void gpt_random_block(gpt_random stream, const uint32_t counter[4], uint32_t out[4]);
/* A whole number below @p limit (> 0) at place (@p row, @p column). */
uint64_t gpt_random_below(gpt_random stream, uint64_t row, uint64_t column, uint64_t limit);
/* Where number @p index of 0 ... count - 1 goes in an order of them by chance, one for each @p row. */
uint64_t gpt_random_shuffled(gpt_random stream, uint64_t row, uint64_t index, uint64_t count);
/* Elements first ... first + count - 1 of the stream, normally distributed around 0. */
void gpt_random_normal(gpt_random stream, uint64_t first, size_t count, double deviation, float *out);

#endif
