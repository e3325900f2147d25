/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command: what is read, and what is refused with one line. */
#include "option.h"

#include <stdint.h>

#include "complain.h"
#include "harness/test.h"

typedef struct values {
    int whole, choice;
    size_t size;
    double real;
    bool flag, unflag;
    const char *text, *file;
} values;

#define FIELD(name) offsetof(values, name)

static const option table[] = {
    {"n", OPTION_INT, FIELD(whole), 1, 100, "N", "whole"},
    {"any|a|all-*", OPTION_INT, FIELD(whole), 0, 0, "N", "whole"},
    {"size", OPTION_SIZE, FIELD(size), 0, 0, "BYTES", "size"},
    {"real", OPTION_REAL, FIELD(real), 0, 0, "X", "real"},
    {"flag", OPTION_FLAG, FIELD(flag), 0, 0, NULL, "flag"},
    {"no-flag", OPTION_UNFLAG, FIELD(unflag), 0, 0, NULL, "unflag"},
    {"text", OPTION_TEXT, FIELD(text), 0, 0, "TEXT", "text"},
    {"file", OPTION_FILE, FIELD(file), 0, 0, "FILE", "file"},
    {"choice", OPTION_CHOICE, FIELD(choice), 0, 0, "one|two", "choice"},
    {"noted-*", OPTION_NOTED, 0, 0, 0, NULL, "noted"},
};

static char said[512];

/* Words end with NULL. */
static int read_words(values *v, int *rest, const char *const *words)
{
    char *argv[32] = {(char *)"test"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    *said = 0;
    complain_into(said, sizeof said);
    int code = options_read("usage", table, sizeof table / sizeof *table, argc, argv, v, rest);
    complain_into(NULL, 0);
    return code;
}

#define READ(v, rest, ...) read_words(v, rest, (const char *const[]){__VA_ARGS__, NULL})

TEST(every_kind_arrives_in_its_field)
{
    values v = {.unflag = true};
    int rest;
    CHECK_INT(READ(&v, &rest, "-n", "7", "--size", "3M", "--real=2.5", "--flag", "--no-flag", "--text", "--odd",
                   "--choice", "two", "--noted-x", "5", "6", "--", "--rest"),
              OPTIONS_GO);
    CHECK_INT(rest, 16);
    CHECK(v.whole == 7 && v.size == 3 << 20 && v.real == 2.5 && v.flag && !v.unflag && v.choice == 1);
    CHECK_STR(v.text, "--odd");
}

TEST(an_option_is_known_by_each_of_its_names_and_was_given_by_any)
{
    static const char *const words[] = {"--any", "-a", "--a", "--all-of-it"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        values v = {0};
        int rest;
        char *argv[] = {(char *)"test", (char *)(uintptr_t)words[i], (char *)"5"};
        CHECK_INT(READ(&v, &rest, words[i], "5"), OPTIONS_GO);
        CHECK_INT(v.whole, 5);
        CHECK(options_given("any|a|all-*", 3, argv));
        CHECK(!options_given("al|an|ann", 3, argv));
    }
    values v = {0};
    int rest;
    CHECK_INT(READ(&v, &rest, "--any|a", "5"), EXIT_USAGE);
}

TEST(a_file_that_is_not_named_is_standard_output)
{
    values v = {0};
    int rest;
    CHECK_INT(READ(&v, &rest, "--file"), OPTIONS_GO);
    CHECK_STR(v.file, "-");
    CHECK_INT(READ(&v, &rest, "--file", "name"), OPTIONS_GO);
    CHECK_STR(v.file, "name");
    CHECK_INT(READ(&v, &rest, "--file", "--flag"), OPTIONS_GO);
    CHECK(v.flag);
    CHECK_STR(v.file, "-");
    CHECK_INT(READ(&v, &rest, "--file=--odd"), OPTIONS_GO);
    CHECK_STR(v.file, "--odd");
    CHECK_INT(READ(&v, &rest, "--file", "-", "rest"), OPTIONS_GO);
    CHECK_INT(rest, 3);
    CHECK_INT(READ(&v, &rest, "--file", "/tmp"), OPTIONS_GO);
    CHECK_INT(rest, 2); /* a folder is what a command reads */
    CHECK_STR(v.file, "-");
    CHECK_INT(READ(&v, &rest, "--file=/tmp"), OPTIONS_GO);
    CHECK_STR(v.file, "/tmp");
}

static bool is_number(const char *word)
{
    return strspn(word, "0123456789") == strlen(word);
}

static int add_word(void *cookie, const char *word)
{
    char *all = cookie;
    size_t used = strlen(all);
    snprintf(all + used, 64 - used, "%s ", word);
    return strcmp(word, "bad") == 0 ? EXIT_FAILED : OPTIONS_GO;
}

TEST(operands_and_options_come_in_any_order)
{
    static const struct {
        const char *words[6], *operands, *file;
        int code;
    } cases[] = {
        {{"1", "two", "--file"}, "1 two ", "-", OPTIONS_GO},
        {{"--file", "1", "two"}, "1 two ", "-", OPTIONS_GO},
        {{"1", "--file", "two"}, "1 ", "two", OPTIONS_GO},
        {{"--file", "-", "1"}, "1 ", "-", OPTIONS_GO},
        {{"--file=1", "--", "-n", "7"}, "-n 7 ", "1", OPTIONS_GO},
        {{"--file=f", "bad", "-n"}, "bad ", "f", EXIT_FAILED},
        {{"1", "--odd", "2"}, "1 ", NULL, EXIT_USAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values v = {0};
        char all[64] = "", *argv[8] = {(char *)"test"};
        int argc = 1;
        for (; cases[i].words[argc - 1]; argc++)
            argv[argc] = (char *)cases[i].words[argc - 1];
        const options_operands operands = {is_number, add_word, all};
        complain_into(said, sizeof said);
        int code = options_read_mixed("usage", table, sizeof table / sizeof *table, argc, argv, &v, &operands);
        complain_into(NULL, 0);
        CHECK_INT(code, cases[i].code);
        CHECK_STR(all, cases[i].operands);
        CHECK_STR(v.file ? v.file : "none", cases[i].file ? cases[i].file : "none");
    }
}

TEST(what_is_wrong_is_a_usage_error_that_names_the_option_and_the_word)
{
    static const struct {
        const char *word, *value, *says;
    } cases[] = {
        {"--bogus", NULL, "unknown option '--bogus'"},
        {"--", "x", ""}, /* no option at all: go on */
        {"-n", "0", "-n is '0', not a number from 1 to 100"},
        {"-n", "101", "-n is '101'"},
        {"-n", "", "-n is ''"},
        {"-n", " 5", "-n is ' 5'"},
        {"-n", "5 ", "-n is '5 '"},
        {"-n", "5x", "-n is '5x'"},
        {"-n", "1e1", "-n is '1e1'"},
        {"-n", NULL, "-n wants a value"},
        {"-a", "x", "-a is 'x', not a number"},
        {"--all-of-it", NULL, "--all-of-it wants a value"},
        {"--any", "2147483648", "--any is '2147483648', not a number"},
        {"--any", "99999999999999999999", "--any is '99999999999999999999'"},
        {"--size", "-1", "--size is '-1'"},
        {"--size", "-1K", "--size is '-1K'"},
        {"--size", "9000000000G", "--size is '9000000000G'"},
        {"--size", "5KB", "--size is '5KB'"},
        {"--size", "K", "--size is 'K'"},
        {"--real", "nan", "--real is 'nan'"},
        {"--real", "inf", "--real is 'inf'"},
        {"--real", "1e999", "--real is '1e999'"},
        {"--real", "1,5", "--real is '1,5'"},
        {"--real", " 1", "--real is ' 1'"},
        {"--real", "", "--real is ''"},
        {"--flag=1", NULL, "--flag takes no value"},
        {"--choice", "on", "--choice is 'on', not one of one|two"},
        {"--choice", "", "--choice is ''"},
        {"--choice", "one|two", "--choice is 'one|two'"},
        {"--bo\ngus\x1b[2J", NULL, "unknown option '--bo?gus?[2J'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values v = {0};
        int rest, code = READ(&v, &rest, cases[i].word, cases[i].value);
        CHECK_MSG(code == (*cases[i].says ? EXIT_USAGE : OPTIONS_GO), "%s %s", cases[i].word, cases[i].value);
        CHECK_HAS(said, cases[i].says);
    }
}

TEST(an_option_behind_two_dashes_was_not_given)
{
    char *argv[] = {(char *)"test", (char *)"--real=1", (char *)"--", (char *)"-n", (char *)"3"};
    CHECK(options_given("real", 5, argv));
    CHECK(!options_given("n", 5, argv));
}
