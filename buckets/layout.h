/* SPDX-License-Identifier: Apache-2.0 */
/* The padding rules by themselves: integers only. */
#ifndef WEFT_BUCKETS_LAYOUT_H
#define WEFT_BUCKETS_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/layout.h>

/* @p value rounded up to a multiple; false if that cannot be counted. */
bool weft__pad_up(size_t value, size_t multiple, size_t *padded_out);
/* What bucket ends are multiples of: lcm(ranks, alignment), with pad_for_busbw also of 65536; false if that cannot be
 * counted. */
bool weft__bucket_multiple(int shard_ranks, uint32_t alignment, bool pad_for_busbw, size_t *multiple_out);

/* The part of param @p param that shard rank @p rank owns: elements [*start, *end) of its buffer, empty if none. */
void weft__layout_owned(const weft_layout *layout, uint32_t param, int rank, size_t *start, size_t *end);

#endif
