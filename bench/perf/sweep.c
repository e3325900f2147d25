/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, types, reductions, roots, sizes, halves, rounds, backends: the loops around one measurement. */
#include "perf/sweep.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "cores.h"
#include "out.h"
#include "perf/half.h"
#include "perf/probe.h"
#include "perf/report.h"
#include "try.h"

static const double probe_ms = 50, probe_row_ms = 0.5;

typedef struct sweep {
    perf_job *job;
    const perf_settings *settings;
    weft_world *world;
    int rank, ranks;
    weft_comm *control, *comms[OPTION_TEXTS_MAX];
    int backends;
    perf_bench bench;
    perf_report report; /* rank 0's */
    perf_row rows[OPTION_TEXTS_MAX];
    double wrong; /* so far, over all ranks */
} sweep;

static bool tells(const sweep *w)
{
    return w->rank == 0;
}

/* ------------------------------------------------------------------------------------------- one half of a row */

/* What one backend has shown in a half so far. */
typedef struct shown {
    perf_plan plan;
    double wrong;
    double *samples, *medians; /* of all rounds; of each */
} shown;

static void take_up(sweep *w, int backend, int in_place)
{
    w->bench.comm = w->comms[backend];
    w->bench.in_place = in_place;
    perf_bench_prepare(&w->bench);
}

static weft_result one_round(sweep *w, shown *all, int round, int in_place)
{
    for (int k = 0; k < w->backends; k++) {
        shown *own = &all[k];
        take_up(w, k, in_place);
        TRY(perf_bench_time(&w->bench, &own->plan, &own->wrong));
        double *samples = own->samples + (size_t)round * own->plan.samples;
        memcpy(samples, w->bench.clock.all, own->plan.samples * sizeof *samples);
        own->medians[round] = perf_median(w->bench.clock.all, own->plan.samples);
    }
    return WEFT_OK;
}

static weft_result prepare_backend(sweep *w, shown *own, int backend, int in_place, double row_us)
{
    size_t rounds = (size_t)w->settings->rounds;
    take_up(w, backend, in_place);
    TRY(perf_bench_check(&w->bench, &own->wrong));
    TRY(perf_bench_plan(&w->bench, row_us, &own->plan));
    own->samples = malloc(rounds * own->plan.samples * sizeof *own->samples);
    own->medians = malloc(rounds * sizeof *own->medians);
    return own->samples && own->medians ? WEFT_OK : WEFT_E_NO_MEMORY;
}

/* The median over the rounds of the time of one over that of another. */
static double ratio_of(const shown *own, const shown *first, int rounds)
{
    double ratios[PERF_ROUNDS_MAX];
    for (int i = 0; i < rounds; i++)
        ratios[i] = own->medians[i] / first->medians[i];
    return perf_median(ratios, (size_t)rounds);
}

static void conclude(sweep *w, perf_half *half, shown *own, const shown *first)
{
    half->measured = true;
    half->us = perf_statistics_of(own->samples, (size_t)w->settings->rounds * own->plan.samples);
    half->samples = (size_t)w->settings->rounds * own->plan.samples;
    half->calls = own->plan.calls * (size_t)w->settings->aggregate;
    half->algbw = perf_algbw(&w->bench.subject, half->us.median);
    half->busbw = perf_busbw(&w->bench.subject, half->us.median);
    half->wrong = w->settings->check ? own->wrong : NAN;
    if (w->backends > 1)
        half->ratio = ratio_of(own, first, w->settings->rounds);
}

static weft_result measure_beside(sweep *w, int backend, int in_place, double row_us)
{
    perf_half *half = &w->rows[backend].half[in_place];
    take_up(w, backend, in_place);
    if (w->settings->limits)
        TRY(perf_bench_limit(&w->bench, row_us, &half->limit_us));
    if (w->settings->contend)
        TRY(perf_bench_contend(&w->bench, row_us, &half->contended_us, &half->product_left));
    return WEFT_OK;
}

static weft_result measure_rounds(sweep *w, shown *all, int in_place)
{
    double row_us = w->settings->row_ms * 1e3;
    for (int k = 0; k < w->backends; k++)
        TRY(prepare_backend(w, &all[k], k, in_place, row_us / w->settings->rounds));
    for (int round = 0; round < w->settings->rounds; round++)
        TRY(one_round(w, all, round, in_place));
    for (int k = 0; k < w->backends; k++)
        conclude(w, &w->rows[k].half[in_place], &all[k], &all[0]);
    for (int k = 0; k < w->backends; k++) {
        w->wrong += all[k].wrong;
        TRY(measure_beside(w, k, in_place, row_us));
    }
    return WEFT_OK;
}

/* Only what can be had at the speed of memory. */
static weft_result measure_limit(sweep *w, int in_place)
{
    perf_half *half = &w->rows[0].half[in_place];
    take_up(w, 0, in_place);
    TRY(perf_bench_limit(&w->bench, w->settings->row_ms * 1e3, &half->limit_us));
    double us = half->limit_us;
    half->measured = !isnan(us);
    half->us = (perf_statistics){.median = us, .p99 = us, .min = us, .max = us};
    half->algbw = half->measured ? perf_algbw(&w->bench.subject, us) : NAN;
    half->busbw = half->measured ? perf_busbw(&w->bench.subject, us) : NAN;
    return WEFT_OK;
}

/* The processors of rank 0 and of the first rank beside it on its host, measured by rank 0. */
static weft_result probe(sweep *w, double ms, double *ns)
{
    double places[2] = {w->rank == 0 ? sched_getcpu() : -1,
                        w->rank == 1 && weft_world_host(w->world, 1) == weft_world_host(w->world, 0) ? sched_getcpu()
                                                                                                     : -1};
    *ns = NAN;
    if (w->ranks < 2)
        return WEFT_OK;
    TRY(weft_all_reduce_run(w->control, places, places, 2, WEFT_FP64, WEFT_MAX, WEFT_STREAM_HOST));
    if (w->rank == 0) {
        usleep(200); /* the others have come to wait, and sleep */
        *ns = perf_probe((int)places[0], (int)places[1], ms);
    }
    return weft_barrier_run(w->control, WEFT_STREAM_HOST);
}

static weft_result measure_half(sweep *w, int in_place)
{
    shown all[OPTION_TEXTS_MAX] = {{{0}}};
    double ns;
    weft_result result = probe(w, probe_row_ms, &ns);
    for (int k = 0; k < w->backends; k++)
        w->rows[k].half[in_place].probe_ns = ns;
    if (result == WEFT_OK)
        result = w->settings->limits_only ? measure_limit(w, in_place) : measure_rounds(w, all, in_place);
    for (int k = 0; k < w->backends; k++) {
        free(all[k].samples);
        free(all[k].medians);
    }
    return result;
}

/* ------------------------------------------------------------------------------------------- rows */

static void clear_rows(sweep *w)
{
    static const perf_half nothing = {
        .wrong = NAN, .ratio = NAN, .limit_us = NAN, .contended_us = NAN, .product_left = NAN, .probe_ns = NAN};
    for (int k = 0; k < w->backends; k++)
        w->rows[k] = (perf_row){
            &w->bench.subject, w->settings->limits_only ? "limit" : weft_comm_backend(w->comms[k]), {nothing, nothing}};
}

/* One backend shows each half as it comes; several are shown when all have been measured. */
static weft_result one_row(sweep *w)
{
    bool at_once = w->backends == 1 && tells(w), in_place_too = w->bench.subject.operation->in_place;
    clear_rows(w);
    if (tells(w))
        perf_report_row(&w->report, &w->rows[0]);
    for (int in_place = 0; in_place < 2; in_place++) {
        if (!in_place || in_place_too)
            TRY(measure_half(w, in_place));
        if (at_once)
            perf_report_half(&w->report, &w->rows[0], in_place);
    }
    for (int k = 0; k < w->backends && tells(w); k++) {
        if (k > 0)
            perf_report_row(&w->report, &w->rows[k]);
        for (int in_place = 0; in_place < 2 && !at_once; in_place++)
            perf_report_half(&w->report, &w->rows[k], in_place);
        perf_report_row_end(&w->report, &w->rows[k]);
    }
    return WEFT_OK;
}

static weft_result all_sizes(sweep *w)
{
    const perf_settings *s = w->settings;
    perf_subject *subject = &w->bench.subject;
    bool first = true;
    for (size_t bytes = s->min_bytes; bytes || first; bytes = perf_next_size(s, bytes)) {
        size_t count = perf_count_of(subject->operation, subject->dtype, w->ranks, bytes);
        if (!first && count == subject->count)
            continue; /* the same row again */
        first = false;
        subject->count = count;
        TRY(one_row(w));
    }
    return WEFT_OK;
}

static weft_result all_roots(sweep *w)
{
    const perf_operation *o = w->bench.subject.operation;
    bool rooted = o->senders == PERF_ROOT || o->receivers == PERF_ROOT;
    bool every = rooted && w->settings->first_root < 0;
    for (int root = every || !rooted ? 0 : w->settings->first_root; root < w->ranks; root++) {
        w->bench.subject.root = root;
        TRY(all_sizes(w));
        if (!every)
            break;
    }
    return WEFT_OK;
}

static weft_result all_reductions(sweep *w)
{
    const perf_settings *s = w->settings;
    perf_subject *subject = &w->bench.subject;
    for (int i = 0; i < s->reduction_count; i++) {
        subject->reduction = s->reductions[i];
        if (subject->operation->reduces && !perf_can_reduce(subject->dtype, subject->reduction))
            continue;
        TRY(all_roots(w));
        if (!subject->operation->reduces)
            break;
    }
    return WEFT_OK;
}

static weft_result all_types(sweep *w, const perf_operation *operation)
{
    w->bench.subject.operation = operation;
    if (tells(w))
        perf_report_head(&w->report, operation, w->ranks);
    if (operation->power_of_two && (w->ranks & (w->ranks - 1)))
        return WEFT_OK;
    for (int i = 0; i < w->settings->dtype_count; i++) {
        w->bench.subject.dtype = w->settings->dtypes[i];
        TRY(all_reductions(w));
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the whole */

static weft_result begin_report(sweep *w)
{
    perf_who mine = {.pid = (int)getpid(), .cpu = sched_getcpu()};
    double ns;
    gethostname(mine.host, sizeof mine.host - 1);
    perf_who *who = calloc((size_t)w->ranks, sizeof *who);
    if (!who)
        return WEFT_E_NO_MEMORY;
    weft_result result = probe(w, probe_ms, &ns);
    if (result == WEFT_OK)
        result = weft_all_gather_run(w->control, &mine, who, sizeof mine, WEFT_UINT8, WEFT_STREAM_HOST);
    if (result == WEFT_OK && tells(w))
        perf_report_begin(&w->report, w->job->name, who, w->ranks, ns);
    free(who);
    return result;
}

static weft_result run_all(sweep *w)
{
    const perf_settings *s = w->settings;
    TRY(begin_report(w));
    for (int cycle = 0; s->cycles == 0 || cycle < s->cycles; cycle++)
        for (int i = 0; i < s->operation_count; i++)
            TRY(all_types(w, s->operations[i]));
    if (tells(w))
        perf_report_end(&w->report, w->job->name);
    if (w->wrong > 0)
        atomic_store(&w->job->code, EXIT_WRONG);
    return WEFT_OK;
}

static weft_result make_comms(sweep *w)
{
    const option_texts *names = &w->settings->backends;
    w->backends = names->count ? names->count : 1;
    for (int k = 0; k < w->backends; k++) {
        weft_comm_config config = WEFT_COMM_CONFIG_INIT;
        char name[16];
        config.backend = names->count ? names->items[k] : NULL;
        config.works = PERF_IN_FLIGHT_MAX;
        snprintf(name, sizeof name, "perf%d", k);
        TRY(weft_comm_create(w->world, name, NULL, 0, &config, &w->comms[k]));
    }
    return WEFT_OK;
}

/* What cannot be seen before the ranks are counted. EXIT_DONE, or the code after a complaint of rank 0. */
static int check_ranks(const sweep *w)
{
    const perf_settings *s = w->settings;
    const perf_operation *only = s->operation_count == 1 ? s->operations[0] : NULL;
    if (s->first_root >= w->ranks)
        return tells(w) ? complain(EXIT_USAGE, "-r is %d, and there are %d ranks", s->first_root, w->ranks)
                        : EXIT_USAGE;
    if (only && only->power_of_two && (w->ranks & (w->ranks - 1)))
        return tells(w) ? complain(EXIT_USAGE, "%s wants a power of two, not %d ranks", only->name, w->ranks)
                        : EXIT_USAGE;
    return EXIT_DONE;
}

/* Rank 0 opens the files; all hear if it cannot. */
static weft_result open_files(sweep *w, char *why, size_t why_bytes)
{
    const perf_settings *s = w->settings;
    perf_report *r = &w->report;
    *r = (perf_report){.settings = s, .text = stdout};
    if (!tells(w))
        return WEFT_OK;
    const char *paths[] = {s->json, s->csv};
    FILE **files[] = {&r->json, &r->csv};
    for (int i = 0; i < 2; i++) {
        *files[i] = paths[i] ? out_open(paths[i]) : NULL;
        if (paths[i] && !*files[i]) {
            snprintf(why, why_bytes, "cannot write '%s': %s", paths[i], strerror(errno));
            return WEFT_E_SYSTEM;
        }
        if (*files[i] == stdout)
            r->text = stderr;
    }
    return WEFT_OK;
}

static void close_files(sweep *w)
{
    const char *paths[] = {w->settings->json, w->settings->csv};
    FILE *files[] = {w->report.json, w->report.csv};
    for (int i = 0; i < 2; i++)
        if (files[i] && !out_close(files[i]))
            atomic_store(&w->job->code, out_complain(paths[i]));
}

static weft_result work(sweep *w)
{
    char why[512] = "";
    TRY(weft_comm_create(w->world, "perf.control", NULL, 0, NULL, &w->control));
    int code = check_ranks(w);
    if (code != EXIT_DONE) {
        atomic_store(&w->job->code, code);
        return WEFT_OK;
    }
    weft_result result = open_files(w, why, sizeof why);
    TRY(weft_comm_agree(w->control, result, why[0] ? why : NULL));
    result = perf_bench_open(&w->bench, w->settings, w->control);
    TRY(weft_comm_agree(w->control, result, result == WEFT_E_NO_MEMORY ? "no memory for the buffers" : NULL));
    TRY(make_comms(w));
    return run_all(w);
}

weft_result perf_sweep(weft_world *world, void *argument)
{
    sweep w = {.job = argument, .world = world, .rank = weft_world_rank(world), .ranks = weft_world_size(world)};
    w.settings = w.job->settings;
    if (w.job->bind)
        cores_share(w.rank, w.ranks);
    weft_result result = work(&w);
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error());
    for (int k = 0; k < w.backends; k++)
        weft_comm_destroy(w.comms[k]);
    perf_bench_close(&w.bench);
    weft_comm_destroy(w.control);
    close_files(&w);
    return result;
}
