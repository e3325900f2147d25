/* SPDX-License-Identifier: Apache-2.0 */
/* Each value: a comma if one stands before it, its name if it has one, then itself. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

static void begin_value(json_writer *json, const char *key)
{
    if (json->comma)
        fputc(',', json->out);
    if (key)
        fprintf(json->out, "\"%s\":", key);
    json->comma = true;
}

void json_open(json_writer *json, const char *key, char bracket)
{
    begin_value(json, key);
    fputc(bracket, json->out);
    json->comma = false;
}

void json_close(json_writer *json, char bracket)
{
    fputc(bracket, json->out);
    json->comma = true;
}

void json_put_number(json_writer *json, const char *key, double number)
{
    begin_value(json, key);
    if (isfinite(number))
        fprintf(json->out, "%.9g", number);
    else
        fputs("null", json->out);
}

void json_put_whole(json_writer *json, const char *key, int64_t number)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRId64, number);
}

void json_put_bool(json_writer *json, const char *key, bool is_true)
{
    begin_value(json, key);
    fputs(is_true ? "true" : "false", json->out);
}

void json_put_null(json_writer *json, const char *key)
{
    begin_value(json, key);
    fputs("null", json->out);
}

/* The bytes of the character that @p at begins with; 0 if it is none: cut off, longer than need be, a surrogate, or
 * above U+10FFFF. */
static size_t character(const unsigned char *at)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 0;
    if (bytes < 2)
        return bytes;
    uint32_t code = *at & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0u) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    bool is_character = *at < 0xf8 && code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return is_character ? bytes : 0;
}

void json_put_text(json_writer *json, const char *key, const char *text)
{
    begin_value(json, key);
    fputc('"', json->out);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        size_t bytes = character(c);
        if (*c == '"' || *c == '\\')
            fprintf(json->out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(json->out, "\\u%04x", *c);
        else if (bytes == 0)
            fputs("\\ufffd", json->out);
        else
            fwrite(c, 1, bytes, json->out);
        c += bytes ? bytes : 1;
    }
    fputc('"', json->out);
}

void json_end_line(json_writer *json)
{
    fputc('\n', json->out);
    json->comma = false;
}
