/* SPDX-License-Identifier: Apache-2.0 */
/* What ends a noun behind a number: nothing if that is 1. */
#ifndef WEFT_BENCH_PLURAL_H
#define WEFT_BENCH_PLURAL_H
#include <stddef.h>

static inline const char *plural(size_t count, const char *ending)
{
    return count == 1 ? "" : ending;
}

#endif
