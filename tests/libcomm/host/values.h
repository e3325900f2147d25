/* SPDX-License-Identifier: Apache-2.0 */
/* Values of each type, and the naive sum: over the ranks of each machine in their order, then over machines, 16-bit
 * types in fp32, divided, and rounded once. */
#ifndef WEFT_TESTS_LIBCOMM_HOST_VALUES_H
#define WEFT_TESTS_LIBCOMM_HOST_VALUES_H
#include <stddef.h>
#include <stdint.h>
#include <weft/dtype.h>

#include "host.h"

/* Element @p i of what rank @p rank sends. Sums of them round, so that another order gives other bits; some are NaN. */
void value_write(void *to, weft_dtype dtype, size_t i, int rank);
/* The reduction of element @p i of all ranks. */
void value_reduce(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, shape s);
/* Equal bits, or both NaN. */
bool value_is(const void *got, const void *want, weft_dtype dtype);

#endif
