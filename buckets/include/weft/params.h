/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Params: the tensors of a model, or of one part of it, as names, shapes and types. They hold no memory: that
 *         comes with a set of buckets.
 *
 *  Add them in the order in which the forward pass first uses them. Everything else follows from it: gradients are
 *  expected in the opposite order, so the last param is laid out first, its bucket is reduced first, and its values
 *  are gathered last. */
#ifndef WEFT_PARAMS_H
#define WEFT_PARAMS_H
#include <weft/dtype.h>
#include <weft/result.h>
WEFT_BEGIN_DECLS

typedef struct weft_params weft_params; /**< A list of params, in order of use. */

enum {
    WEFT_PARAM_FROZEN = 1,   /**< Gets no gradient: it lies in no buffer and its memory stays the trainer's. */
    WEFT_PARAM_TIED = 2,     /**< The same weight lives in other buffers too (an embedding that is also the output):
                                  alone in its bucket, so that all copies are cut alike. */
    WEFT_PARAM_EXPERT = 4,   /**< Owned by the expert ranks: in buffers of its own. */
    WEFT_PARAM_NO_DECAY = 8, /**< No weight decay. */
    WEFT_PARAM_COPY = 16     /**< Another rank holds the same param and counts it in the gradient norm: all but one of
                                  the ranks that hold a tensor parallel replica or a tied weight set this. */
};

#define WEFT_PARAM_DIMS_MAX 8 /**< Most dimensions of a shape. */

typedef struct weft_param {
    size_t size;                       /**< Set by WEFT_PARAM_INIT. */
    const char *name;                  /**< Copied; unique in its list. Every message about the param says it. */
    size_t shape[WEFT_PARAM_DIMS_MAX]; /**< As stored on this rank, each at least 1. */
    int dims;                          /**< How many of them; 0 = one element, and no shape. */
    weft_dtype dtype;                  /**< Of the values. */
    weft_dtype grad_dtype;             /**< Of the gradient, which is added up in it; fp32 unless said. */
    uint32_t flags;                    /**< WEFT_PARAM_*. */
    uint32_t contributions;            /**< Marks per microbatch until the gradient is final; 0 = 1. */
    float lr_scale;                    /**< Multiplied into the learning rate; 0 = 1. */
    uint32_t reserved;                 /**< 0. */
} weft_param;
#define WEFT_PARAM_INIT WEFT_SIZED_INIT(weft_param)

/** Make an empty list.
 *  @param params_out  given, release with weft_params_destroy().
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_params_create(weft_params **params_out);
/** Add a param at the end.
 *  @param param  copied, its name too.   @param index_out  its index, counted from 0; may be NULL.
 *  Threads: owner.  Blocks: never.
 *  Errors: E_INVALID (names what makes no sense), E_TWICE (the name is taken), E_RANGE (more elements than can be
 *  counted), E_STATE (a set of buckets uses the list), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_params_add(weft_params *params, const weft_param *param, uint32_t *index_out);
/** Freeze param @p index, or unfreeze it if @p frozen is 0.
 *  Threads: owner.  Blocks: never.  Errors: E_INVALID, E_RANGE, E_STATE (a set of buckets uses the list). */
WEFT_API WEFT_NODISCARD weft_result weft_params_freeze(weft_params *params, uint32_t index, int frozen);

/** How many there are. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_params_count(const weft_params *params);
/** Param @p index; NULL if there is none. Borrowed: until the next weft_params_add(). Threads: any. Blocks: never. */
WEFT_API const weft_param *weft_params_get(const weft_params *params, uint32_t index);
/** Elements of param @p index; 0 if there is none. Threads: any. Blocks: never. */
WEFT_API size_t weft_params_elements(const weft_params *params, uint32_t index);
/** The index of the param called @p name.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NOT_FOUND. */
WEFT_API WEFT_NODISCARD weft_result weft_params_find(const weft_params *params, const char *name, uint32_t *index_out);

/** Give the list back; NULL is fine. Sets that use it must be gone. Threads: owner. Blocks: never. */
WEFT_API void weft_params_destroy(weft_params *params);

WEFT_END_DECLS
#endif
