/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON (RFC 8259), value by value, so that commas, escapes and what is not finite come out right everywhere. */
#ifndef WEFT_BENCH_JSON_H
#define WEFT_BENCH_JSON_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_writer {
    FILE *out;
    bool comma; /* before the next value */
} json_writer;

/* The name of a value inside an object is @p key, a name without characters to escape; inside an array it is NULL. */
void json_open(json_writer *json, const char *key, char bracket);        /* { or [ */
void json_close(json_writer *json, char bracket);                        /* } or ] */
void json_put_number(json_writer *json, const char *key, double number); /* null if it is not finite */
/* With so many digits behind the point, however large it is; null if it is not finite. */
void json_put_decimals(json_writer *json, const char *key, double number, int decimals);
void json_put_whole(json_writer *json, const char *key, int64_t number);
void json_put_bool(json_writer *json, const char *key, bool is_true);
void json_put_null(json_writer *json, const char *key);
void json_put_text(json_writer *json, const char *key, const char *text); /* bytes that are no UTF-8 become U+FFFD */
/* A value is complete, and fills a line. */
void json_end_line(json_writer *json);

#endif
