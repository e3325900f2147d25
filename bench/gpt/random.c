/* SPDX-License-Identifier: Apache-2.0 */
/* Computes random numbers from counters: streams, whole numbers, orders, normal numbers. */
#include "gpt/random.h"

#include <math.h>

gpt_random gpt_random_stream(uint64_t seed, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a over the eight bytes of the seed, then the name */
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (seed >> (8 * i) & 0xff)) * 0x100000001b3u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return (gpt_random){{(uint32_t)hash, (uint32_t)(hash >> 32)}};
}

void gpt_random_block(gpt_random stream, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t key0 = stream.key[0], key1 = stream.key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)a * 0xd2511f53u, product1 = (uint64_t)c * 0xcd9e8d57u;
        a = (uint32_t)(product1 >> 32) ^ b ^ key0;
        b = (uint32_t)product1;
        c = (uint32_t)(product0 >> 32) ^ d ^ key1;
        d = (uint32_t)product0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

uint64_t gpt_random_below(gpt_random stream, uint64_t row, uint64_t column, uint64_t limit)
{
    uint32_t counter[4] = {(uint32_t)column, (uint32_t)(column >> 32), (uint32_t)row, (uint32_t)(row >> 32)}, word[4];
    gpt_random_block(stream, counter, word);
    /* The high half of a 64 by 64 bit product: a fraction of the limit, without the bias of a remainder. */
    uint64_t low = (uint64_t)word[0] * (limit & 0xffffffffu), cross = (uint64_t)word[1] * (limit & 0xffffffffu),
             other = (uint64_t)word[0] * (limit >> 32), high = (uint64_t)word[1] * (limit >> 32);
    uint64_t middle = (low >> 32) + (cross & 0xffffffffu) + (other & 0xffffffffu);
    return high + (cross >> 32) + (other >> 32) + (middle >> 32);
}

/* A Feistel network permutes the numbers of an even count of bits; one that leads out of the count is led on. */
uint64_t gpt_random_shuffled(gpt_random stream, uint64_t row, uint64_t index, uint64_t count)
{
    enum { ROUNDS = 6 };
    unsigned half = 1;
    while (half < 32 && (uint64_t)1 << (2 * half) < count)
        half++;
    uint64_t limit = (uint64_t)1 << half;
    do {
        uint64_t left = index >> half, right = index & (limit - 1);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t mixed = left ^ gpt_random_below(stream, row * ROUNDS + round, right, limit);
            left = right;
            right = mixed;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

/* Four normal numbers out of one block (Box and Muller). */
static void normal_block(gpt_random stream, uint64_t block, double out[4])
{
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0}, word[4];
    gpt_random_block(stream, counter, word);
    for (int pair = 0; pair < 4; pair += 2) {
        double radius = sqrt(-2 * log((word[pair] + 0.5) * 0x1p-32));
        double angle = 2 * 3.14159265358979323846 * ((word[pair + 1] + 0.5) * 0x1p-32);
        out[pair] = radius * cos(angle);
        out[pair + 1] = radius * sin(angle);
    }
}

void gpt_random_normal(gpt_random stream, uint64_t first, size_t count, double deviation, float *out)
{
    double block[4];
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0)
            normal_block(stream, index / 4, block);
        out[i] = (float)(deviation * block[index % 4]);
    }
}
