/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "plural.h"
#include "prof/report.h"
#include "prof/run_page.h"

#define MS 1e-6

enum { KINDS = 32, ROWS = 100 };

/* Names of columns; those of words, not of numbers, begin with a space. */
static void open_table(FILE *out, const char *const *names, size_t count)
{
    fputs("<div class=\"scroll\"><table class=\"grid\">\n<tr>\n", out);
    for (size_t i = 0; i < count; i++)
        page_text(out, *names[i] == ' ' ? "th class=\"word\"" : "th", "%s", names[i] + (*names[i] == ' '));
    fputs("</tr>\n", out);
}

static void close_table(FILE *out)
{
    fputs("</table></div>\n", out);
}

/* ---- the figures of the overlap ---- */

static void open_figure(FILE *out, const char *name)
{
    fputs("<tr>", out);
    page_text(out, "td class=\"word\"", "%s", name);
}

static void close_figure(FILE *out)
{
    fputs("</tr>\n", out);
}

#define LONG "td class=\"word long\""

static void put_hidden(FILE *out, const prof_budget *b)
{
    double communicating = b->hidden + b->exposed;
    open_figure(out, "hidden / communication");
    if (communicating > 0)
        page_text(out, "td", "%.1f %%", prof_percent(b->hidden, communicating));
    else
        page_text(out, "td", "n/a");
    page_text(out, LONG, "%.2f of %.2f ms, by intervals", b->hidden * MS, communicating * MS);
    close_figure(out);
}

static void put_exposed(FILE *out, const prof_budget *b)
{
    char unknown[64] = "";
    if (b->unknown > 0)
        snprintf(unknown, sizeof unknown, ", %.2f ms of which that is not known", b->unknown * MS);
    open_figure(out, "exposed / step");
    page_text(out, "td", "%.1f %%", prof_percent(b->exposed, b->step));
    page_text(out, LONG, "%.2f of %.2f ms, by intervals: %.2f ms before the last rank had come, %.2f ms of transfer%s",
              b->exposed * MS, b->step * MS, b->skew * MS, b->transfer * MS, unknown);
    close_figure(out);
}

static void put_eta(FILE *out, const prof_totals *t)
{
    bool alone = !isnan(t->alone);
    open_figure(out, "\u03b7, what overlapping gained");
    if (isnan(t->eta)) {
        page_text(out, "td", "n/a");
        page_text(out, LONG, "(serial \u2212 overlapped) / communication, by the stop-watch: no step was run serially");
    } else {
        page_text(out, "td", "%.1f %%", 100 * t->eta);
        page_text(out, LONG, "(serial %.2f \u2212 overlapped %.2f) / communication %.2f ms%s, by the stop-watch",
                  t->serial * MS, t->mean.step * MS, (alone ? t->alone : t->serial_comm) * MS,
                  alone ? " by itself" : " of the serial steps");
    }
    close_figure(out);
}

static void put_ideal(FILE *out, const prof_analysis *a, const char *name, const char *done, const prof_ideal *i)
{
    open_figure(out, name);
    if (!prof_comms_known(a)) {
        page_text(out, "td", "n/a");
        page_text(out, LONG, "comms are missing: see the notes");
    } else if (i->count == 0) {
        page_text(out, "td", "n/a");
        page_text(out, LONG, "no bucket of weft was %s over several ranks", done);
    } else {
        page_text(out, "td", "%.2f ms", i->ideal * MS);
        page_text(out, LONG,
                  "must stay exposed even if the overlap were perfect, by when buckets were ready and %s; %.2f ms were",
                  i->alone ? "what they cost without computing" : "how long they moved bytes", i->exposed * MS);
    }
    close_figure(out);
}

void prof_page_figures(FILE *out, const prof_analysis *a)
{
    static const char *const names[] = {" figure", "", " of what"};
    page_text(out, "h2", "How well communication was hidden");
    open_table(out, names, 3);
    put_hidden(out, &a->totals.mean);
    put_exposed(out, &a->totals.mean);
    put_eta(out, &a->totals);
    put_ideal(out, a, "reductions at best", "reduced", &a->reduces);
    put_ideal(out, a, "gathers at best", "gathered", &a->gathers);
    close_table(out);
    page_text(
        out, "p class=\"note\"",
        "At best is the closed form: with bucket i ready r\u1d62 after the backward began and c\u1d62 long, and "
        "T the backward, max over i of (r\u1d62 + c\u1d62 + c\u1d62\u208a\u2081 + \u2026) \u2212 T; for gathers the "
        "same, the other way round.");
}

/* ---- operations ---- */

/* The least exposure that a row must have to be among the most that are shown. */
static double least_shown(const prof_analysis *a)
{
    double least = -1;
    for (int i = 0; a->row_count > ROWS && i < a->row_count; i++) {
        int more = 0;
        for (int k = 0; k < a->row_count; k++)
            more += a->rows[k].exposed > a->rows[i].exposed || (a->rows[k].exposed == a->rows[i].exposed && k < i);
        if (more == ROWS - 1)
            least = a->rows[i].exposed;
    }
    return least;
}

static void put_row(FILE *out, const prof_analysis *a, const prof_row *r)
{
    double windows = (double)a->totals.windows;
    bool loud = r->exposed > 0.02 * a->totals.mean.step;
    fputs(loud ? "<tr class=\"loud\">" : "<tr>", out);
    page_text(out, "td class=\"word\"", "%s", r->name);
    page_text(out, "td class=\"word\"", "%s", r->kind);
    page_text(out, "td", "%.4g", (double)r->count / windows);
    page_text(out, "td", "%.3f", r->bytes / (1 << 20));
    page_text(out, "td", "%.3f", r->queue * MS);
    page_text(out, "td", "%.3f", r->skew * MS);
    page_text(out, "td", "%.3f", r->transfer * MS);
    if (r->bus_bytes_per_s >= 1e6)
        page_text(out, "td", "%.3f", r->bus_bytes_per_s * 1e-9);
    else
        page_text(out, "td", "\u2013");
    page_text(out, "td", "%.2f", r->hidden * MS);
    page_text(out, "td", "%.2f", r->exposed * MS);
    fputs("</tr>\n", out);
}

static void put_kinds(FILE *out, const prof_analysis *a)
{
    static const char *const names[] = {" kind", "hidden, ms a step", "exposed, ms a step"};
    prof_kind kinds[KINDS];
    int count = prof_kinds(a, kinds, KINDS);
    open_table(out, names, 3);
    for (int i = 0; i < count; i++) {
        fputs("<tr>", out);
        page_text(out, "td class=\"word\"", "%s", kinds[i].kind);
        page_text(out, "td", "%.2f", kinds[i].hidden * MS);
        page_text(out, "td", "%.2f", kinds[i].exposed * MS);
        fputs("</tr>\n", out);
    }
    close_table(out);
}

void prof_page_operations(FILE *out, const prof_analysis *a)
{
    static const char *const names[] = {" operation",
                                        " kind",
                                        "a step",
                                        "MiB",
                                        "in line, ms",
                                        "for the last rank, ms",
                                        "transfer, ms",
                                        "bus GB/s",
                                        "hidden, ms a step",
                                        "exposed, ms a step"};
    double least = least_shown(a);
    int left = 0, shown = 0;
    page_text(out, "h2", "Operations, by bucket and kind");
    put_kinds(out, a);
    fputs("<p></p>\n", out);
    open_table(out, names, sizeof names / sizeof *names);
    for (int i = 0; i < a->row_count; i++) {
        const prof_row *r = &a->rows[i];
        if (r->count == 0)
            continue;
        if (r->exposed < least || shown == ROWS) {
            left++;
            continue;
        }
        put_row(out, a, r);
        shown++;
    }
    close_table(out);
    page_text(out, "p class=\"note\"",
              "In line: from when its last input existed until it was taken up, and those before it on its comm were "
              "over. What waits for several operations at once counts for each, so these may add up to more than the "
              "step has. Marked: more than 2 %% of a step is exposed.");
    if (left > 0)
        page_text(out, "p class=\"note\"", "%d more with less exposed: weft prof report --json has all.", left);
}

/* ---- computing ---- */

void prof_page_computing(FILE *out, const prof_analysis *a)
{
    static const char *const names[] = {" span", "a step", "of one, ms", "ms a step", "beside operations, ms a step"};
    double windows = (double)a->totals.windows;
    if (a->computing_count == 0)
        return;
    page_text(out, "h2", "Computing, by marked spans");
    open_table(out, names, sizeof names / sizeof *names);
    for (int i = 0; i < a->computing_count && i < ROWS; i++) {
        const prof_computing *c = &a->computing[i];
        double calls = (double)c->count / windows;
        fputs("<tr>", out);
        page_text(out, "td class=\"word\"", "%s", c->name);
        page_text(out, "td", "%.4g", calls);
        page_text(out, "td", "%.3f", c->sum / calls * MS);
        page_text(out, "td", "%.2f", c->sum * MS);
        page_text(out, "td", "%.2f", c->beside * MS);
        fputs("</tr>\n", out);
    }
    close_table(out);
    page_text(out, "p class=\"note\"", "%.2f ms of computing are in no span.", a->unmarked * MS);
    if (a->computing_count > ROWS)
        page_text(out, "p class=\"note\"", "%d more: weft prof report --json has all.", a->computing_count - ROWS);
}

/* ---- ranks ---- */

void prof_page_late(FILE *out, const prof_page *p)
{
    static const char *const names[] = {" rank",
                                        " host",
                                        "came last, % of collectives",
                                        "of",
                                        "behind the last but one, ms",
                                        "costs each other rank, ms a step",
                                        " most at"};
    const prof_analysis *a = p->analysis;
    int known = 0;
    for (int i = 0; i < a->run->count; i++)
        known += a->late[i].of > 0;
    page_text(out, "h2", "Who came last");
    if (known == 0) {
        page_text(out, "p", "That is not known of any operation of several ranks.");
        return;
    }
    open_table(out, names, sizeof names / sizeof *names);
    for (int i = 0; i < p->rank_count; i++) {
        const prof_late *l = &a->late[p->ranks[i]];
        fputs(l->cost > 0.02 * a->totals.mean.step ? "<tr class=\"loud\">" : "<tr>", out);
        page_text(out, "td class=\"word\"", "%d", a->run->ranks[p->ranks[i]].rank);
        page_text(out, "td class=\"word\"", "%s", a->run->ranks[p->ranks[i]].host);
        if (l->of > 0)
            page_text(out, "td", "%.1f", prof_percent((double)l->times, (double)l->of));
        else
            page_text(out, "td", "n/a");
        page_text(out, "td", "%zu", l->of);
        page_text(out, "td", "%.3f", l->by * MS);
        page_text(out, "td", "%.3f", l->cost * MS);
        page_text(out, "td class=\"word\"", "%s", l->worst >= 0 ? a->rows[l->worst].name : "\u2013");
        fputs("</tr>\n", out);
    }
    close_table(out);
    page_text(out, "p class=\"note\"",
              "Who comes last makes the others wait: that is its computing, not the wire. Marked: it costs others more "
              "than 2 %% of a step.");
}
