/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON (RFC 8259) into a tree, for golden values and for what commands print.
 *
 *     json *j = json_parse(line, message, sizeof message);     NULL: message says what is wrong, and where
 *     json_int(json_get(j, "world"), -1)                        every reader takes NULL and gives its default
 *     json_free(j); */
#ifndef WEFT_TESTS_HARNESS_JSON_H
#define WEFT_TESTS_HARNESS_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    bool whole;         /* JSON_NUMBER: without fraction and exponent, and in the range of int64_t */
    int64_t integer;    /* JSON_NUMBER that is whole; JSON_BOOL: 0 or 1 */
    double number;      /* JSON_NUMBER */
    char *text;         /* JSON_TEXT: decoded to UTF-8 */
    char *key;          /* the name under which an object holds this */
    struct json *first; /* JSON_ARRAY, JSON_OBJECT: what it holds, in the order of the text */
    struct json *next;  /* its neighbour there */
    size_t count;       /* how many it holds */
} json;

/* The one value that @p text is, or NULL with a message. */
json *json_parse(const char *text, char *message, size_t message_bytes);
void json_free(json *value);

/* Member @p key of an object, element @p index of an array; NULL if there is none. */
json *json_get(const json *object, const char *key);
json *json_at(const json *array, size_t index);
/* The value, or @p fallback where it is NULL or of another kind. */
int64_t json_int(const json *value, int64_t fallback);
double json_real(const json *value, double fallback);
bool json_bool(const json *value, bool fallback);
const char *json_text(const json *value, const char *fallback);
bool json_is_null(const json *value); /* there, and null */

#endif
