/* SPDX-License-Identifier: Apache-2.0 */
/* The median of what was measured in pairs, and how well it is known. */
#ifndef WEFT_BENCH_MIDDLE_H
#define WEFT_BENCH_MIDDLE_H
#include <stddef.h>

/* `error` is half of the interval that holds the median with 95 % however the values are spread, since it counts how
 * many of them are on either side: each is above the median as often as below. Not finite if there are too few. */
typedef struct middle {
    double median, error; /* of an even number the upper one */
} middle;

/* Sorts @p values. */
middle middle_of(double *values, size_t count);

#endif
