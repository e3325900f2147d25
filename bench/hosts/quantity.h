/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers with a unit behind them: "1gbit", "500us", "0.1%". */
#ifndef WEFT_BENCH_HOSTS_QUANTITY_H
#define WEFT_BENCH_HOSTS_QUANTITY_H
#include <stdbool.h>

typedef enum quantity {
    QUANTITY_RATE, /* bits a second: kbit, mbit, gbit, from 1 kbit to 100 gbit */
    QUANTITY_TIME, /* seconds: us, ms, s, up to 10 s */
    QUANTITY_PART  /* of one: %, less than 100 % */
} quantity;

/* False: @p text is no such quantity. */
bool quantity_read(quantity kind, const char *text, double *value);
/* "a rate such as 1gbit": for messages. */
const char *quantity_name(quantity kind);

#endif
