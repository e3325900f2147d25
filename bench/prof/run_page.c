/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the page together: first what a reader should do, then why. */
#include "prof/run_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bars.h"
#include "page.h"
#include "plural.h"
#include "prof/report.h"
#include "prof/timeline.h"

#define MS 1e-6

enum { BOXES = 12000 /* of all timelines: some 250 bytes each */, LIST = 50 /* lines of a list */ };

static const char rules[] =
    ".timeline { user-select: none; } .timeline .labels { pointer-events: none; }\n"
    ".timeline .spans rect, .timeline .operations rect { stroke: var(--edge); stroke-width: 0.6px;\n"
    "  vector-effect: non-scaling-stroke; }\n"
    "button { font: inherit; min-width: 2.2em; } dt { float: left; clear: left; width: 11em; }\n"
    "dd { margin-left: 11em; } ol { margin: 0.4em 0; padding-left: 1.6em; }\n";

/* ---- words ---- */

static int count_hosts(const prof_run *run)
{
    int hosts = 0;
    for (int i = 0; i < run->count; i++) {
        int seen = 0;
        while (seen < i && strcmp(run->ranks[seen].host, run->ranks[i].host) != 0)
            seen++;
        hosts += seen == i;
    }
    return hosts;
}

static void put_summary(FILE *out, const prof_analysis *a)
{
    const prof_totals *t = &a->totals;
    const prof_budget *b = &t->mean;
    prof_span span = prof_selected_steps(a);
    if (t->windows == 0) {
        page_text(out, "p", "No step is whole, so there is nothing to take means of.");
        return;
    }
    if (a->run->steps_marked)
        page_text(out, "p",
                  "Looked at: %d of %d step%s, %llu to %llu. A step takes %.2f ms (median; the longest %.2f ms).",
                  span.count, a->run->step_count, plural((size_t)a->run->step_count, "s"), span.first, span.last,
                  t->steps[t->step_count / 2] * MS, t->steps[t->step_count - 1] * MS);
    else
        page_text(out, "p", "No step is marked, so the whole run, %.2f ms, is taken for one.", t->mean.step * MS);
    if (b->hidden + b->exposed <= 0)
        page_text(out, "p", "No operation was under way.");
    else
        page_text(
            out, "p",
            "On average operations are under way for %.2f ms of a step. Computing hides %.2f ms of that (%.1f %%); for "
            "%.2f ms, %.1f %% of the step, a rank does nothing but wait for them.",
            (b->hidden + b->exposed) * MS, b->hidden * MS, prof_percent(b->hidden, b->hidden + b->exposed),
            b->exposed * MS, prof_percent(b->exposed, b->step));
}

static void put_list(FILE *out, const char *tag, char **lines, size_t count)
{
    fprintf(out, "<%s>\n", tag);
    for (size_t i = 0; i < count && i < LIST; i++)
        page_text(out, "li", "%s", lines[i]);
    if (count > LIST)
        page_text(out, "li", "and %zu more, which weft prof report lists", count - LIST);
    fprintf(out, "</%s>\n", tag);
}

static void put_hints(FILE *out, const prof_analysis *a)
{
    page_text(out, "h2", "What to do");
    if (a->hint_count > 0)
        put_list(out, "ol", a->hints, a->hint_count);
    else
        page_text(out, "p", "Nothing stands out.");
}

static void put_words(FILE *out)
{
    static const char *const words[][2] = {
        {"computing only", "the rank computes, and none of its operations is under way"},
        {"hidden", "it computes while some are: this communication costs nothing"},
        {"exposed", "it waits while some are, be it that bytes move or that the last rank has not come yet"},
        {"idle", "it waits, and none of its own is under way"},
    };
    fputs("<dl class=\"note\">\n", out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        page_text(out, "dt", "%s", words[i][0]);
        page_text(out, "dd", "%s", words[i][1]);
    }
    fputs("</dl>\n", out);
}

/* ---- pictures ---- */

static void put_left_out(FILE *out, const prof_page *p)
{
    int left = p->analysis->run->count - p->rank_count;
    if (left > 0)
        page_text(out, "p class=\"note\"",
                  "%d of %d ranks are shown, here and below: those with most exposed, and others at even distances. %d "
                  "are left out; the means are of all.",
                  p->rank_count, p->analysis->run->count, left);
}

static bool put_budget(FILE *out, const prof_page *p)
{
    const prof_totals *t = &p->analysis->totals;
    const prof_run *run = p->analysis->run;
    bars_row *rows = calloc((size_t)p->rank_count + 1, sizeof *rows);
    if (!rows)
        return false;
    for (int i = 0; i <= p->rank_count; i++) {
        const prof_budget *b = i == 0 ? &t->mean : &t->ranks[p->ranks[i - 1]];
        rows[i] = (bars_row){.ms = {b->computing * MS, b->hidden * MS, b->exposed * MS, b->idle * MS}};
        if (i == 0)
            snprintf(rows[i].who, sizeof rows[i].who, "mean of %d rank%s", run->count, plural((size_t)run->count, "s"));
        else
            snprintf(rows[i].who, sizeof rows[i].who, "rank %d", run->ranks[p->ranks[i - 1]].rank);
    }
    page_text(out, "h2", "Where the time of a step went");
    put_left_out(out, p);
    bars_draw(out, &(bars){.title = "the time of a step, by rank",
                           .parts = bars_step,
                           .part_count = BARS_STEP,
                           .rows = rows,
                           .row_count = p->rank_count > 1 ? p->rank_count + 1 : 1,
                           .width = TIMELINE_WIDTH,
                           .bar = p->rank_count > 16 ? 12 : 22,
                           .gap = p->rank_count > 16 ? 2 : 6,
                           .who = 150});
    page_text(out, "p class=\"note\"", "Milliseconds a step, each a union of intervals, which add up to the step.");
    put_words(out);
    free(rows);
    return true;
}

static void say_joined(FILE *out, const timeline *t)
{
    if (t->joined_ns > 0)
        page_text(
            out, "p class=\"note\"",
            "What lies within %.3f ms is joined: %zu boxes stand for %zu stretches, spans and operations, each in "
            "the colour of what takes most of it.",
            (double)t->joined_ns * MS, t->boxes, t->things);
}

static bool put_timelines(FILE *out, const prof_page *p)
{
    const prof_run *run = p->analysis->run;
    bool done = true;
    page_text(out, "h2", "Timelines");
    page_text(out, "p class=\"note\"",
              "A band for each rank says what it did; below it are the spans that were marked (F is a forward, B a "
              "backward, with the number of their microbatch) and the operations, each from when it was taken up until "
              "it was complete. Pointing at a box tells more.");
    for (int i = 0; done && i < p->step_count; i++) {
        timeline t = {.split = p->analysis->split,
                      .step = p->steps[i],
                      .ranks = p->ranks,
                      .count = p->rank_count,
                      .most = BOXES / (size_t)p->step_count};
        if (run->steps_marked)
            page_text(out, "h3", "Step %" PRIu64 "%s", run->steps[p->steps[i]].number, p->why[i] ? p->why[i] : "");
        done = timeline_draw(out, &t);
        say_joined(out, &t);
    }
    if (p->step_count == 0)
        page_text(out, "p", "No step is whole on all ranks.");
    return done;
}

/* ---- the end ---- */

static void put_checks(FILE *out, const prof_analysis *a)
{
    const prof_run *run = a->run;
    page_text(out, "h2", "Checks");
    fputs("<ul>\n", out);
    if (a->collectives_least == a->collectives_most)
        page_text(out, "li", "Collectives of a rank in a step: %zu, always.", a->collectives_most);
    else
        page_text(out, "li", "Collectives of a rank in a step: %zu to %zu.", a->collectives_least, a->collectives_most);
    if (!a->order_differs && !a->order_known)
        page_text(out, "li",
                  "Whether ranks started their operations in the same order is not known: comms are missing.");
    else if (!a->order_differs)
        page_text(out, "li", "Ranks started their operations in the same order.");
    for (int c = 1; c < run->clock_count; c++)
        if (run->clocks[c].fit == PROF_FIT_FITTED)
            page_text(out, "li", "The clock of %s was aligned by %zu operations, within %.1f \u00b5s.",
                      run->ranks[run->clocks[c].first].host, run->clocks[c].pairs, run->clocks[c].residual_ns * 1e-3);
        else
            page_text(out, "li", "The clock of %s could only be aligned by the time of day.",
                      run->ranks[run->clocks[c].first].host);
    fputs("</ul>\n", out);
    if (a->check_count > 0)
        put_list(out, "ul", a->checks, a->check_count);
    if (run->note_count > 0) {
        page_text(out, "h2", "Notes");
        put_list(out, "ul", run->notes, run->note_count);
    }
}

/* To a reader of XML it is text, to one of HTML a script with comments around it. */
static void put_script(FILE *out)
{
    fputs("<script>//<![CDATA[\n", out);
    for (const char *const *line = prof_page_script; *line; line++)
        fprintf(out, "%s\n", *line);
    fputs("//]]></script>\n", out);
}

bool prof_page_write(FILE *out, const prof_page *p)
{
    const prof_analysis *a = p->analysis;
    char title[512], heading[160];
    int hosts = count_hosts(a->run);
    snprintf(title, sizeof title, "weft prof: %s", a->run->folder);
    snprintf(heading, sizeof heading, "Communication and computing of %d rank%s on %d host%s", a->run->size,
             plural((size_t)a->run->size, "s"), hosts, plural((size_t)hosts, "s"));
    page_open(out, &(page_head){.title = title, .heading = heading, .width = TIMELINE_WIDTH + 20, .rules = rules});
    put_summary(out, a);
    bool done = true;
    if (a->totals.windows > 0) {
        put_hints(out, a);
        done = put_budget(out, p);
    }
    done = done && put_timelines(out, p);
    if (a->totals.windows > 0) {
        prof_page_figures(out, a);
        prof_page_operations(out, a);
        prof_page_computing(out, a);
        prof_page_late(out, p);
    }
    put_checks(out, a);
    put_script(out);
    page_close(out);
    return done;
}
