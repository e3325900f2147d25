/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof html`: a run as a page. */
#include <inttypes.h>
#include <stdlib.h>

#include "complain.h"
#include "prof/prof.h"
#include "prof/run_page.h"
#include "prof/view.h"

static const char usage[] = "usage: weft prof html [options] DIR\n\n"
                            "Writes a page about the traces in DIR for a browser. It needs nothing else, no other file "
                            "and no network, and says\n"
                            "what weft prof report says: where the time of a step went on each rank, what each bucket "
                            "cost, who came late, and\n"
                            "what to do; and it has timelines of some steps.";

typedef struct values {
    const char *out;
    option_texts steps;
} values;

static const option table[] = {
    {"out", OPTION_FILE, offsetof(values, out), 0, 0, "FILE", "where to; - = standard output (DIR/report.html)"},
    {"step", OPTION_TEXTS, offsetof(values, steps), 0, 0, "N",
     "draw the timeline of this step; may be repeated (those of median length and the longest)"},
};

typedef struct state {
    const option_texts *steps;
    prof_analysis analysis;
    prof_page page;
} state;

/* The steps that were asked for, in that order. */
static int take_steps(const option_texts *steps, prof_page *page)
{
    const prof_run *run = page->analysis->run;
    for (int i = 0; i < steps->count && i < PROF_PAGE_STEPS; i++) {
        char *end;
        bool digit = steps->items[i][0] >= '0' && steps->items[i][0] <= '9';
        unsigned long long number = strtoull(steps->items[i], &end, 10);
        if (!digit || *end)
            return complain(EXIT_USAGE, "--step is '%s', not a number", steps->items[i]);
        int step = 0;
        while (step < run->step_count && run->steps[step].number != number)
            step++;
        if (step == run->step_count)
            return complain(EXIT_USAGE, "--step %s: '%s' has no such step", steps->items[i], run->folder);
        page->steps[page->step_count++] = step;
    }
    if (steps->count == 0)
        prof_page_pick_steps(page);
    return EXIT_DONE;
}

static int prepare(const prof_split *split, void *of)
{
    state *s = of;
    s->page.analysis = &s->analysis;
    if (!prof_analyse(split, prof_select_default(split->run), &s->analysis))
        return complain(EXIT_FAILED, "no memory for the trace");
    prof_page_pick_ranks(&s->page);
    return take_steps(s->steps, &s->page);
}

static bool write(FILE *out, const prof_split *split, void *of)
{
    (void)split;
    return prof_page_write(out, &((state *)of)->page);
}

static void release(void *of)
{
    prof_analysis_close(&((state *)of)->analysis);
}

int prof_html(int argc, char **argv)
{
    static const prof_view view = {"report.html", prepare, write, release};
    values v = {0};
    state s = {.steps = &v.steps};
    const char *folder;
    int code = prof_view_options(usage, table, sizeof table / sizeof *table, argc, argv, &v, &folder);
    return code == OPTIONS_GO ? prof_view_write(&view, folder, v.out, &s) : code;
}
