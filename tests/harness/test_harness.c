/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers of the tests themselves: digests, JSON, splitting text. */
#include <stdlib.h>

#include "harness/golden.h"
#include "harness/json.h"
#include "harness/sha256.h"
#include "harness/test.h"

/* Values of `sha256sum`: nothing, three letters, and lengths around the edge of a block of 64. */
TEST(sha256_gives_the_known_digests)
{
    static const struct {
        size_t letters; /* of the letter a */
        const char *digest;
    } known[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {1000, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"},
    };
    char text[1000], hex[65];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sha256_hex(text, known[i].letters, hex);
        CHECK_STR(hex, known[i].digest);
    }
    sha256_hex("abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static json *parse(const char *text)
{
    char message[128] = "";
    json *value = json_parse(text, message, sizeof message);
    if (!value)
        FAIL("%s: %s", text, message);
    return value;
}

TEST(json_is_read_as_it_was_written)
{
    json *j =
        parse(" {\"a\": [1, -2.5e1, true, null], \"b\": {}, \"s\": \"x\\n\\u00e9\\ud83d\\ude00\\\"\", \"a\": 3 } ");
    CHECK_INT(j->count, 4);
    CHECK_INT(json_get(j, "a")->count, 4);
    CHECK_INT(json_int(json_at(json_get(j, "a"), 0), 9), 1);
    CHECK_NEAR(json_real(json_at(json_get(j, "a"), 1), 0), -25, 0);
    CHECK_INT(json_int(json_at(json_get(j, "a"), 1), 9), 9); /* not whole */
    CHECK(json_bool(json_at(json_get(j, "a"), 2), false));
    CHECK(json_is_null(json_at(json_get(j, "a"), 3)));
    CHECK(json_at(json_get(j, "a"), 4) == NULL);
    CHECK_INT(json_get(j, "b")->count, 0);
    CHECK_STR(json_text(json_get(j, "s"), ""), "x\n\xc3\xa9\xf0\x9f\x98\x80\"");
    CHECK(json_get(j, "none") == NULL);
    CHECK_INT(json_int(json_get(j, "none"), -7), -7);
    json_free(j);
    j = parse("9007199254740993"); /* beyond what a double holds */
    CHECK(json_int(j, 0) == 9007199254740993);
    json_free(j);
}

TEST(json_that_is_none_is_refused_with_the_place)
{
    static const char *const wrong[] = {
        "",    "{",       "[1,]", "[1 2]", "{\"a\" 1}", "{a:1}",       "01",          "1.",          "-",      "1e",
        "\"a", "\"\\x\"", "tru",  "[1]]",  "{\"a\":}",  "\"\\ud83d\"", "\"\\u12g4\"", "\"\\u0000\"", "\"\n\"", "\"a\\"};
    char message[128];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json *value = json_parse(wrong[i], message, sizeof message);
        CHECK_MSG(value == NULL, "'%s' was read", wrong[i]);
        CHECK_HAS(message, " at byte ");
    }
    static char deep[100001];
    memset(deep, '[', sizeof deep - 1);
    CHECK(json_parse(deep, message, sizeof message) == NULL);
    CHECK_HAS(message, "nested too deeply");
}

TEST(text_is_split_at_every_separator)
{
    char text[] = "a\t\tb\t";
    char *fields[8];
    CHECK_INT(split(text, '\t', fields, 8), 4);
    CHECK_STR(fields[0], "a");
    CHECK_STR(fields[1], "");
    CHECK_STR(fields[2], "b");
    CHECK_STR(fields[3], "");
}
