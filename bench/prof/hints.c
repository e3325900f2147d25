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

/* Is that time of a step worth a line, which prints tenths of a millisecond? */
static bool matters(const prof_analysis *a, double ns)
{
    return ns > fmax(0.005 * a->totals.mean.step, 0.05 / MS);
}

/* What a backward takes, if it is two thirds of a step's computing. */
static double backward_of(const prof_analysis *a)
{
    return (a->totals.mean.computing + a->totals.mean.hidden) * 2 / 3;
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
    double left = closed_form_even(r->last_cost / MANY, MANY, backward_of(a) / 2);
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

/* Buckets that are all started within a moment hide behind nothing. */
static bool started_together(const prof_analysis *a)
{
    const prof_ideal *r = &a->reduces;
    return r->count > 0 && r->buckets >= 1.5 && matters(a, r->exposed) && r->ready < backward_of(a) / 20;
}

static void late_reductions(prof_analysis *a)
{
    const prof_ideal *r = &a->reduces;
    size_t count;
    if (started_together(a))
        hint(
            a,
            "the %.0f buckets of a set are started within %.1f ms of each other, so %.1f ms of their reductions cannot "
            "hide. Is the overlap off (--overlap-grad-reduce; in the library, no WEFT_BUCKETS_REDUCE_AT_STEP)? Are "
            "params marked only behind the backward? Or is the bucket full last that goes first: that of the params "
            "that were added last, which the backward should come to first",
            r->buckets, r->ready * MS, r->exposed * MS);
    else if (r->count > 0 && matters(a, r->exposed) && waits_at_once(a, "reduce", &count))
        hint(
            a,
            "reductions are waited for as soon as they are started, so %.1f ms a step cannot be hidden: is the overlap "
            "off? (--overlap-grad-reduce; in the library, no WEFT_BUCKETS_REDUCE_AT_STEP)",
            r->exposed * MS);
}

/* A forward that takes all params at once waits for the last gather. */
static void early_waits(prof_analysis *a)
{
    const prof_ideal *g = &a->gathers;
    size_t count;
    if (g->count == 0 || !matters(a, g->exposed))
        return;
    if (waits_at_once(a, "gather", &count))
        hint(a,
             "gathers are waited for as soon as they are started, so %.1f ms a step cannot be hidden: is the overlap "
             "off? (--overlap-param-gather; in the library, no WEFT_BUCKETS_GATHER_IN_STEP)",
             g->exposed * MS);
    else if (g->buckets >= 1.5 && g->between < backward_of(a) / 40)
        hint(a,
             "the forward acquires all %.0f buckets of a set at once, with %.1f ms of computing between the first and "
             "the last: %.1f ms of their gathers are exposed. Acquire the params of each layer before it is used",
             g->buckets, g->between * MS, g->exposed * MS);
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

/* Is something larger under way on the rank for most of the time that an operation takes? Records stand in the order in
 * which they were made: what is far away was over. */
static bool has_larger_beside(const prof_analysis *a, int rank, size_t i)
{
    enum { NEAR = 64 };
    const prof_rank *r = &a->run->ranks[rank];
    const prof_operation *own = &a->split->ranks[rank].operations[i];
    int64_t begin = own->end - own->transfer;
    for (size_t k = i > NEAR ? i - NEAR : 0; k < r->count && k < i + NEAR; k++) {
        const prof_operation *o = &a->split->ranks[rank].operations[k];
        if (!prof_is_operation(&r->records[k]) || r->records[k].bytes <= r->records[i].bytes)
            continue;
        int64_t from = o->begin > begin ? o->begin : begin, to = o->end < own->end ? o->end : own->end;
        if (to - from > own->transfer / 2)
            return true;
    }
    return false;
}

/* Do most operations of the row have it so? */
static bool stands_behind(const prof_analysis *a, int row)
{
    size_t beside = 0, all = 0;
    for (int rank = 0; rank < a->run->count; rank++)
        for (size_t i = 0; i < a->run->ranks[rank].count; i++)
            if (a->row_of[rank][i] == row) {
                all++;
                beside += has_larger_beside(a, rank, i);
            }
    return beside > all / 2;
}

/* A few bytes that take long once all ranks are there, while more are on their way. */
static void behind_others(prof_analysis *a)
{
    const double few = 4096;
    for (const prof_row *r = a->rows; r < a->rows + a->row_count; r++)
        if (r->count > 0 && r->bytes < few && matters(a, r->exposed - r->exposed_skew) && r->transfer > r->skew &&
            stands_behind(a, (int)(r - a->rows)))
            hint(a,
                 "%s moves %.0f bytes and takes %.1f ms once all ranks are there: larger operations are under way "
                 "meanwhile, and it comes behind their bytes. Started before them, or waited for later, it would cost "
                 "%.1f ms a step less",
                 r->name, r->bytes, r->transfer * MS, (r->exposed - r->exposed_skew) * MS);
}

/* ---- pipelines ---- */

/* A stage that waits for a message whose sender still computes. */
static void bubble(prof_analysis *a)
{
    double waits = 0;
    for (const prof_row *r = a->rows; r < a->rows + a->row_count; r++)
        waits += strcmp(r->kind, "p2p") == 0 ? r->exposed_skew : 0;
    if (waits > 0.05 * a->totals.mean.step && matters(a, waits))
        hint(a,
             "stages wait %.1f ms a step (%.0f %%) for messages that are not sent yet: that is the bubble of the "
             "pipeline, not its wire. With 1F1B and even stages it is (stages - 1) / microbatches of the computing: "
             "more microbatches or virtual stages make it smaller (weft schedule shows it)",
             waits * MS, 100 * waits / a->totals.mean.step);
}

/* ---- ranks ---- */

/* By how much a rank computes longer than the others do on average, a step. */
static double computes_longer(const prof_analysis *a, int rank)
{
    double others = 0;
    for (int r = 0; r < a->run->count; r++)
        others += r == rank ? 0 : a->totals.ranks[r].computing + a->totals.ranks[r].hidden;
    return a->totals.ranks[rank].computing + a->totals.ranks[rank].hidden - others / fmax(a->run->count - 1, 1);
}

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
             "each of them %.1f ms a step. %s",
             a->run->ranks[worst].rank, a->run->ranks[worst].host, l->times, l->of, l->by * MS,
             l->worst >= 0 ? a->rows[l->worst].name : "various ones", l->cost * MS,
             computes_longer(a, worst) > l->cost / 2
                 ? "Its computing takes longer than that of the others; it is not the wire"
                 : "Its computing takes no longer in all: it begins later, or waits for something in between");
    else
        hint(a,
             "ranks take turns at coming last (rank %d most: %zu of %zu), which is %.1f ms of what is exposed: their "
             "computing takes longer now here, now there",
             a->run->ranks[worst].rank, l->times, l->of, a->totals.mean.skew * MS);
}

/* How far what follows may be trusted. */
static void crowded(prof_analysis *a)
{
    bool is_crowded = false;
    for (int r = 0; r < a->run->count; r++)
        is_crowded |= a->run->ranks[r].crowded;
    if (is_crowded && (matters(a, a->totals.mean.exposed) || matters(a, a->totals.mean.idle)))
        hint(a,
             "there are more ranks than cores: what moves while a trainer computes takes another trainer's core, and "
             "ranks wait for each other's turn. Figures of such a run say little about a cluster");
}

static void starved(prof_analysis *a)
{
    double late = 0, count = 0;
    for (int r = 0; r < a->run->count; r++) {
        for (size_t i = 0; i < a->run->ranks[r].count; i++) {
            const prof_record *record = &a->run->ranks[r].records[i];
            if (a->row_of[r][i] < 0 || record->start == PROF_UNKNOWN)
                continue;
            late += fmax((double)(record->start - record->ready), 0);
            count++;
        }
    }
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
    crowded(a);
    one_bucket(a);
    large_last_bucket(a);
    late_reductions(a);
    early_waits(a);
    worse_than_ideal(a, &a->reduces, "reductions", "see skew and ready -> start of their rows, and who comes last");
    worse_than_ideal(a, &a->gathers, "gathers", "see skew and ready -> start of their rows, and who comes last");
    small_buckets(a);
    behind_others(a);
    bubble(a);
    late_rank(a);
    starved(a);
    return true;
}
