/* SPDX-License-Identifier: Apache-2.0 */
/* Beside what was exposed of the buckets' operations: what the closed form says that a perfect overlap must leave, with
 * the ready times and costs of the same step. The rest went to ranks that came late, to an order that was not theirs,
 * or to bytes that did not move while the trainer computed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "closed_form.h"
#include "prof/analysis.h"

/* The buckets of one set in one step of one rank. */
typedef struct phase {
    double *ready, *costs, *pieces;
    const prof_record **records;
    double exposed, transfer;
    size_t count, room;
    bool alone;
} phase;

static bool make_room(phase *p, size_t room)
{
    *p = (phase){.room = room};
    p->ready = calloc(room + 2, sizeof *p->ready);
    p->costs = calloc(room + 2, sizeof *p->costs);
    p->pieces = calloc(room + 2, sizeof *p->pieces);
    p->records = calloc(room + 2, sizeof *p->records);
    return p->ready && p->costs && p->pieces && p->records;
}

static void free_room(phase *p)
{
    free(p->ready);
    free(p->costs);
    free(p->pieces);
    free(p->records);
}

static void take(const prof_analysis *a, phase *p, int rank, size_t record)
{
    const prof_operation *o = &a->split->ranks[rank].operations[record];
    const prof_row *row = &a->rows[a->row_of[rank][record]];
    p->alone = p->count == 0 ? !isnan(row->alone) : p->alone && !isnan(row->alone);
    p->costs[p->count] = isnan(row->alone) ? (double)o->transfer : row->alone;
    p->records[p->count++] = &a->run->ranks[rank].records[record];
    p->exposed += (double)o->exposed;
    p->transfer += (double)o->transfer;
}

/* Ready times from that of the first; those of reductions never fall. */
static void count_from_first(phase *p)
{
    int64_t first = p->records[0]->ready;
    for (size_t i = 0; i < p->count; i++)
        p->ready[i] = fmax((double)(p->records[i]->ready - first), i ? p->ready[i - 1] : 0);
}

static void add(prof_ideal *ideal, const phase *p, double left)
{
    ideal->alone = ideal->count == 0 ? p->alone : ideal->alone && p->alone;
    ideal->count++;
    ideal->ideal += left;
    ideal->exposed += p->exposed;
    ideal->transfer += p->transfer;
    ideal->ready += p->ready[p->count - 1];
    ideal->last_cost += p->costs[p->count - 1];
    ideal->buckets += (double)p->count;
}

/* The last gradient of a backward makes the last bucket ready. */
static void end_reduces(prof_analysis *a, phase *p)
{
    count_from_first(p);
    size_t last = p->count - 1;
    add(&a->reduces, p, closed_form_reduces(p->ready, p->costs, p->count, p->ready[last]));
    double moved = last > 0 ? 0.75 * p->costs[last] : 0; /* into the bucket before it */
    p->costs[last] -= moved;
    if (last > 0)
        p->costs[last - 1] += moved;
    a->reduces.smaller_last += closed_form_reduces(p->ready, p->costs, p->count, p->ready[last]);
}

static int by_wait(const void *a, const void *b)
{
    const prof_record *x = *(const prof_record *const *)a, *y = *(const prof_record *const *)b;
    return (x->wait > y->wait) - (x->wait < y->wait);
}

/* Computing that needs none of these gathers stands in front, as behind a gather of no cost: the rest of the step. */
static void end_gathers(prof_analysis *a, phase *p)
{
    count_from_first(p);
    qsort(p->records, p->count, sizeof(const prof_record *), by_wait);
    const prof_record *first = p->records[0];
    memmove(p->ready + 1, p->ready, p->count * sizeof *p->ready);
    memmove(p->costs + 1, p->costs, p->count * sizeof *p->costs);
    p->ready[0] = p->costs[0] = 0;
    p->pieces[0] = fmax((double)(first->wait - first->ready), 0);
    for (size_t i = 0; i < p->count; i++) {
        const prof_record *r = p->records[i], *next = i + 1 < p->count ? p->records[i + 1] : NULL;
        p->pieces[i + 1] = next ? fmax((double)(next->wait - r->go), 0) : 0;
    }
    for (size_t i = 1; i <= p->count; i++)
        a->gathers.between += p->pieces[i];
    double left = closed_form_gathers(p->ready, p->costs, p->pieces, p->count + 1);
    memmove(p->ready, p->ready + 1, p->count * sizeof *p->ready);
    memmove(p->costs, p->costs + 1, p->count * sizeof *p->costs);
    add(&a->gathers, p, left);
}

static void end_phase(prof_analysis *a, phase *p, bool gathers)
{
    if (p->count > 0 && gathers)
        end_gathers(a, p);
    else if (p->count > 0)
        end_reduces(a, p);
    p->count = 0;
    p->exposed = p->transfer = 0;
}

static bool is_complete(const prof_record *r)
{
    return r->result == WEFT_OK && r->ready != PROF_UNKNOWN && r->last != PROF_UNKNOWN && r->wait != PROF_UNKNOWN &&
           r->go != PROF_UNKNOWN;
}

/* All phases of one comm on one rank: its records of one step follow each other. */
static void walk(prof_analysis *a, phase *p, int rank, int comm, bool gathers)
{
    const prof_rank *r = &a->run->ranks[rank];
    int step = -1;
    for (size_t i = 0; i < r->count; i++) {
        const prof_record *record = &r->records[i];
        if (record->kind != WEFT_TRACE_COLLECTIVE || record->comm != comm || a->row_of[rank][i] < 0 ||
            !is_complete(record))
            continue;
        if (record->step != step)
            end_phase(a, p, gathers);
        step = record->step;
        take(a, p, rank, i);
    }
    end_phase(a, p, gathers);
}

static void average(prof_ideal *ideal, size_t windows)
{
    double n = windows > 0 ? (double)windows : 1, phases = ideal->count > 0 ? (double)ideal->count : 1;
    ideal->ideal /= n;
    ideal->exposed /= n;
    ideal->transfer /= n;
    ideal->smaller_last /= n;
    ideal->ready /= phases;
    ideal->between /= phases;
    ideal->last_cost /= phases;
    ideal->buckets /= phases;
}

bool prof_find_ideal(prof_analysis *a)
{
    size_t most = 0;
    for (int r = 0; r < a->run->count; r++)
        most = a->run->ranks[r].count > most ? a->run->ranks[r].count : most;
    phase p;
    bool done = make_room(&p, most), known = prof_comms_known(a);
    for (int c = 0; done && known && c < a->run->comm_count; c++) {
        char purpose[WEFT_TRACE_LABEL_BYTES];
        prof_purpose(a->run->comms[c].name, purpose, sizeof purpose);
        bool gathers = strcmp(purpose, "gather") == 0;
        for (int r = 0; r < a->run->count && (gathers || strcmp(purpose, "reduce") == 0); r++)
            if (a->run->comms[c].size > 1 && prof_rank_selected(a, r))
                walk(a, &p, r, c, gathers);
    }
    free_room(&p);
    average(&a->reduces, a->totals.windows);
    average(&a->gathers, a->totals.windows);
    return done;
}
