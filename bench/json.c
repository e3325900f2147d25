/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON, value by value: a comma if one stands before it, its name if it has one, then itself. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "utf8.h"

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

void json_put_decimals(json_writer *json, const char *key, double number, int decimals)
{
    if (!isfinite(number)) {
        json_put_null(json, key);
        return;
    }
    begin_value(json, key);
    fprintf(json->out, "%.*f", decimals, number);
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

void json_put_text(json_writer *json, const char *key, const char *text)
{
    begin_value(json, key);
    fputc('"', json->out);
    for (const char *c = text; *c;) {
        size_t bytes = utf8_bytes(c);
        if (*c == '"' || *c == '\\')
            fprintf(json->out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(json->out, "\\u%04x", (unsigned)*c);
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
