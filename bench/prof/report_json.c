/* SPDX-License-Identifier: Apache-2.0 */
/* The report for programs: one object, times in milliseconds. */
#include <math.h>

#include "json.h"
#include "prof/report.h"

#define MS 1e-6

static void put_ms(json_writer *json, const char *key, double ns)
{
    json_put_number(json, key, ns * MS);
}

static void put_budget(json_writer *json, const char *key, const prof_budget *b)
{
    json_open(json, key, '{');
    put_ms(json, "step_ms", b->step);
    put_ms(json, "compute_ms", b->computing);
    put_ms(json, "hidden_ms", b->hidden);
    put_ms(json, "exposed_ms", b->exposed);
    put_ms(json, "idle_ms", b->idle);
    put_ms(json, "skew_ms", b->skew);
    put_ms(json, "transfer_ms", b->transfer);
    put_ms(json, "unknown_ms", b->unknown);
    json_close(json, '}');
}

static void put_run(json_writer *json, const prof_analysis *a)
{
    const prof_run *run = a->run;
    prof_span span = prof_selected_steps(a);
    json_put_whole(json, "ranks", run->size);
    json_open(json, "missing", '[');
    for (int i = 0; i < run->missing_count; i++)
        json_put_whole(json, NULL, run->missing[i]);
    json_close(json, ']');
    json_open(json, "steps", '{');
    json_put_whole(json, "count", span.count);
    json_put_whole(json, "first", (int64_t)span.first);
    json_put_whole(json, "last", (int64_t)span.last);
    const prof_totals *t = &a->totals;
    put_ms(json, "median_ms", t->step_count ? t->steps[t->step_count / 2] : (double)NAN);
    put_ms(json, "max_ms", t->step_count ? t->steps[t->step_count - 1] : (double)NAN);
    json_close(json, '}');
    json_open(json, "clocks", '[');
    static const char *const fits[] = {"same", "fitted", "calendar"};
    for (const prof_clock *c = run->clocks; c < run->clocks + run->clock_count; c++) {
        json_open(json, NULL, '{');
        json_put_text(json, "host", run->ranks[c->first].host);
        json_put_text(json, "fit", fits[c->fit]);
        put_ms(json, "offset_ms", c->offset_ns);
        json_put_number(json, "drift", c->drift);
        put_ms(json, "residual_ms", c->fit == PROF_FIT_CALENDAR ? (double)NAN : c->residual_ns);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void put_ideal(json_writer *json, const char *key, const prof_ideal *i)
{
    if (i->count == 0) {
        json_put_null(json, key);
        return;
    }
    json_open(json, key, '{');
    put_ms(json, "closed_form_ms", i->ideal);
    put_ms(json, "exposed_ms", i->exposed);
    put_ms(json, "transfer_ms", i->transfer);
    put_ms(json, "ready_ms", i->ready);
    json_put_number(json, "buckets", i->buckets);
    json_put_bool(json, "costs_alone", i->alone);
    json_close(json, '}');
}

static void put_overlap(json_writer *json, const prof_analysis *a)
{
    const prof_totals *t = &a->totals;
    double communicating = t->mean.hidden + t->mean.exposed;
    json_open(json, "overlap", '{');
    json_put_number(json, "hidden_fraction", communicating > 0 ? t->mean.hidden / communicating : (double)NAN);
    json_put_number(json, "exposed_fraction", t->mean.step > 0 ? t->mean.exposed / t->mean.step : (double)NAN);
    json_put_number(json, "eta", t->eta);
    put_ms(json, "serial_ms", t->serial);
    put_ms(json, "alone_ms", t->alone);
    put_ideal(json, "reduce", &a->reduces);
    put_ideal(json, "gather", &a->gathers);
    json_close(json, '}');
}

static void put_rows(json_writer *json, const prof_analysis *a)
{
    json_open(json, "operations", '[');
    for (const prof_row *r = a->rows; r < a->rows + a->row_count; r++) {
        if (r->count == 0)
            continue;
        json_open(json, NULL, '{');
        json_put_text(json, "name", r->name);
        json_put_text(json, "kind", r->kind);
        json_put_whole(json, "count", (int64_t)r->count);
        json_put_number(json, "bytes", r->bytes);
        put_ms(json, "queue_ms", r->queue);
        put_ms(json, "skew_ms", r->skew);
        put_ms(json, "transfer_ms", r->transfer);
        json_put_number(json, "busbw", r->bus_bytes_per_s > 0 ? r->bus_bytes_per_s * 1e-9 : (double)NAN);
        put_ms(json, "hidden_ms", r->hidden);
        put_ms(json, "exposed_ms", r->exposed);
        put_ms(json, "exposed_skew_ms", r->exposed_skew);
        put_ms(json, "alone_ms", r->alone);
        json_put_whole(json, "late_rank", r->late < 0 ? -1 : a->run->ranks[r->late].rank);
        json_put_whole(json, "late_times", (int64_t)r->late_times);
        json_put_whole(json, "known_times", (int64_t)r->known_times);
        put_ms(json, "late_ms", r->late_by);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void put_computing(json_writer *json, const prof_analysis *a)
{
    json_open(json, "computing", '[');
    for (int i = 0; i < a->computing_count; i++) {
        json_open(json, NULL, '{');
        json_put_text(json, "name", a->computing[i].name);
        json_put_whole(json, "count", (int64_t)a->computing[i].count);
        put_ms(json, "ms", a->computing[i].sum);
        put_ms(json, "beside_ms", a->computing[i].beside);
        json_close(json, '}');
    }
    json_close(json, ']');
    put_ms(json, "unmarked_ms", a->unmarked);
}

static void put_ranks(json_writer *json, const prof_analysis *a)
{
    json_open(json, "by_rank", '[');
    for (int r = 0; r < a->run->count; r++) {
        const prof_late *l = &a->late[r];
        if (!prof_rank_selected(a, r))
            continue;
        json_open(json, NULL, '{');
        json_put_whole(json, "rank", a->run->ranks[r].rank);
        json_put_text(json, "host", a->run->ranks[r].host);
        put_budget(json, "budget", &a->totals.ranks[r]);
        json_put_whole(json, "late_times", (int64_t)l->times);
        json_put_whole(json, "late_of", (int64_t)l->of);
        put_ms(json, "late_ms", l->by);
        put_ms(json, "late_cost_ms", l->cost);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void put_lines(json_writer *json, const char *key, char **lines, size_t count)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(json, NULL, lines[i]);
    json_close(json, ']');
}

void prof_print_json(FILE *out, const prof_analysis *a, double record_ns)
{
    json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    put_run(&json, a);
    put_budget(&json, "budget", &a->totals.mean);
    put_overlap(&json, a);
    put_rows(&json, a);
    put_computing(&json, a);
    put_ranks(&json, a);
    json_put_whole(&json, "collectives_least", (int64_t)a->collectives_least);
    json_put_whole(&json, "collectives_most", (int64_t)a->collectives_most);
    if (a->order_differs || a->order_known)
        json_put_bool(&json, "order_differs", a->order_differs);
    else
        json_put_null(&json, "order_differs");
    json_put_number(&json, "trace_records", a->records_a_step);
    put_ms(&json, "trace_cost_ms", a->records_a_step * record_ns);
    put_lines(&json, "checks", a->checks, a->check_count);
    put_lines(&json, "hints", a->hints, a->hint_count);
    put_lines(&json, "notes", a->run->notes, a->run->note_count);
    json_close(&json, '}');
    json_end_line(&json);
}
