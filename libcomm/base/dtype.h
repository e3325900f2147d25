/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of each element type and each reduction: a row in a table. */
#ifndef WEFT_BASE_DTYPE_H
#define WEFT_BASE_DTYPE_H
#include <stdbool.h>
#include <weft/dtype.h>

typedef struct weft__dtype_row {
    const char *name;
    uint8_t bytes;
    bool floating;
    bool within_fp32; /* floating, and fp32 has every value of it */
} weft__dtype_row;

typedef struct weft__reduction_row {
    const char *name;
    bool divides; /* the sum, by the number of ranks: for floating types only */
} weft__reduction_row;

extern const weft__dtype_row weft__dtypes[]; /* no lengths here, so that those of the tables themselves are asserted */
extern const weft__reduction_row weft__reductions[];

static inline bool weft__is_dtype(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPES;
}

static inline bool weft__is_reduction(weft_reduction reduction)
{
    return (unsigned)reduction < WEFT_REDUCTIONS;
}

/* Of a dtype that has been checked. */
static inline size_t weft__dtype_bytes(weft_dtype dtype)
{
    return weft__dtypes[dtype].bytes;
}

/* False for what is no dtype. */
static inline bool weft__is_floating(weft_dtype dtype)
{
    return weft__is_dtype(dtype) && weft__dtypes[dtype].floating;
}

static inline bool weft__is_within_fp32(weft_dtype dtype)
{
    return weft__is_dtype(dtype) && weft__dtypes[dtype].within_fp32;
}

/* Of a dtype and a reduction that have been checked. */
static inline bool weft__can_reduce(weft_dtype dtype, weft_reduction reduction)
{
    return !weft__reductions[reduction].divides || weft__dtypes[dtype].floating;
}

#endif
