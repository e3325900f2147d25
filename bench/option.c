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
    if (has_file)
        puts("\n[FILE]: left out, it is -, standard output.");
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

int options_read(const char *usage, const option *table, size_t count, int argc, char **argv, void *values, int *rest)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1]) {
        const char *word = argv[i++];
        if (strcmp(word, "--") == 0)
            break;
        if (strcmp(word, "--help") == 0) {
            print_help(usage, table, count);
            return EXIT_DONE;
        }
        const char *value = NULL;
        const option *o = options_find(table, count, word, &value);
        if (!o)
            return complain(EXIT_USAGE, "unknown option '%s' (see --help)", word);
        char name[70];
        int length;
        const char *start = name_in(word, &length);
        snprintf(name, sizeof name, "%s%.*s", dashes(length), length, start);
        if (!takes_value(o->kind) && o->kind != OPTION_NOTED && value)
            return complain(EXIT_USAGE, "%s takes no value", name);
        while (o->kind == OPTION_NOTED && !value && i < argc && argv[i][0] != '-')
            i++;
        bool follows = i < argc && (argv[i][0] != '-' || !argv[i][1]);
        if (o->kind == OPTION_FILE && !value && !follows)
            value = "-";
        if (takes_value(o->kind) && !value) {
            if (i >= argc)
                return complain(EXIT_USAGE, "%s wants a value", name);
            value = argv[i++];
        }
        int code = store(o, name, value, values);
        if (code != OPTIONS_GO)
            return code;
    }
    *rest = i;
    return OPTIONS_GO;
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
