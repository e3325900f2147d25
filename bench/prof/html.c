/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof html`: a run as a page. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "complain.h"
#include "prof/prof.h"
#include "prof/run_page.h"

static const char usage[] =
    "usage: weft prof html DIR [--out FILE] [--step N]...\n\n"
    "Writes a page about the traces in DIR for a browser; it needs nothing else, no other file and no network. It "
    "shows\n"
    "what a step consisted of on each rank, timelines of some steps, what each bucket cost and who came late.";

typedef struct values {
    const char *out;
    option_texts steps;
} values;

static const option table[] = {
    {"out", OPTION_FILE, offsetof(values, out), 0, 0, "FILE",
     "where to; - = standard output (default DIR/report.html)"},
    {"step", OPTION_TEXTS, offsetof(values, steps), 0, 0, "N",
     "draw the timeline of this step; may be repeated (default: the one of median time and the longest)"},
};

static bool write(FILE *out, const prof_run *run, const void *given)
{
    const values *v = given;
    prof_page page = {.run = run};
    for (int i = 0; i < run->step_count; i++)
        for (int k = 0; k < v->steps.count; k++)
            if (run->steps[i].number == strtoull(v->steps.items[k], NULL, 10) && page.step_count < PROF_PAGE_STEPS)
                page.steps[page.step_count++] = i;
    return prof_page_write(out, &page);
}

int prof_html(int argc, char **argv)
{
    values v = {0};
    const char *folder;
    int code = prof_options(usage, table, sizeof table / sizeof *table, argc, argv, &v, &folder);
    return code == OPTIONS_GO ? prof_write(folder, v.out, "report.html", write, &v) : code;
}
