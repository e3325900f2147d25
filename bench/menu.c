/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what the first word names; help is a result, and what to say to wrong usage a message. */
#include "menu.h"

#include <string.h>

#include "complain.h"

const menu_item *menu_find(const menu *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(name, m->items[i].name) == 0)
            return &m->items[i];
    return NULL;
}

void menu_print_items(const menu *m, const char *before, FILE *out)
{
    for (size_t i = 0; i < m->count; i++)
        fprintf(out, "  %s%-10s %s\n", before, m->items[i].name, m->items[i].help);
}

static int print_help(const menu *m, FILE *out, int code)
{
    fputs(m->usage, out);
    menu_print_items(m, "", out);
    return code;
}

int menu_run(const menu *m, int argc, char **argv)
{
    if (argc < 2)
        return print_help(m, stderr, EXIT_USAGE);
    if (strcmp(argv[1], "--help") == 0)
        return print_help(m, stdout, EXIT_DONE);
    const menu_item *item = menu_find(m, argv[1]);
    if (!item)
        return complain(EXIT_USAGE, "there is no %s '%s' (see %s --help)", m->kind, argv[1], m->command);
    return item->run(argc - 1, argv + 1);
}
