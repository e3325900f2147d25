/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of element types and reductions. */
#include "base/dtype.h"

#define ROWS(table) (sizeof(table) / sizeof *(table))

const weft__dtype_row weft__dtypes[] = {
    [WEFT_FP32] = {"fp32", 4, .floating = true, .within_fp32 = true},
    [WEFT_BF16] = {"bf16", 2, .floating = true, .within_fp32 = true},
    [WEFT_FP16] = {"fp16", 2, .floating = true, .within_fp32 = true},
    [WEFT_FP64] = {"fp64", 8, .floating = true},
    [WEFT_INT32] = {"int32", 4},
    [WEFT_INT64] = {"int64", 8},
    [WEFT_UINT8] = {"uint8", 1},
};

const weft__reduction_row weft__reductions[] = {
    [WEFT_SUM] = {"sum"},         [WEFT_AVERAGE] = {"average", .divides = true},
    [WEFT_MIN] = {"min"},         [WEFT_MAX] = {"max"},
    [WEFT_PRODUCT] = {"product"},
};

_Static_assert(ROWS(weft__dtypes) == WEFT_DTYPES, "each dtype has a row");
_Static_assert(ROWS(weft__reductions) == WEFT_REDUCTIONS, "each reduction has a row");

size_t weft_dtype_bytes(weft_dtype dtype)
{
    return weft__is_dtype(dtype) ? weft__dtypes[dtype].bytes : 0;
}

const char *weft_dtype_string(weft_dtype dtype)
{
    return weft__is_dtype(dtype) ? weft__dtypes[dtype].name : "?";
}

const char *weft_reduction_string(weft_reduction reduction)
{
    return weft__is_reduction(reduction) ? weft__reductions[reduction].name : "?";
}
