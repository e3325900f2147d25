/* SPDX-License-Identifier: Apache-2.0 */
/* A menu: a command that is one of several by its first word, such as `weft prof report`. */
#ifndef WEFT_BENCH_MENU_H
#define WEFT_BENCH_MENU_H
#include <stddef.h>
#include <stdio.h>

typedef struct menu_item {
    const char *name, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
} menu_item;

typedef struct menu {
    const char *command; /* "weft prof" */
    const char *usage;   /* what its help says before the items */
    const char *kind;    /* what an item is called: "view" */
    const menu_item *items;
    size_t count;
} menu;

/* NULL: there is none of that name. */
const menu_item *menu_find(const menu *m, const char *name);
/* A line for each item, its name behind @p before. */
void menu_print_items(const menu *m, const char *before, FILE *out);
/* Run the item that argv[1] names, or say what there is: the exit code. */
int menu_run(const menu *m, int argc, char **argv);

#endif
