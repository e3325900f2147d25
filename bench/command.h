/* SPDX-License-Identifier: Apache-2.0 */
/* What every subcommand of `weft` shares: exit codes, and options read from one table. */
#ifndef WEFT_BENCH_COMMAND_H
#define WEFT_BENCH_COMMAND_H
#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,   /* the run failed */
    EXIT_USAGE = 2,    /* wrong options */
    EXIT_LIMIT = 3,    /* a --fail-... limit was exceeded */
    EXIT_DEADLINE = 4, /* a deadline passed */
    EXIT_WRONG = 7     /* wrong values */
};

typedef enum option_kind {
    OPTION_FLAG,   /* bool, no value */
    OPTION_UNFLAG, /* bool, no value: sets false */
    OPTION_INT,    /* int */
    OPTION_SIZE,   /* size_t; K M G (1024) may follow */
    OPTION_REAL,   /* double */
    OPTION_TEXT,   /* const char *, borrowed from argv */
    OPTION_CHOICE, /* int: index into the words of `shown`, separated by | */
    OPTION_NOTED   /* no field: understood, said to be without effect; a value may follow */
} option_kind;

typedef struct option {
    const char *name; /* without the dashes; one letter: -n as well as --n; * stands for any letters */
    option_kind kind;
    size_t field;      /* offset into the values */
    double min, max;   /* for numbers; both 0 = any */
    const char *shown; /* what stands for the value in the help: "N", "SECONDS", "core|none" */
    const char *help;  /* with unit and default; NULL = another name of the option above */
} option;

typedef enum options_result { OPTIONS_GO, OPTIONS_HELP, OPTIONS_WRONG } options_result;

/* Read argv[1...] into @p values, which hold the defaults, until the first word that is no option (or behind "--");
 * *rest is its index. "--help" prints @p usage and the table on stdout. What is wrong is named on stderr. */
options_result options_read(const char *usage, const option *table, size_t count, int argc, char **argv, void *values,
                            int *rest);
/* The first option of the table that @p word (with its dashes) names, or NULL; *value points behind "=", or is NULL. */
const option *options_find(const option *table, size_t count, const char *word, const char **value);
/* Was the option given? Only after options_read() on the same argv. */
bool options_given(const char *name, int argc, char **argv);

/* "weft: ..." on stderr, and the code to return. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put complaints into @p text from here on, without the "weft: "; NULL: back to stderr. While there is one thread. */
void complain_into(char *text, size_t bytes);

#endif
