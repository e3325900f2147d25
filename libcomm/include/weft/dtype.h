/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Element types, and the ways in which elements of several ranks become one. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

typedef enum weft_dtype {
    WEFT_FP32 = 0,
    WEFT_BF16 = 1, /**< 1 sign, 8 exponent, 7 fraction bits; held in uint16_t on the host. */
    WEFT_FP16 = 2, /**< IEEE half precision; held in uint16_t on the host. */
    WEFT_FP64 = 3,
    WEFT_INT32 = 4,
    WEFT_INT64 = 5,
    WEFT_UINT8 = 6
} weft_dtype;
#define WEFT_DTYPES 7 /**< How many there are. */

/** Sums of 16-bit types are kept in fp32 and rounded once, at the very end. Integers wrap. */
typedef enum weft_reduction {
    WEFT_SUM = 0,
    WEFT_AVERAGE = 1, /**< Sum, then divide by the number of ranks, then round; floating point only. */
    WEFT_MIN = 2,     /**< NaN if any input is NaN. */
    WEFT_MAX = 3,     /**< NaN if any input is NaN. */
    WEFT_PRODUCT = 4
} weft_reduction;
#define WEFT_REDUCTIONS 5 /**< How many there are. */

/** Bytes of one element; 0 for what is no dtype. Threads: any. Blocks: never. */
WEFT_API size_t weft_dtype_bytes(weft_dtype dtype);
/** "fp32", "bf16", ...; "?" for what is no dtype. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_dtype_string(weft_dtype dtype);
/** "sum", "average", ...; "?" for what is none. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_reduction_string(weft_reduction reduction);

WEFT_END_DECLS
#endif
