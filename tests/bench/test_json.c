/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of JSON: what it puts between values, what it escapes, what is null. */
#include "json.h"

#include <math.h>

#include "harness/test.h"

static char text[1024];

static json_writer open_text(void)
{
    json_writer json = {.out = fmemopen(text, sizeof text, "w")};
    CHECK(json.out);
    return json;
}

static const char *close_text(const json_writer *json)
{
    fclose(json->out);
    return text;
}

TEST(commas_stand_between_values_at_every_depth)
{
    json_writer json = open_text();
    for (int line = 0; line < 2; line++) {
        json_open(&json, NULL, '{');
        json_open(&json, "empty", '[');
        json_close(&json, ']');
        json_open(&json, "list", '[');
        json_put_whole(&json, NULL, -1);
        json_open(&json, NULL, '{');
        json_close(&json, '}');
        json_put_bool(&json, NULL, true);
        json_close(&json, ']');
        json_put_null(&json, "nothing");
        json_close(&json, '}');
        json_end_line(&json);
    }
    CHECK_STR(close_text(&json), "{\"empty\":[],\"list\":[-1,{},true],\"nothing\":null}\n"
                                 "{\"empty\":[],\"list\":[-1,{},true],\"nothing\":null}\n");
}

TEST(numbers_are_numbers_and_what_is_not_finite_is_null)
{
    json_writer json = open_text();
    json_open(&json, NULL, '[');
    json_put_number(&json, NULL, 0.1);
    json_put_number(&json, NULL, (double)NAN);
    json_put_number(&json, NULL, -(double)INFINITY);
    json_put_decimals(&json, NULL, 123456789012.3456, 3);
    json_put_decimals(&json, NULL, (double)INFINITY, 3);
    json_put_whole(&json, NULL, INT64_MAX);
    json_put_whole(&json, NULL, INT64_MIN);
    json_close(&json, ']');
    CHECK_STR(close_text(&json), "[0.1,null,null,123456789012.346,null,9223372036854775807,-9223372036854775808]");
}

static void check_text(const char *put, const char *written)
{
    json_writer json = open_text();
    json_put_text(&json, "k", put);
    char want[256];
    snprintf(want, sizeof want, "\"k\":\"%s\"", written);
    CHECK_STR(close_text(&json), want);
}

TEST(texts_are_escaped)
{
    check_text("", "");
    check_text("a \"quoted\" \\ word/", "a \\\"quoted\\\" \\\\ word/");
    check_text("\n\t\x01\x1f\x7f", "\\u000a\\u0009\\u0001\\u001f\x7f");
    check_text("M\xc3\xbcller \xe2\x82\xac \xf0\x9f\x98\x80", "M\xc3\xbcller \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(bytes_that_are_no_utf8_are_replaced)
{
    check_text("a\xff", "a\\ufffd");
    check_text("\x80z", "\\ufffdz");
    check_text("\xc3", "\\ufffd");                                  /* cut off */
    check_text("\xe2\x82", "\\ufffd\\ufffd");                       /* cut off */
    check_text("\xc0\xaf", "\\ufffd\\ufffd");                       /* longer than need be */
    check_text("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd");            /* a surrogate */
    check_text("\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"); /* above U+10FFFF */
    check_text("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
}
