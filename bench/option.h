/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of a subcommand into a struct, as one table says. */
#ifndef WEFT_BENCH_OPTION_H
#define WEFT_BENCH_OPTION_H
#include <stdbool.h>
#include <stddef.h>

typedef enum option_kind {
    OPTION_FLAG,   /* bool, no value */
    OPTION_UNFLAG, /* bool, no value: sets false */
    OPTION_INT,    /* int */
    OPTION_SIZE,   /* size_t; K M G (1024), or k m g, may follow */
    OPTION_REAL,   /* double */
    OPTION_TEXT,   /* const char *, borrowed from argv */
    OPTION_TEXTS,  /* option_texts: may be given several times */
    OPTION_FILE,   /* const char *, borrowed from argv; "-" if an option, an operand, a folder or nothing follows */
    OPTION_CHOICE, /* int: index into the words of `shown`, separated by | */
    OPTION_NOTED   /* no field: understood, said to be without effect; values may follow */
} option_kind;

#define OPTION_TEXTS_MAX 8
typedef struct option_texts {
    const char *items[OPTION_TEXTS_MAX]; /* borrowed from argv */
    int count;
} option_texts;

typedef struct option {
    const char *name; /* or names, separated by |; without the dashes; one letter: -n; * stands for any letters */
    option_kind kind;
    size_t field;      /* offset into the values */
    double min, max;   /* for numbers; both 0 = any */
    const char *shown; /* what stands for the value in the help: "N", "SECONDS", "core|none" */
    const char *help;  /* with unit and default */
} option;

enum { OPTIONS_GO = -1 }; /* no exit code: go on */

/* Read argv[1...] into @p values, which hold the defaults, until the first word that is no option (or behind "--");
 * *rest is its index. OPTIONS_GO, or the code to exit with: EXIT_DONE after "--help", which prints @p usage and the
 * table on stdout, EXIT_USAGE after a complaint that names what is wrong. */
int options_read(const char *usage, const option *table, size_t count, int argc, char **argv, void *values, int *rest);
/* What a command takes besides options. */
typedef struct options_operands {
    bool (*is_known)(const char *word);          /* Surely an operand, not the file of an option; NULL: none is. */
    int (*take)(void *cookie, const char *word); /* OPTIONS_GO, or the code to exit with after a complaint. */
    void *cookie;
} options_operands;
/* The same of a command whose operands stand before, between and behind options: hands over each. */
int options_read_mixed(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                       const options_operands *operands);
/* The first option of the table that @p word (with its dashes) names, or NULL; *value points behind "=", or is NULL. */
const option *options_find(const option *table, size_t count, const char *word, const char **value);
/* Was the option given, by one of its names? Only after options_read() on the same argv. */
bool options_given(const char *name, int argc, char **argv);
/* Word @p index of "a|b|c", which has *length letters; NULL behind the last. */
const char *options_word(const char *words, int index, int *length);

#endif
