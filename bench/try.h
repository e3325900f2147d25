/* SPDX-License-Identifier: Apache-2.0 */
/* Passes up the first result that is not WEFT_OK, in functions that hold nothing. */
#ifndef WEFT_BENCH_TRY_H
#define WEFT_BENCH_TRY_H
#include <weft/result.h>

#define TRY(call)                         \
    do {                                  \
        weft_result try_result_ = (call); \
        if (try_result_ != WEFT_OK)       \
            return try_result_;           \
    } while (0)

#endif
