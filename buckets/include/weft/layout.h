/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Layouts: where every param lies in flat memory, where its buckets end, and which rank owns which part. A
 *         layout is computed from numbers alone, so a plan for a thousand ranks can be printed on a laptop.
 *
 *  Trainable params are split into buffers by (dtype, grad_dtype, expert); inside a buffer they lie in reverse order of
 *  registration. A param starts at a multiple of param_alignment elements. A bucket closes after the param that
 *  reaches bucket_elements, and its end is rounded up so that the shard ranks divide it into equal parts: rank k owns
 *  the k-th part of every bucket, wherever params begin and end. A tied param is alone in its bucket.
 *
 *  The gradient of a buffer's first param comes last of all, often an embedding's, and what is reduced with it cannot
 *  hide. With last_bucket_elements a bucket closes before the last params of a buffer: those that follow the first one
 *  in order of use, as few as together have so many elements, and the first one itself. What was final earlier is then
 *  on its way while their gradients are computed.
 *
 *      elements   0            64         192        256        320    384
 *      params     | p3 ....... | p2 ..... |          | p1 ...................|
 *      buckets    | bucket 0 ............ (padding)  | bucket 1 .............|
 *      owners     | rank 0     | rank 1              | rank 0      | rank 1  |
 *
 *  Without sharding nothing is aligned, padded or split. Buffers and buckets are numbered from 0 over the whole
 *  layout, the buckets of a buffer one after the other. */
#ifndef WEFT_LAYOUT_H
#define WEFT_LAYOUT_H
#include <weft/params.h>
WEFT_BEGIN_DECLS

typedef struct weft_layout weft_layout; /**< Offsets, buckets and owners of a list of params. */

enum {
    WEFT_LAYOUT_UNSHARDED = 1,    /**< Every rank owns all of every bucket. */
    WEFT_LAYOUT_PAD_FOR_BUSBW = 2 /**< Bucket ends are multiples of 65536 as well: fuller packets on large networks. */
};

#define WEFT_BUCKET_UNLIMITED SIZE_MAX    /**< For bucket_elements: one bucket a buffer (but for tied params). */
#define WEFT_LAYOUT_NONE      0xffffffffu /**< For a frozen param: in no buffer, in no bucket. */

typedef struct weft_layout_config {
    size_t size;                 /**< Set by WEFT_LAYOUT_CONFIG_INIT. */
    size_t bucket_elements;      /**< A bucket closes at this many; 0 = max(40 000 000, 1 000 000 * shard_ranks). */
    int shard_ranks;             /**< Ranks that share the parts of a bucket; 0 = 1. */
    int expert_shard_ranks;      /**< The same for buckets of expert params; 0 = shard_ranks. */
    uint32_t param_alignment;    /**< Elements; 0 = 64. */
    uint32_t bucket_alignment;   /**< Elements; 0 = 128. Bucket ends are multiples of lcm(ranks, this). */
    uint32_t flags;              /**< WEFT_LAYOUT_*. */
    uint32_t reserved;           /**< 0. */
    size_t last_bucket_elements; /**< How many, at least, wait for the gradient of a buffer's first param, without its
                                    own; at most bucket_elements. 0 = as many as come. */
} weft_layout_config;
#define WEFT_LAYOUT_CONFIG_INIT WEFT_SIZED_INIT(weft_layout_config)

/** One flat buffer. */
typedef struct weft_layout_buffer {
    weft_dtype dtype, grad_dtype; /**< Of its params. */
    int expert;                   /**< Not 0: its params are expert params. */
    int shard_ranks;              /**< How many equal parts its buckets have; 1 if unsharded. */
    uint32_t first_bucket, bucket_count;
    size_t elements; /**< With padding. */
    size_t used;     /**< Without the padding at the ends of buckets. */
} weft_layout_buffer;

/** One bucket: elements [start, end) of its buffer. */
typedef struct weft_layout_bucket {
    uint32_t buffer;
    uint32_t param_count;
    const uint32_t *params; /**< Their indices, in the order in which they lie. Borrowed: as long as the layout. */
    size_t start, end;
    size_t used; /**< Elements up to the padding at its end. */
} weft_layout_bucket;

/** Where a param lies: elements [start, end) of its buffer. */
typedef struct weft_layout_place {
    uint32_t buffer, bucket; /**< WEFT_LAYOUT_NONE if it is frozen. */
    size_t start, end;
} weft_layout_place;

/** Compute a layout.
 *  @param params  borrowed during the call.   @param config  copied; NULL = defaults.
 *  @param layout_out  given, release with weft_layout_destroy().
 *  Threads: any.  Blocks: never.
 *  Errors: E_INVALID, E_RANGE (more elements than can be counted; names the param), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_layout_create(const weft_params *params, const weft_layout_config *config,
                                                       weft_layout **layout_out);
/** Give it back; NULL is fine. Threads: owner. Blocks: never. */
WEFT_API void weft_layout_destroy(weft_layout *layout);

/** How many buffers there are. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_layout_buffers(const weft_layout *layout);
/** Buffer @p index; NULL if there is none. Borrowed: as long as the layout. Threads: any. Blocks: never. */
WEFT_API const weft_layout_buffer *weft_layout_buffer_at(const weft_layout *layout, uint32_t index);
/** How many buckets all buffers have. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_layout_buckets(const weft_layout *layout);
/** Bucket @p index; NULL if there is none. Borrowed: as long as the layout. Threads: any. Blocks: never. */
WEFT_API const weft_layout_bucket *weft_layout_bucket_at(const weft_layout *layout, uint32_t index);
/** Where param @p index lies; NULL if there is none. Borrowed: as long as the layout. Threads: any. Blocks: never. */
WEFT_API const weft_layout_place *weft_layout_param_at(const weft_layout *layout, uint32_t index);

/** The bucket whose reduction is started as number @p index: buckets go in the order in which their last gradients are
 *  expected, over all buffers. Params are gathered in the opposite order. WEFT_LAYOUT_NONE if there is none.
 *  Threads: any.  Blocks: never. */
WEFT_API uint32_t weft_layout_order(const weft_layout *layout, uint32_t index);

/** The part of bucket @p bucket that shard rank @p rank owns: elements [*start_out, *end_out) of its buffer.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_layout_shard(const weft_layout *layout, uint32_t bucket, int rank,
                                                      size_t *start_out, size_t *end_out);

WEFT_END_DECLS
#endif
