/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive-descent reader of JSON. */
#include "harness/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 200 };

typedef struct reader {
    const char *begin, *at;
    const char *wrong; /* what is wrong at `at`; NULL = nothing yet */
    int depth;
} reader;

static json *read_value(reader *r);

static void *fail(reader *r, const char *wrong)
{
    if (!r->wrong)
        r->wrong = wrong;
    return NULL;
}

static json *make(reader *r, json_kind kind)
{
    json *value = calloc(1, sizeof *value);
    if (!value)
        return fail(r, "no memory");
    value->kind = kind;
    return value;
}

static void skip_space(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_digits(reader *r)
{
    if (!is_digit(*r->at))
        fail(r, "a digit is missing");
    while (is_digit(*r->at))
        r->at++;
}

static json *read_number(reader *r)
{
    const char *start = r->at;
    bool whole = true;
    r->at += *r->at == '-';
    if (r->at[0] == '0' && is_digit(r->at[1]))
        return fail(r, "a number begins with 0");
    skip_digits(r);
    if (*r->at == '.') {
        whole = false;
        r->at++;
        skip_digits(r);
    }
    if (*r->at == 'e' || *r->at == 'E') {
        whole = false;
        r->at++;
        r->at += *r->at == '+' || *r->at == '-';
        skip_digits(r);
    }
    json *value = r->wrong ? NULL : make(r, JSON_NUMBER);
    if (!value)
        return NULL;
    value->number = strtod(start, NULL);
    errno = 0;
    value->integer = whole ? strtoll(start, NULL, 10) : 0;
    value->whole = whole && errno == 0;
    return value;
}

static bool read_hex4(reader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char *digits = "0123456789abcdef", *found = NULL;
        if (*r->at)
            found = strchr(digits, *r->at >= 'A' && *r->at <= 'F' ? *r->at + 32 : *r->at);
        if (!found) {
            fail(r, "\\u wants four hexadecimal digits");
            return false;
        }
        *code = *code * 16 + (unsigned)(found - digits);
    }
    return true;
}

static char *put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(lead[more] | code >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | (code >> (6 * more) & 0x3f));
    return out;
}

/* Behind "\u": one character, of two halves if the first is a surrogate. */
static char *read_unicode(reader *r, char *out)
{
    unsigned code, low;
    if (!read_hex4(r, &code))
        return out;
    if (code >= 0xdc00 && code < 0xe000)
        fail(r, "the second half of a character stands alone");
    if (code >= 0xd800 && code < 0xdc00) {
        if (!take(r, "\\u") || !read_hex4(r, &low) || low < 0xdc00 || low >= 0xe000) {
            fail(r, "half a character");
            return out;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0)
        fail(r, "a zero inside text");
    return put_utf8(out, code);
}

static char *read_escape(reader *r, char *out)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = *r->at;
    if (c == 'u') {
        r->at++;
        return read_unicode(r, out);
    }
    const char *found = c ? strchr(names, c) : NULL;
    if (!found) {
        fail(r, "an unknown escape");
        return out;
    }
    r->at++;
    *out++ = meant[found - names];
    return out;
}

/* Text between quotes; decoding never makes it longer. */
static char *read_text(reader *r)
{
    if (!take(r, "\""))
        return fail(r, "text is missing");
    size_t bytes = 0;
    while (r->at[bytes] && r->at[bytes] != '"')
        bytes += r->at[bytes] == '\\' && r->at[bytes + 1] ? 2 : 1;
    char *text = malloc(bytes + 1), *out = text;
    if (!text)
        return fail(r, "no memory");
    while (!r->wrong && *r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            fail(r, *r->at ? "a control character inside text" : "text does not end");
        else if (*r->at == '\\') {
            r->at++;
            out = read_escape(r, out);
        } else
            *out++ = *r->at++;
    }
    *out = 0;
    if (r->wrong) {
        free(text);
        return NULL;
    }
    r->at++;
    return text;
}

static json *read_member(reader *r, bool named)
{
    char *key = NULL;
    if (named) {
        skip_space(r);
        key = read_text(r);
        skip_space(r);
        if (key && !take(r, ":"))
            fail(r, "':' is missing");
    }
    json *value = r->wrong ? NULL : read_value(r);
    if (value)
        value->key = key;
    else
        free(key);
    return value;
}

static json *read_list(reader *r, json_kind kind, const char *close)
{
    json *list = make(r, kind);
    if (!list)
        return NULL;
    json **end = &list->first;
    skip_space(r);
    bool done = take(r, close);
    while (!done) {
        *end = read_member(r, kind == JSON_OBJECT);
        if (!*end)
            break;
        end = &(*end)->next;
        list->count++;
        skip_space(r);
        done = take(r, close);
        if (!done && !take(r, ",")) {
            fail(r, "',' or the closing bracket is missing");
            break;
        }
    }
    if (r->wrong) {
        json_free(list);
        return NULL;
    }
    return list;
}

static json *read_nested(reader *r, json_kind kind, const char *close)
{
    if (r->depth >= DEPTH_MAX)
        return fail(r, "nested too deeply");
    r->at++;
    r->depth++;
    json *list = read_list(r, kind, close);
    r->depth--;
    return list;
}

static json *read_bool(reader *r, bool yes)
{
    json *value = make(r, JSON_BOOL);
    if (value)
        value->integer = yes;
    return value;
}

static json *read_value(reader *r)
{
    skip_space(r);
    if (*r->at == '{')
        return read_nested(r, JSON_OBJECT, "}");
    if (*r->at == '[')
        return read_nested(r, JSON_ARRAY, "]");
    if (*r->at == '"') {
        char *text = read_text(r);
        json *value = text ? make(r, JSON_TEXT) : NULL;
        if (value)
            value->text = text;
        else
            free(text);
        return value;
    }
    if (*r->at == '-' || is_digit(*r->at))
        return read_number(r);
    if (take(r, "true"))
        return read_bool(r, true);
    if (take(r, "false"))
        return read_bool(r, false);
    if (take(r, "null"))
        return make(r, JSON_NULL);
    return fail(r, *r->at ? "no value begins like this" : "a value is missing");
}

json *json_parse(const char *text, char *message, size_t message_bytes)
{
    reader r = {.begin = text, .at = text};
    json *value = read_value(&r);
    skip_space(&r);
    if (value && *r.at)
        fail(&r, "there is more behind the value");
    if (r.wrong) {
        snprintf(message, message_bytes, "%s at byte %td", r.wrong, r.at - r.begin);
        json_free(value);
        return NULL;
    }
    return value;
}

void json_free(json *value)
{
    while (value) {
        json *next = value->next;
        json_free(value->first);
        free(value->text);
        free(value->key);
        free(value);
        value = next;
    }
}

json *json_get(const json *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    json *member = object->first;
    while (member && strcmp(member->key, key) != 0)
        member = member->next;
    return member;
}

json *json_at(const json *array, size_t index)
{
    if (!array || array->kind != JSON_ARRAY)
        return NULL;
    json *element = array->first;
    while (element && index-- > 0)
        element = element->next;
    return element;
}

int64_t json_int(const json *value, int64_t fallback)
{
    return value && value->kind == JSON_NUMBER && value->whole ? value->integer : fallback;
}

double json_real(const json *value, double fallback)
{
    return value && value->kind == JSON_NUMBER ? value->number : fallback;
}

bool json_bool(const json *value, bool fallback)
{
    return value && value->kind == JSON_BOOL ? value->integer != 0 : fallback;
}

const char *json_text(const json *value, const char *fallback)
{
    return value && value->kind == JSON_TEXT ? value->text : fallback;
}

bool json_is_null(const json *value)
{
    return value && value->kind == JSON_NULL;
}
