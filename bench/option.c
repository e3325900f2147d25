/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the words of a command line one by one, finds each in the table, and checks and stores its value. */
#include "option.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"

static bool takes_value(option_kind kind)
{
    return kind != OPTION_FLAG && kind != OPTION_UNFLAG && kind != OPTION_NOTED;
}

static const char *dashes(int length)
{
    return length == 1 ? "-" : "--";
}

const char *options_word(const char *words, int index, int *length)
{
    for (; index > 0; index--) {
        words += strcspn(words, "|");
        if (!*words++)
            return NULL;
    }
    *length = (int)strcspn(words, "|");
    return words;
}

static void print_help(const char *usage, const option *table, size_t count)
{
    bool has_file = false;
    printf("%s\n\noptions:\n", usage);
    for (const option *o = table; o < table + count; o++) {
        char left[128];
        const char *name;
        int n = 0, length;
        for (int i = 0; (name = options_word(o->name, i, &length)); i++)
            n += snprintf(left + n, sizeof left - (size_t)n, "%s%s%.*s", i ? ", " : "", dashes(length), length, name);
        if (takes_value(o->kind))
            snprintf(left + n, sizeof left - (size_t)n, o->kind == OPTION_FILE ? " [%s]" : " %s",
                     o->shown ? o->shown : "VALUE");
        printf("  %-34s %s\n", left, o->help);
        has_file |= o->kind == OPTION_FILE;
    }
    printf("  %-34s %s\n", "--help", "this text");
    puts("\n(VALUE) at the end of a line: what holds unless said.");
    if (has_file)
        puts("[FILE]: left out, it is -, standard output, which then has nothing else.");
}

/* The name in @p word, which begins with dashes. */
static const char *name_in(const char *word, int *length)
{
    const char *name = word + (word[1] == '-' ? 2 : 1);
    *length = (int)strcspn(name, "=");
    return name;
}

/* Does @p word name @p o? *value points behind "=", if there is one. */
static bool matches(const option *o, const char *word, const char **value)
{
    char given[64], known[64];
    int given_length, length;
    const char *start = name_in(word, &given_length), *name;
    if (given_length >= (int)sizeof given)
        return false;
    snprintf(given, sizeof given, "%.*s", given_length, start);
    *value = start[given_length] == '=' ? start + given_length + 1 : NULL;
    for (int i = 0; (name = options_word(o->name, i, &length)); i++) {
        snprintf(known, sizeof known, "%.*s", length, name);
        if (fnmatch(known, given, 0) == 0)
            return true;
    }
    return false;
}

const option *options_find(const option *table, size_t count, const char *word, const char **value)
{
    for (size_t k = 0; k < count; k++)
        if (matches(&table[k], word, value))
            return &table[k];
    return NULL;
}

static bool out_of_range(const option *o, double number)
{
    return (o->min != 0 || o->max != 0) && (number < o->min || number > o->max);
}

static bool read_whole(const char *text, bool with_unit, long long *number)
{
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (errno || end == text || isspace((unsigned char)*text))
        return false;
    if (with_unit && *end) {
        const char *unit = strchr("KMG", toupper((unsigned char)*end));
        long long factor = unit ? 1ll << (10 * (unit - "KMG" + 1)) : 0;
        if (!factor || end[1] || *number > LLONG_MAX / factor || *number < 0)
            return false;
        *number *= factor;
        return true;
    }
    return *end == 0;
}

static int choice_index(const char *words, const char *text)
{
    int length;
    const char *word;
    for (int i = 0; (word = options_word(words, i, &length)); i++)
        if (strlen(text) == (size_t)length && strncmp(word, text, (size_t)length) == 0)
            return i;
    return -1;
}

static int wrong_value(const option *o, const char *name, const char *text)
{
    if (o->kind == OPTION_CHOICE)
        return complain(EXIT_USAGE, "%s is '%s', not one of %s", name, text, o->shown);
    if (o->min != 0 || o->max != 0)
        return complain(EXIT_USAGE, "%s is '%s', not a number from %.15g to %.15g", name, text, o->min, o->max);
    return complain(EXIT_USAGE, "%s is '%s', not a number", name, text);
}

/* @p name: with its dashes, as complaints say it. */
static int store(const option *o, const char *name, const char *text, void *values)
{
    void *field = (char *)values + o->field;
    long long whole;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_UNFLAG:
        *(bool *)field = o->kind == OPTION_FLAG;
        return OPTIONS_GO;
    case OPTION_INT:
        if (!read_whole(text, false, &whole) || whole < INT_MIN || whole > INT_MAX || out_of_range(o, (double)whole))
            return wrong_value(o, name, text);
        *(int *)field = (int)whole;
        return OPTIONS_GO;
    case OPTION_SIZE:
        if (!read_whole(text, true, &whole) || whole < 0 || out_of_range(o, (double)whole))
            return wrong_value(o, name, text);
        *(size_t *)field = (size_t)whole;
        return OPTIONS_GO;
    case OPTION_REAL: {
        char *end;
        double number = strtod(text, &end);
        if (end == text || *end || isspace((unsigned char)*text) || !isfinite(number) || out_of_range(o, number))
            return wrong_value(o, name, text);
        *(double *)field = number;
        return OPTIONS_GO;
    }
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)field = text;
        return OPTIONS_GO;
    case OPTION_TEXTS: {
        option_texts *texts = field;
        if (texts->count == OPTION_TEXTS_MAX)
            return complain(EXIT_USAGE, "%s is given more than %d times", name, OPTION_TEXTS_MAX);
        texts->items[texts->count++] = text;
        return OPTIONS_GO;
    }
    case OPTION_CHOICE: {
        int index = choice_index(o->shown, text);
        if (index < 0)
            return wrong_value(o, name, text);
        *(int *)field = index;
        return OPTIONS_GO;
    }
    case OPTION_NOTED:
        break;
    }
    return OPTIONS_GO;
}

typedef struct reader {
    const char *usage;
    const option *table;
    size_t count;
    int argc;
    char **argv;
    int at; /* the next word */
    bool (*is_operand)(const char *word);
} reader;

static bool is_folder(const char *word)
{
    struct stat about;
    return stat(word, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Is the next word a file's name? A folder is never written to; it is what a command reads. */
static bool file_follows(const reader *r)
{
    const char *word = r->at < r->argc ? r->argv[r->at] : NULL;
    return word && (word[0] != '-' || !word[1]) && !is_folder(word) && !(r->is_operand && r->is_operand(word));
}

/* One option, and its value. */
static int read_option(reader *r, void *values)
{
    const char *word = r->argv[r->at++], *value = NULL;
    if (strcmp(word, "--help") == 0) {
        print_help(r->usage, r->table, r->count);
        return EXIT_DONE;
    }
    const option *o = options_find(r->table, r->count, word, &value);
    if (!o)
        return complain(EXIT_USAGE, "unknown option '%s' (see --help)", word);
    char name[70];
    int length;
    const char *start = name_in(word, &length);
    snprintf(name, sizeof name, "%s%.*s", dashes(length), length, start);
    if (!takes_value(o->kind) && o->kind != OPTION_NOTED && value)
        return complain(EXIT_USAGE, "%s takes no value", name);
    while (o->kind == OPTION_NOTED && !value && r->at < r->argc && r->argv[r->at][0] != '-')
        r->at++;
    if (o->kind == OPTION_FILE && !value && !file_follows(r))
        value = "-";
    if (takes_value(o->kind) && !value) {
        if (r->at >= r->argc)
            return complain(EXIT_USAGE, "%s wants a value", name);
        value = r->argv[r->at++];
    }
    return store(o, name, value, values);
}

/* Up to the first word that is no option, or behind "--", which *ended tells. */
static int read_options(reader *r, void *values, bool *ended)
{
    int code = OPTIONS_GO;
    *ended = false;
    while (code == OPTIONS_GO && r->at < r->argc && r->argv[r->at][0] == '-' && r->argv[r->at][1] && !*ended) {
        *ended = strcmp(r->argv[r->at], "--") == 0;
        if (*ended)
            r->at++;
        else
            code = read_option(r, values);
    }
    return code;
}

int options_read(const char *usage, const option *table, size_t count, int argc, char **argv, void *values, int *rest)
{
    bool ended;
    reader r = {usage, table, count, argc, argv, 1, NULL};
    int code = read_options(&r, values, &ended);
    *rest = r.at;
    return code;
}

int options_read_mixed(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                       const options_operands *operands)
{
    bool ended = false;
    reader r = {usage, table, count, argc, argv, 1, operands->is_known};
    int code = OPTIONS_GO;
    while (code == OPTIONS_GO && r.at < argc) {
        if (!ended)
            code = read_options(&r, values, &ended);
        if (code == OPTIONS_GO && r.at < argc)
            code = operands->take(operands->cookie, argv[r.at++]);
    }
    return code;
}

bool options_given(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value;
        option o = {.name = name};
        if (argv[i][0] == '-' && matches(&o, argv[i], &value))
            return true;
    }
    return false;
}
