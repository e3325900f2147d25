/* SPDX-License-Identifier: Apache-2.0 */
/* A word of bits for every 32 words of a record, which says which differ, and then those. */
#include "base/pack.h"

#include <string.h>

static uint32_t word_at(const void *bytes, size_t index)
{
    uint32_t word = 0;
    if (bytes)
        memcpy(&word, (const char *)bytes + index * sizeof word, sizeof word);
    return word;
}

size_t weft__pack(const void *record, const void *before, size_t words, uint32_t *packed)
{
    size_t used = 0, bits = 0;
    for (size_t i = 0; i < words; i++) {
        if (i % 32 == 0) {
            bits = used++;
            packed[bits] = 0;
        }
        uint32_t word = word_at(record, i);
        if (word == word_at(before, i))
            continue;
        packed[bits] |= (uint32_t)1 << i % 32;
        packed[used++] = word;
    }
    return used;
}

size_t weft__unpack(const uint32_t *packed, size_t count, const void *before, size_t words, void *record)
{
    size_t used = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < words; i++) {
        if (i % 32 == 0) {
            if (used == count)
                return 0;
            bits = packed[used++];
        }
        uint32_t word = word_at(before, i);
        if (bits >> i % 32 & 1) {
            if (used == count)
                return 0;
            word = packed[used++];
        }
        memcpy((char *)record + i * sizeof word, &word, sizeof word);
    }
    return words % 32 && bits >> words % 32 ? 0 : used; /* nothing is behind the last */
}
