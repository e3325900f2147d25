/* SPDX-License-Identifier: Apache-2.0 */
/* Works out what was hidden, what a perfect overlap would have left, and where the rest went. */
#include "perf/overlap/figures.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "closed_form.h"

static double cpu(const double times[OVERLAP_TIMES])
{
    return times[OVERLAP_USER] + times[OVERLAP_SYSTEM];
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

/* A backward's operations wait for pieces, a forward's pieces for operations; one operation by itself waits for none,
 * and its computing neither. */
static double least_exposed(const overlap_phase *phase, const overlap_measured *m)
{
    double pieces[OVERLAP_BUCKETS_MOST];
    if (phase->after)
        return closed_form_reduces(m->ended, m->costs, m->pieces, m->ended[m->pieces - 1]);
    if (!phase->before)
        return fmax(m->costs[0] - m->ended[0], 0);
    for (size_t i = 0; i < m->pieces; i++)
        pieces[i] = m->ended[i] - (i ? m->ended[i - 1] : 0);
    return closed_form_gathers(NULL, m->costs, pieces, m->pieces);
}

static double largest_of(const double *numbers, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, numbers[i]);
    return largest;
}

void overlap_figures_make(overlap_figures *f, const overlap_phase *phase, const overlap_measured *m)
{
    const double(*t)[OVERLAP_TIMES] = m->times;
    const double *both = t[OVERLAP_BOTH];
    bool in_pieces = phase->before || phase->after;
    f->computing = t[OVERLAP_COMPUTING][OVERLAP_SLOWEST];
    f->communicating = t[OVERLAP_COMMUNICATING][OVERLAP_SLOWEST];
    f->both = both[OVERLAP_SLOWEST];
    f->serial = t[OVERLAP_SERIAL][OVERLAP_SLOWEST];
    f->largest = largest_of(m->costs, m->pieces);
    f->exposed_trace = both[OVERLAP_EXPOSED];
    f->skew = both[OVERLAP_SKEW];
    f->transfer = both[OVERLAP_TRANSFER];
    f->hidden_transfer = 1 - both[OVERLAP_UNCOVERED];
    f->exposed_clock = f->both - f->computing;
    f->closed = least_exposed(phase, m);
    f->closed_even = in_pieces ? closed_form_even(f->communicating / (double)m->pieces, m->pieces, f->computing)
                               : fmax(f->communicating - f->computing, 0);
    f->hidden_trace = share(both[OVERLAP_HIDDEN], both[OVERLAP_HIDDEN] + both[OVERLAP_EXPOSED]);
    f->hidden_clock = share(f->communicating - f->exposed_clock, f->communicating);
    f->eta = share(f->serial - f->both, f->communicating);
    f->longer = both[OVERLAP_PIECES] - t[OVERLAP_COMPUTING][OVERLAP_PIECES];
    f->idle = both[OVERLAP_IDLE];
    f->calls = both[OVERLAP_TOTAL] - both[OVERLAP_PIECES] - f->exposed_trace - f->idle;
    f->others = f->exposed_clock - f->exposed_trace - f->longer - f->calls - f->idle;
    f->cpu_alone = cpu(t[OVERLAP_COMMUNICATING]);
    f->cpu_both = cpu(both) - cpu(t[OVERLAP_COMPUTING]);
    f->system_alone = t[OVERLAP_COMMUNICATING][OVERLAP_SYSTEM];
    f->system_both = both[OVERLAP_SYSTEM] - t[OVERLAP_COMPUTING][OVERLAP_SYSTEM];
    f->engine_both = both[OVERLAP_ENGINE] - t[OVERLAP_COMPUTING][OVERLAP_ENGINE];
    f->softirq_both = both[OVERLAP_SOFTIRQ] - t[OVERLAP_COMPUTING][OVERLAP_SOFTIRQ];
}

static const struct {
    size_t field;
    const char *format;
} parts[] = {
    {offsetof(overlap_figures, longer),
     "%.2f ms are computing that took longer than alone, since communication takes its cores and memory"},
    {offsetof(overlap_figures, calls),
     "%.2f ms are in weft's calls outside of waiting: they start operations and wake the engine, which may take their "
     "core"},
    {offsetof(overlap_figures, idle), "%.2f ms are waiting before or behind operations: for a thread to wake up, say"},
    {offsetof(overlap_figures, others), "%.2f ms are other ranks that computed, or ended, later in both than alone"},
};
enum { PARTS = sizeof parts / sizeof *parts };

static double part(const overlap_figures *f, size_t index)
{
    return *(const double *)((const char *)f + parts[index].field);
}

/* As snprintf() at *used, if there is room left. */
static void add(char *text, size_t bytes, size_t *used, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void add(char *text, size_t bytes, size_t *used, const char *format, ...)
{
    va_list arguments;
    if (*used >= bytes)
        return;
    va_start(arguments, format);
    int length = vsnprintf(text + *used, bytes - *used, format, arguments);
    va_end(arguments);
    *used += length > 0 ? (size_t)length : 0;
}

bool overlap_figures_why(const overlap_figures *f, char *text, size_t bytes)
{
    enum { TOLD = 4 }; /* the largest part, and others of a fourth of the whole */
    double apart = f->exposed_clock - f->exposed_trace, all = fabs(apart), sign = apart > 0 ? 1 : -1;
    size_t used = 0, largest = 0;
    if (!(all > f->communicating * OVERLAP_APART_PERCENT / 100))
        return false;
    for (size_t i = 1; i < PARTS; i++)
        if (part(f, i) * sign > part(f, largest) * sign)
            largest = i;
    add(text, bytes, &used, "the stop-watch sees %.2f ms %s than the trace", all, apart > 0 ? "more" : "less");
    const char *before = ": ";
    for (size_t i = 0; i < PARTS; i++) {
        if (i != largest && part(f, i) * sign < all / TOLD)
            continue;
        add(text, bytes, &used, "%s", before);
        add(text, bytes, &used, parts[i].format, part(f, i));
        before = "; ";
    }
    if (apart > 0 && f->cpu_both > 0 && f->longer + f->calls > all / 2) {
        add(text, bytes, &used,
            ". Beside computing, communication took %.2f ms of processor time a rank, %.2f ms of it in the kernel",
            f->cpu_both, f->system_both);
        if (isfinite(f->engine_both))
            add(text, bytes, &used, ", %.2f ms of it in weft's own thread", f->engine_both);
    }
    return true;
}
