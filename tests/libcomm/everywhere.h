/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of element-wise functions: one call, made by every instruction set on stretches of every length that begin
 * anywhere. */
#ifndef WEFT_TESTS_LIBCOMM_EVERYWHERE_H
#define WEFT_TESTS_LIBCOMM_EVERYWHERE_H
#include "test_vector.h"

enum { OFFSETS = 64, LENGTHS = 130, ELEMENTS = OFFSETS + LENGTHS, MOST_SOURCES = 9 };

/* One call with all that it needs, to be made on any stretch of the elements. */
typedef struct call call;
struct call {
    const weft__vector *vector;
    void (*run)(const call *, void *dst, size_t begin, size_t count);
    const char *what;
    weft_dtype dtype;                  /* of the result */
    const void *expected;              /* ELEMENTS */
    const void *before;                /* what dst holds where it is also read; NULL: nothing */
    const void *sources[MOST_SOURCES]; /* ELEMENTS each, every one aligned in another way */
    int source_count;
    weft_dtype source_dtype;
    weft_reduction reduction;
    int divisor;
    double number;
};

/* The call gives what is expected, and writes nothing beside it. */
void check_on_all_sets(call *c);

/* ELEMENTS random ones, the same for the same @p k and type, which begin k elements behind a line. */
const void *random_source(int k, weft_dtype dtype);
/* Source @p k of a call, from element @p begin on. */
const void *source_at(const call *c, int k, size_t begin);

#endif
