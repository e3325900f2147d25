/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done about what is exposed, and about how much it would bring. Each hint looks for one cause and keeps
 * silent where it would bring next to nothing. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "closed_form.h"
#include "prof/analysis.h"
#include "prof/lines.h"

#define MS  1e-6
#define MIB (1.0 / (1 << 20))

__attribute__((format(printf, 2, 3))) static void hint(prof_analysis *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prof_add_line(&a->hints, &a->hint_count, format, arguments);
    va_end(arguments);
}

/* Is that time of a step worth a line? */
static bool matters(const prof_analysis *a, double ns)
{
    return ns > 0.005 * a->totals.mean.step;
}

static bool is_bucket(const prof_row *row)
{
    return strcmp(row->kind, "reduce") == 0 || strcmp(row->kind, "gather") == 0;
}

/* ---- buckets ---- */

/* A single bucket is full when the backward is over: what many would leave, if the backward takes a third of a step's
 * computing at least. */
static void one_bucket(prof_analysis *a)
{
    enum { MANY = 8 };
    const prof_ideal *r = &a->reduces;
    if (r->count == 0 || r->buckets >= 1.5 || !matters(a, r->exposed))
        return;
    double backward = (a->totals.mean.computing + a->totals.mean.hidden) / 3;
    double left = closed_form_even(r->last_cost / MANY, MANY, backward);
    hint(a,
         "there is one bucket: it is full only when the backward is over, and %.1f ms of its reduction are exposed. "
         "With "
         "%d buckets about %.1f ms would be (--ddp-bucket-size, weft_buckets_config.bucket_elements)",
         r->exposed * MS, MANY, fmin(left, r->exposed) * MS);
}

static void large_last_bucket(prof_analysis *a)
{
    const prof_ideal *r = &a->reduces;
    double saved = r->ideal - r->smaller_last;
    if (r->count == 0 || r->buckets < 1.5 || r->ideal < 0.5 * r->exposed || !matters(a, saved))
        return;
    hint(a,
         "the last bucket can only be reduced behind the backward: of %.1f ms of the reductions that even a perfect "
         "overlap leaves exposed, %.1f ms would go if it were a quarter of its size",
         r->ideal * MS, saved * MS);
}

/* Reductions that were hidden worse than their ready times and costs permit. */
static void worse_than_ideal(prof_analysis *a, const prof_ideal *i, const char *what, const char *cause)
{
    double lost = i->exposed - i->ideal;
    if (i->count == 0 || i->buckets < 1.5 || !matters(a, lost) || lost < 0.25 * i->exposed)
        return;
    hint(a, "%s: %.1f ms are exposed where their ready times and costs permit %.1f ms: %s", what, i->exposed * MS,
         i->ideal * MS, cause);
}

/* Is the caller there for nearly all buckets as soon as they are started? */
static bool waits_at_once(const prof_analysis *a, const char *kind, size_t *count_out)
{
    size_t at_once = 0;
    *count_out = 0;
    for (int r = 0; r < a->run->count; r++)
        for (size_t i = 0; i < a->run->ranks[r].count; i++) {
            const prof_record *record = &a->run->ranks[r].records[i];
            const prof_operation *o = &a->split->ranks[r].operations[i];
            int row = a->row_of[r][i];
            if (row < 0 || strcmp(a->rows[row].kind, kind) != 0 || record->wait == PROF_UNKNOWN)
                continue;
            ++*count_out;
            at_once += record->wait - record->ready < (o->end - record->ready) / 20 + 1000;
        }
    return *count_out > 0 && at_once >= *count_out * 9 / 10;
}

static void switched_off(prof_analysis *a)
{
    static const struct {
        const char *kind, *what, *how;
    } phases[] = {
        {"reduce", "reductions", "--overlap-grad-reduce; in the library, no WEFT_BUCKETS_REDUCE_AT_STEP"},
        {"gather", "gathers", "--overlap-param-gather; in the library, no WEFT_BUCKETS_GATHER_IN_STEP"},
    };
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        const prof_ideal *ideal = i == 0 ? &a->reduces : &a->gathers;
        size_t count;
        if (ideal->count > 0 && matters(a, ideal->exposed) && waits_at_once(a, phases[i].kind, &count))
            hint(a,
                 "%s are waited for as soon as they are started, so %.1f ms a step cannot be hidden: is the overlap "
                 "off? (%s)",
                 phases[i].what, ideal->exposed * MS, phases[i].how);
    }
}

static void small_buckets(prof_analysis *a)
{
    const prof_row *best = NULL;
    size_t small = 0;
    double lost = 0, bytes = 0;
    for (const prof_row *r = a->rows; r < a->rows + a->row_count; r++)
        if (is_bucket(r) && r->bus_bytes_per_s > 0 && (!best || r->bus_bytes_per_s > best->bus_bytes_per_s))
            best = r;
    for (const prof_row *r = a->rows; best && r < a->rows + a->row_count; r++) {
        if (!is_bucket(r) || r->bus_bytes_per_s <= 0 || r->bytes >= best->bytes / 2 ||
            r->bus_bytes_per_s > best->bus_bytes_per_s / 2 || a->totals.windows == 0)
            continue;
        double calls = (double)r->count / (double)a->totals.windows;
        lost += calls * r->transfer * (1 - r->bus_bytes_per_s / best->bus_bytes_per_s);
        bytes += r->bytes;
        small++;
    }
    if (small > 1 && matters(a, lost))
        hint(a,
             "%zu buckets of %.2f MiB on average move at less than half of the %.2f GB/s of %s (%.2f MiB): they wait "
             "more than they move. Larger ones would take about %.1f ms less a step",
             small, bytes / (double)small * MIB, best->bus_bytes_per_s * 1e-9, best->name, best->bytes * MIB,
             lost * MS);
}

/* A few bytes that take long once all ranks are there stand behind others on the wire. */
static void behind_others(prof_analysis *a)
{
    const double few = 4096;
    for (const prof_row *r = a->rows; r < a->rows + a->row_count; r++)
        if (r->count > 0 && r->bytes < few && matters(a, r->exposed - r->exposed_skew) && r->transfer > r->skew)
            hint(a,
                 "%s moves %.0f bytes and takes %.1f ms once all ranks are there: what other operations have under way "
                 "stands before it on the wire. Started before them, or waited for later, it would cost %.1f ms a step "
                 "less",
                 r->name, r->bytes, r->transfer * MS, (r->exposed - r->exposed_skew) * MS);
}

/* ---- ranks ---- */

/* One rank costs as much as the rest together: it is that rank. Else they take turns. */
static void late_rank(prof_analysis *a)
{
    int worst = 0;
    double sum = 0;
    for (int r = 0; r < a->run->count; r++) {
        sum += a->late[r].cost;
        worst = a->late[r].cost > a->late[worst].cost ? r : worst;
    }
    const prof_late *l = &a->late[worst];
    if (!matters(a, l->cost))
        return;
    if (l->cost > 2 * (sum - l->cost))
        hint(a,
             "rank %d (%s) is late: last in %zu of %zu collectives, %.2f ms behind the others, most at %s, which costs "
             "each of them %.1f ms a step. It is its computing, not the wire",
             a->run->ranks[worst].rank, a->run->ranks[worst].host, l->times, l->of, l->by * MS,
             l->worst >= 0 ? a->rows[l->worst].name : "various ones", l->cost * MS);
    else
        hint(a,
             "ranks take turns at coming last (rank %d most: %zu of %zu), which is %.1f ms of what is exposed: their "
             "computing takes longer now here, now there",
             a->run->ranks[worst].rank, l->times, l->of, a->totals.mean.skew * MS);
}

static void starved(prof_analysis *a)
{
    bool crowded = false;
    double late = 0, count = 0;
    for (int r = 0; r < a->run->count; r++) {
        crowded |= a->run->ranks[r].crowded;
        for (size_t i = 0; i < a->run->ranks[r].count; i++) {
            const prof_record *record = &a->run->ranks[r].records[i];
            if (a->row_of[r][i] < 0 || record->start == PROF_UNKNOWN)
                continue;
            late += fmax((double)(record->start - record->ready), 0);
            count++;
        }
    }
    if (crowded && (matters(a, a->totals.mean.exposed) || matters(a, a->totals.mean.idle)))
        hint(a,
             "there are more ranks than cores: what moves while a trainer computes takes another trainer's core, and "
             "ranks wait for each other's turn. Figures of such a run say little about a cluster");
    double windows = a->totals.windows ? (double)a->totals.windows : 1;
    if (matters(a, late / windows))
        hint(a,
             "operations are taken up %.2f ms after they are ready on average (%.1f ms a step): weft's own thread "
             "finds no "
             "core while the trainer computes, or they run after others",
             late / (count > 0 ? count : 1) * MS, late / windows * MS);
}

/* ---- all ---- */

bool prof_hint(prof_analysis *a)
{
    if (a->totals.windows == 0)
        return true;
    one_bucket(a);
    large_last_bucket(a);
    switched_off(a);
    worse_than_ideal(a, &a->reduces, "reductions", "see skew and ready -> start of their rows, and who comes last");
    worse_than_ideal(a, &a->gathers, "gathers", "see skew and ready -> start of their rows, and who comes last");
    small_buckets(a);
    behind_others(a);
    late_rank(a);
    starved(a);
    return true;
}
