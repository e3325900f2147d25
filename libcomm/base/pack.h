/* SPDX-License-Identifier: Apache-2.0 */
/* Packs records that are much alike, or mostly zero: of each only those words travel that differ from the record before
 * it. */
#ifndef WEFT_BASE_PACK_H
#define WEFT_BASE_PACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words that a packed record of @p words has at most. */
static inline size_t weft__pack_most(size_t words)
{
    return words + (words + 31) / 32;
}
/* Pack @p words words at @p record, against those at @p before; NULL = zeros. Returns how many words were written. Both
 * may lie at odd places. */
size_t weft__pack(const void *record, const void *before, size_t words, uint32_t *packed);
/* Unpack them. How many of @p count words were taken; 0: they are no such record. */
size_t weft__unpack(const uint32_t *packed, size_t count, const void *before, size_t words, void *record);

#endif
