/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people. Every figure says what it is a part of; what was not measured is n/a, and why. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "prof/report.h"

#define MS 1e-6

enum { MOST_KINDS = 16, MOST_ROWS = 32, MOST_RANKS = 16 };

/* ---- the head ---- */

static void print_hosts(FILE *out, const prof_run *run)
{
    int hosts = 0;
    for (int r = 0; r < run->count; r++) {
        int seen = 0;
        while (seen < r && strcmp(run->ranks[seen].host, run->ranks[r].host) != 0)
            seen++;
        hosts += seen == r;
    }
    fprintf(out, "%d rank%s on %d host%s, in %s", run->size, plural((size_t)run->size, "s"), hosts,
            plural((size_t)hosts, "s"), run->folder);
    if (run->missing_count > 0) {
        fprintf(out, "; no trace of rank%s", plural((size_t)run->missing_count, "s"));
        for (int i = 0; i < run->missing_count && i < MOST_RANKS; i++)
            fprintf(out, "%s%d", i ? ", " : " ", run->missing[i]);
        fputs(run->missing_count > MOST_RANKS ? " and more" : "", out);
    }
    fputs("\n", out);
}

static void print_steps(FILE *out, const prof_analysis *a)
{
    const prof_totals *t = &a->totals;
    prof_span span = prof_selected_steps(a);
    if (t->step_count == 0) {
        fputs("steps: none to look at\n", out);
        return;
    }
    bool warm = span.count + 1 == a->run->step_count && a->selection.first == 1;
    if (a->run->steps_marked)
        fprintf(out, "steps %llu-%llu (%d of %d%s", span.first, span.last, span.count, a->run->step_count,
                warm ? ": the first warms up" : "");
    else
        fputs("one step (none is marked", out);
    if (a->selection.rank >= 0)
        fprintf(out, "; rank %d only", a->run->ranks[a->selection.rank].rank);
    const double *s = t->steps;
    int n = t->step_count, last = n - 1, p99 = (99 * n + 99) / 100 - 1;
    fprintf(out, "): median %.2f ms, p99 %.2f, longest %.2f (of each step its longest rank)", s[n / 2] * MS,
            s[p99 < last ? p99 : last] * MS, s[last] * MS);
    if (t->slowest >= 0 && a->run->count > 1)
        fprintf(out, "; rank %d (%s) computes longest", a->run->ranks[t->slowest].rank, a->run->ranks[t->slowest].host);
    fputs("\n", out);
}

static void print_clocks(FILE *out, const prof_run *run)
{
    if (run->clock_count == 1 && run->count > 1)
        fputs("clocks: one, of the machine that all ranks are on\n", out);
    for (int c = 1; c < run->clock_count; c++) {
        const prof_clock *k = &run->clocks[c];
        const char *host = run->ranks[k->first].host;
        if (k->fit == PROF_FIT_FITTED)
            fprintf(out, "clocks: %s by %zu operations, %+.0f ns off in a second; residual %.1f us\n", host,
                    k->pairs / 2, k->drift * 1e9, k->residual_ns * 1e-3);
        else
            fprintf(out, "clocks: %s by the time of day: who came last there is not known\n", host);
    }
}

static void print_cost(FILE *out, const prof_analysis *a, double record_ns)
{
    double cost = a->records_a_step * record_ns;
    if (isfinite(cost) && a->totals.mean.step > 0)
        fprintf(out, "tracing: %.0f records a step of %.0f ns each (measured here): %.4f ms, %.3f %% of the step\n",
                a->records_a_step, record_ns, cost * MS, prof_percent(cost, a->totals.mean.step));
}

/* ---- the budget ---- */

static void print_part(FILE *out, const char *name, double part, double step)
{
    fprintf(out, "  %-24s %10.2f ms %6.1f %%", name, part * MS, prof_percent(part, step));
}

static void print_budget(FILE *out, const prof_analysis *a)
{
    const prof_budget *b = &a->totals.mean;
    prof_kind kinds[MOST_KINDS];
    int count = prof_kinds(a, kinds, MOST_KINDS);
    fputs("\nSTEP BUDGET (mean over steps and ranks; unions of intervals, which add up to the step)\n", out);
    print_part(out, "computing only", b->computing, b->step);
    fputs("\n", out);
    print_part(out, "hidden", b->hidden, b->step);
    fputs("   operations under way while computing\n", out);
    print_part(out, "EXPOSED", b->exposed, b->step);
    fputs("   waiting while operations are under way:", out);
    int shown = 0;
    for (int k = 0; k < count; k++)
        if (kinds[k].exposed * MS >= 0.005)
            fprintf(out, "%s %s %.2f", shown++ ? "," : "", kinds[k].kind, kinds[k].exposed * MS);
    fputs(shown ? "\n" : " nothing\n", out);
    print_part(out, "  skew", b->skew, b->step);
    fputs("     before the last rank had come\n", out);
    print_part(out, "  transfer", b->transfer, b->step);
    fputs("     after that\n", out);
    if (b->unknown > 0) {
        print_part(out, "  n/a", b->unknown, b->step);
        fputs("     it is not known when the last rank came\n", out);
    }
    print_part(out, "idle", b->idle, b->step);
    fputs("   waiting while none is under way\n", out);
    print_part(out, "step", b->step, b->step);
    fputs("\n", out);
}

/* ---- the three figures, and the closed form ---- */

static void print_eta(FILE *out, const prof_totals *t)
{
    if (isnan(t->eta)) {
        fputs("  eta                    n/a       (serial - overlapped) / communication: no step was run serially "
              "(weft gpt --overlap compare; weft_trace_step_as())\n",
              out);
        return;
    }
    bool alone = !isnan(t->alone);
    fprintf(
        out,
        "  eta                    %6.1f %%  (serial %.2f - overlapped %.2f) / communication %.2f ms%s: stop-watch\n",
        100 * t->eta, t->serial * MS, t->mean.step * MS, (alone ? t->alone : t->serial_comm) * MS,
        alone ? " by itself" : " of the serial steps");
}

static void print_ideal(FILE *out, const prof_analysis *a, const char *what, const char *done, const prof_ideal *i)
{
    if (!prof_comms_known(a)) {
        fprintf(out, "  closed form, %-9s n/a       comms are missing (see NOTES)\n", what);
        return;
    }
    if (i->count == 0) {
        fprintf(out, "  closed form, %-9s n/a       no bucket of weft was %s over several ranks\n", what, done);
        return;
    }
    fprintf(out, "  closed form, %-9s %9.2f ms at best, by ready times and %s; measured %.2f ms exposed\n", what,
            i->ideal * MS, i->alone ? "costs without computing" : "transfers of the same steps", i->exposed * MS);
}

static void print_overlap(FILE *out, const prof_analysis *a)
{
    const prof_budget *b = &a->totals.mean;
    double communicating = b->hidden + b->exposed;
    fputs("\nOVERLAP\n", out);
    if (communicating > 0)
        fprintf(out, "  hidden/communication   %6.1f %%  %.2f of %.2f ms: intervals\n",
                prof_percent(b->hidden, communicating), b->hidden * MS, communicating * MS);
    else
        fputs("  hidden/communication   none      no operation was under way\n", out);
    fprintf(out, "  exposed/step           %6.1f %%  %.2f of %.2f ms: intervals\n", prof_percent(b->exposed, b->step),
            b->exposed * MS, b->step * MS);
    print_eta(out, &a->totals);
    print_ideal(out, a, "reduce", "reduced", &a->reduces);
    print_ideal(out, a, "gather", "gathered", &a->gathers);
}

/* ---- rows ---- */

/* The least exposure that a row must have to be among the @p most of them that are printed. */
static double least_shown(const prof_analysis *a, int most)
{
    double least = -1;
    for (int i = 0; i < a->row_count; i++) {
        int more = 0;
        for (int k = 0; k < a->row_count; k++)
            more += a->rows[k].exposed > a->rows[i].exposed || (a->rows[k].exposed == a->rows[i].exposed && k < i);
        if (more == most - 1)
            least = a->rows[i].exposed;
    }
    return least;
}

static void print_row(FILE *out, const prof_analysis *a, const prof_row *r)
{
    double calls = a->totals.windows ? (double)r->count / (double)a->totals.windows : 0;
    fprintf(out, "  %-24.24s %7.4g %9.3f %8.3f %8.3f %8.3f", r->name, calls, r->bytes / (1 << 20), r->queue * MS,
            r->skew * MS, r->transfer * MS);
    if (r->bus_bytes_per_s >= 1e6)
        fprintf(out, " %9.3f", r->bus_bytes_per_s * 1e-9);
    else
        fprintf(out, " %9s", "-");
    fprintf(out, " %10.2f %8.2f%s\n", r->hidden * MS, r->exposed * MS,
            r->exposed > 0.02 * a->totals.mean.step ? "  !" : "");
}

static void print_rows(FILE *out, const prof_analysis *a)
{
    double least = least_shown(a, MOST_ROWS), left_hidden = 0, left_exposed = 0;
    int shown = 0, left = 0;
    fprintf(out, "\nOPERATIONS                   calls       MiB    of one, ms: ready to        bus    ms a step:\n");
    fprintf(out,
            "                            a step            start     skew transfer      GB/s     hidden  exposed\n");
    for (int i = 0; i < a->row_count; i++) {
        const prof_row *r = &a->rows[i];
        if (r->count == 0 || (r->bus_bytes_per_s == 0 && r->exposed + r->hidden < 1000)) /* of one rank: a copy */
            continue;
        if (r->exposed >= least && shown < MOST_ROWS) {
            print_row(out, a, r);
            shown++;
            continue;
        }
        left++;
        left_hidden += r->hidden;
        left_exposed += r->exposed;
    }
    if (left > 0)
        fprintf(out, "  %3d more (all: --json) %65.2f %8.2f\n", left, left_hidden * MS, left_exposed * MS);
    if (shown == 0)
        fputs("  none\n", out);
}

/* ---- spans ---- */

static void print_computing(FILE *out, const prof_analysis *a)
{
    const prof_budget *b = &a->totals.mean;
    double windows = (double)a->totals.windows;
    if (a->computing_count == 0) {
        fputs("\nCOMPUTING is marked by no span (weft_span_begin): what it is made of is not known\n", out);
        return;
    }
    fputs("\nCOMPUTING                    calls    of one    ms a step:    beside\n", out);
    fputs("                            a step        ms          all  operations\n", out);
    for (int i = 0; i < a->computing_count && i < MOST_ROWS; i++) {
        const prof_computing *c = &a->computing[i];
        double calls = (double)c->count / windows;
        fprintf(out, "  %-24.24s %7.4g %9.3f %12.2f %11.2f\n", c->name, calls, c->sum / calls * MS, c->sum * MS,
                c->beside * MS);
    }
    if (a->computing_count > MOST_ROWS)
        fprintf(out, "  %3d more (all: --json)\n", a->computing_count - MOST_ROWS);
    fprintf(out, "  %-24s %7s %9s %12.2f   of %.2f ms of computing\n", "in no span", "", "", a->unmarked * MS,
            (b->computing + b->hidden) * MS);
}

/* ---- ranks ---- */

static void print_rank(FILE *out, const prof_analysis *a, int r)
{
    const prof_budget *b = &a->totals.ranks[r];
    const prof_late *l = &a->late[r];
    fprintf(out, "  %4d %-14.14s %9.2f %9.2f %9.2f %9.2f", a->run->ranks[r].rank, a->run->ranks[r].host,
            b->computing * MS, b->hidden * MS, b->exposed * MS, b->idle * MS);
    if (l->of == 0)
        fputs("      n/a\n", out);
    else if (l->times == 0)
        fprintf(out, "      never of %zu\n", l->of);
    else
        fprintf(out, "   %5.1f %% of %zu by %.2f ms, costs %.2f ms%s%s\n",
                prof_percent((double)l->times, (double)l->of), l->of, l->by * MS, l->cost * MS,
                l->worst >= 0 ? ", most at " : "", l->worst >= 0 ? a->rows[l->worst].name : "");
}

/* Of many ranks those that cost most are shown. */
static void print_ranks(FILE *out, const prof_analysis *a)
{
    int shown = 0;
    fprintf(out, "\n%-21s %9s %9s %9s %9s   %s\n", "RANKS  (ms a step)", "computing", "hidden", "exposed", "idle",
            "came last: how often, how far behind the rest, at what cost to each of them a step");
    for (int r = 0; r < a->run->count; r++) {
        int costlier = 0;
        for (int k = 0; k < a->run->count; k++)
            costlier += a->late[k].cost > a->late[r].cost || (a->late[k].cost == a->late[r].cost && k < r);
        if (!prof_rank_selected(a, r) || (costlier >= MOST_RANKS && a->selection.rank < 0))
            continue;
        print_rank(out, a, r);
        shown++;
    }
    if (shown < a->run->count && a->selection.rank < 0)
        fprintf(out, "  %d more, which cost less (all: --json)\n", a->run->count - shown);
}

/* ---- the end ---- */

static void print_checks(FILE *out, const prof_analysis *a)
{
    fputs("\nCHECKS\n", out);
    if (a->collectives_least == a->collectives_most)
        fprintf(out, "  collectives of a rank in a step: %zu, always\n", a->collectives_most);
    else
        fprintf(out, "  collectives of a rank in a step: %zu to %zu\n", a->collectives_least, a->collectives_most);
    if (!a->order_differs && !a->order_known)
        fputs("  launch order: n/a, comms are missing (see NOTES)\n", out);
    else if (!a->order_differs)
        fprintf(out, "  launch order: the same on all ranks%s\n", a->run->missing_count ? " that left a trace" : "");
    for (size_t i = 0; i < a->check_count; i++)
        fprintf(out, "  %s\n", a->checks[i]);
}

static void print_list(FILE *out, const char *title, char **lines, size_t count)
{
    if (count > 0)
        fprintf(out, "\n%s\n", title);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %zu  %s\n", i + 1, lines[i]);
}

void prof_print_text(FILE *out, const prof_analysis *a, double record_ns)
{
    print_hosts(out, a->run);
    print_steps(out, a);
    print_clocks(out, a->run);
    print_cost(out, a, record_ns);
    if (a->totals.windows > 0) {
        print_budget(out, a);
        print_overlap(out, a);
        print_rows(out, a);
        print_computing(out, a);
        print_ranks(out, a);
    }
    print_checks(out, a);
    print_list(out, "HINTS", a->hints, a->hint_count);
    print_list(out, "NOTES", a->run->notes, a->run->note_count);
}
