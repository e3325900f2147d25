/* SPDX-License-Identifier: Apache-2.0 */
/* Puts operations that are alike into rows: a bucket's reductions of all steps and ranks, the messages of one way, the
 * calls on comms of one purpose. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>

#include "prof/analysis.h"

void prof_purpose(const char *comm, char *purpose, size_t bytes)
{
    const char *slash = strrchr(comm, '/');
    bool own = strncmp(comm, "weft.", 5) == 0; /* no other may be called so */
    snprintf(purpose, bytes, "%s", own && slash ? slash + 1 : comm);
    size_t end = strlen(purpose);
    while (end > 0 && isdigit((unsigned char)purpose[end - 1]))
        end--;
    if (end > 1 && purpose[end - 1] == '.')
        purpose[end - 1] = 0;
}

/* ---- which row ---- */

static void name_row(const prof_run *run, const prof_record *r, prof_row *row)
{
    if (r->kind == WEFT_TRACE_P2P)
        snprintf(row->kind, sizeof row->kind, "p2p");
    else
        prof_purpose(r->comm >= 0 ? run->comms[r->comm].name : "", row->kind, sizeof row->kind);
    if (*r->label)
        snprintf(row->name, sizeof row->name, "%s", r->label);
    else
        snprintf(row->name, sizeof row->name, "%s %s", row->kind, prof_record_name(r));
}

/* Index of the row of that name and kind, made if there is none; -1: no memory. */
static int row_named(prof_analysis *a, const prof_row *wanted)
{
    for (int i = 0; i < a->row_count; i++)
        if (strcmp(a->rows[i].name, wanted->name) == 0 && strcmp(a->rows[i].kind, wanted->kind) == 0)
            return i;
    prof_row *rows = realloc(a->rows, ((size_t)a->row_count + 1) * sizeof *rows);
    if (!rows)
        return -1;
    a->rows = rows;
    rows[a->row_count] = *wanted;
    return a->row_count++;
}

/* Those of one label, comm and operation are alike: the row of the one before them is remembered. */
typedef struct known {
    const char *label;
    int comm, row;
    uint8_t kind, operation;
} known;

enum { KNOWN = 1024 };

static int row_of(prof_analysis *a, const prof_record *r, known *table)
{
    size_t hash = ((uintptr_t)r->label / WEFT_TRACE_LABEL_BYTES + (size_t)(r->comm + 1) * 31 + r->operation) % KNOWN;
    known *k = &table[hash];
    if (k->label == r->label && k->comm == r->comm && k->kind == r->kind && k->operation == r->operation)
        return k->row;
    prof_row row = {.late = -1};
    name_row(a->run, r, &row);
    *k = (known){r->label, r->comm, row_named(a, &row), r->kind, r->operation};
    return k->row;
}

/* ---- sums ---- */

/* What crosses the bus for a byte of the larger buffer, as nccl-tests count; NaN: the comm's size is not known. */
static double bus_factor(const prof_run *run, const prof_record *r)
{
    double n = r->comm >= 0 ? run->comms[r->comm].size : 0;
    if (r->kind == WEFT_TRACE_P2P)
        return 1;
    if (n < 1)
        return (double)NAN;
    switch ((weft_collective_kind)r->operation) {
    case WEFT_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        return (n - 1) / n;
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
    case WEFT_BARRIER:
        break;
    }
    return n > 1 ? 1 : 0;
}

static void take(const prof_run *run, prof_row *row, const prof_record *r, const prof_operation *o)
{
    row->count++;
    row->bytes += (double)r->bytes;
    row->queue += (double)o->queue;
    row->skew += (double)o->skew;
    row->transfer += (double)o->transfer;
    row->bus_bytes_per_s += (double)r->bytes * bus_factor(run, r);
    row->hidden += (double)o->hidden;
    row->exposed += (double)o->exposed;
    row->exposed_skew += (double)o->exposed_skew;
}

static void average(prof_row *row, double windows)
{
    double n = (double)row->count;
    row->alone = row->alone_count > 0 ? row->alone / (double)row->alone_count : (double)NAN;
    if (row->count == 0 || windows == 0)
        return;
    row->bus_bytes_per_s =
        row->transfer > 0 && !isnan(row->bus_bytes_per_s) ? row->bus_bytes_per_s / (row->transfer * 1e-9) : 0;
    row->bytes /= n;
    row->queue /= n;
    row->skew /= n;
    row->transfer /= n;
    row->hidden /= windows;
    row->exposed /= windows;
    row->exposed_skew /= windows;
}

/* Was the operation run when nobody computed? */
static bool is_alone(const prof_run *run, const prof_record *r)
{
    const char *label = r->step >= 0 ? run->steps[r->step].label : "";
    return strcmp(label, PROF_SERIAL) == 0 || strcmp(label, PROF_ALONE) == 0;
}

static bool take_rank(prof_analysis *a, int rank, known *table)
{
    const prof_rank *r = &a->run->ranks[rank];
    memset(table, 0, KNOWN * sizeof *table);
    for (size_t i = 0; i < r->count; i++) {
        const prof_record *record = &r->records[i];
        const prof_operation *o = &a->split->ranks[rank].operations[i];
        bool selected = record->step >= 0 && prof_is_selected(a, record->step), alone = is_alone(a->run, record);
        a->row_of[rank][i] = -1;
        if (!prof_is_operation(record) || !prof_rank_selected(a, rank) || (!selected && !alone))
            continue;
        int row = row_of(a, record, table);
        if (row < 0)
            return false;
        if (selected) {
            a->row_of[rank][i] = row;
            take(a->run, &a->rows[row], record, o);
        } else {
            a->rows[row].alone += (double)o->transfer;
            a->rows[row].alone_count++;
        }
    }
    return true;
}

bool prof_make_rows(prof_analysis *a)
{
    known *table = calloc(KNOWN, sizeof *table);
    a->row_of = calloc((size_t)a->run->count, sizeof *a->row_of);
    bool done = table && a->row_of;
    for (int r = 0; done && r < a->run->count; r++) {
        a->row_of[r] = calloc(a->run->ranks[r].count + 1, sizeof **a->row_of);
        done = a->row_of[r] && take_rank(a, r, table);
    }
    for (int i = 0; i < a->row_count; i++)
        average(&a->rows[i], (double)a->totals.windows);
    free(table);
    return done;
}
