/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `weft perf overlap`: from the command line to the ranks, shape by shape, and to the exit code. */
#include "perf/overlap/command.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "cores.h"
#include "option.h"
#include "out.h"
#include "perf/overlap/measure.h"
#include "perf/overlap/report.h"
#include "perf/product.h"
#include "perf/ranks.h"
#include "try.h"

enum { ROWS_MOST = 512 }; /* of a sweep: as many factors of 1.1 as lie between a byte and 10^15 */

typedef struct job {
    const overlap_options *options;
    _Atomic int code; /* of the exit, where no operation failed */
} job;

/* One rank. */
typedef struct bench {
    job *job;
    const overlap_options *options;
    weft_world *world;
    weft_comm *control, *comm;
    overlap_shape shape;
    overlap_subject subject;
    overlap_compute compute;
    overlap_runner runner;
    overlap_plan plan;
    /* Of rank 0, which tells: */
    overlap_setup setup;
    FILE *text, *json, *svg; /* the last two may be NULL */
    bool files_opened;       /* of all ranks */
    overlap_figures figures[ROWS_MOST][OVERLAP_PHASES];
    int rows;
} bench;

static bool tells(const bench *b)
{
    return weft_world_rank(b->world) == 0;
}

/* ------------------------------------------------------------------------------------------- rows */

static weft_result open_subject(bench *b)
{
    const overlap_options *o = b->options;
    if (o->one)
        return overlap_subject_one(&b->subject, b->comm, &b->shape, o->operation);
    return overlap_subject_buckets(&b->subject, b->comm, &b->shape);
}

/* Once: rows of a sweep have the same computing. */
static weft_result calibrate(bench *b)
{
    double ms = b->options->compute_ms;
    if (b->compute.amount > 0)
        return WEFT_OK;
    if (ms <= 0) {
        TRY(overlap_measure_communication(&b->runner, &b->plan, &ms));
        ms /= b->options->ratio;
    }
    return overlap_measure_amount(&b->runner, &b->plan, ms);
}

static void report_row(bench *b, const overlap_figures figures[OVERLAP_PHASES])
{
    if (!tells(b))
        return;
    if (b->options->sweep)
        overlap_report_line(b->text, figures);
    else
        overlap_report_columns(b->text, figures, b->plan.phase_count);
    if (b->json)
        overlap_report_json(b->json, &b->setup, figures, b->plan.phase_count);
    memcpy(b->figures[b->rows], figures, sizeof *b->figures);
    b->rows += b->rows < ROWS_MOST - 1;
}

static void close_row(bench *b)
{
    overlap_runner_close(&b->runner);
    overlap_subject_close(&b->subject);
}

static weft_result one_row(bench *b)
{
    overlap_figures figures[OVERLAP_PHASES] = {0};
    TRY(open_subject(b));
    TRY(overlap_runner_open(&b->runner, b->shape.count));
    TRY(calibrate(b));
    TRY(overlap_measure(&b->runner, &b->plan, figures));
    report_row(b, figures);
    close_row(b);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the whole */

static void begin_report(bench *b)
{
    int ranks = weft_world_size(b->world), hosts = 0;
    for (int rank = 0; rank < ranks; rank++)
        if (weft_world_host(b->world, rank) >= hosts)
            hosts = weft_world_host(b->world, rank) + 1;
    b->setup = (overlap_setup){b->options, ranks, hosts, weft_comm_backend(b->comm)};
    overlap_report_begin(b->text, &b->setup);
    if (b->options->sweep)
        overlap_report_head(b->text);
}

/* Rank 0 opens the files before anything is measured; where it cannot all ranks end, and one says why. */
static weft_result open_files(bench *b)
{
    const char *paths[] = {b->options->json, b->options->svg};
    FILE **files[] = {&b->json, &b->svg};
    int code = EXIT_DONE;
    b->text = stdout;
    for (int i = 0; i < 2 && tells(b) && code == EXIT_DONE; i++) {
        *files[i] = paths[i] ? out_open(paths[i]) : NULL;
        if (paths[i] && !*files[i])
            code = out_complain(paths[i]);
        if (*files[i] == stdout)
            b->text = stderr;
    }
    TRY(weft_all_reduce_run(b->control, &code, &code, 1, WEFT_INT32, WEFT_MAX, WEFT_STREAM_HOST));
    if (code != EXIT_DONE)
        atomic_store(&b->job->code, code);
    b->files_opened = code == EXIT_DONE;
    return WEFT_OK;
}

static void close_files(bench *b)
{
    const char *paths[] = {b->options->json, b->options->svg};
    FILE *files[] = {b->json, b->svg};
    if (b->svg && b->rows)
        overlap_report_picture(b->svg, &b->setup, b->figures[0], b->rows);
    for (int i = 0; i < 2; i++)
        if (files[i] && !out_close(files[i]))
            atomic_store(&b->job->code, out_complain(paths[i]));
}

static weft_result all_rows(bench *b)
{
    const overlap_options *o = b->options;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = o->backend;
    TRY(weft_comm_create(b->world, "overlap.control", NULL, 0, NULL, &b->control));
    TRY(open_files(b));
    if (!b->files_opened)
        return WEFT_OK;
    TRY(weft_comm_create(b->world, "overlap", NULL, 0, &config, &b->comm));
    bool made = overlap_compute_open(&b->compute, o->kernel);
    TRY(weft_comm_agree(b->control, made ? WEFT_OK : WEFT_E_NO_MEMORY, made ? NULL : "no memory to compute in"));
    b->runner = (overlap_runner){.control = b->control,
                                 .subject = &b->subject,
                                 .compute = &b->compute,
                                 .forward = o->forward,
                                 .threads = o->threads};
    b->plan = (overlap_plan){.phases = o->one ? &overlap_alone : overlap_step,
                             .phase_count = o->one ? 1 : OVERLAP_PHASES,
                             .rounds = o->rounds,
                             .row_s = o->row_s,
                             .within_ms = o->within_ms};
    if (tells(b))
        begin_report(b);
    for (bool more = overlap_options_first(o, &b->shape); more; more = overlap_options_next(o, &b->shape))
        TRY(one_row(b));
    return WEFT_OK;
}

static weft_result measure_rank(bench *b)
{
    if (weft_world_size(b->world) == 1) {
        int code =
            complain(EXIT_USAGE, "one rank exchanges nothing: start ranks with weft run -n N, weft hosts, mpirun "
                                 "or torchrun, or say -t N");
        atomic_store(&b->job->code, code);
        return WEFT_OK;
    }
    if (b->options->threads > 1)
        cores_share(weft_world_rank(b->world), weft_world_size(b->world));
    weft_result result = all_rows(b);
    if (result != WEFT_OK) /* before anything is destroyed: nobody waits for this rank, and all hear why */
        weft_world_abort(b->world, result, weft_last_error());
    close_row(b);
    weft_comm_destroy(b->comm);
    weft_comm_destroy(b->control);
    overlap_compute_close(&b->compute);
    close_files(b);
    return result;
}

static weft_result run_rank(weft_world *world, void *argument)
{
    bench *b = calloc(1, sizeof *b); /* no matter for a thread's stack */
    weft_result result = WEFT_E_NO_MEMORY;
    if (b) {
        b->job = argument;
        b->options = b->job->options;
        b->world = world;
        result = measure_rank(b);
    }
    free(b);
    return result;
}

/* Two records for each bucket and phase, and some between them. */
static uint32_t records_for(const overlap_options *o)
{
    uint32_t records = 8192;
    while (records < 8 * overlap_options_most(o))
        records *= 2;
    return records;
}

int perf_overlap(int argc, char **argv)
{
    overlap_options o;
    job j = {.options = &o};
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    int code = overlap_options_read(&o, argc, argv);
    if (code != OPTIONS_GO)
        return code;
    if (o.kernel == OVERLAP_PRODUCT)
        perf_product_open(argv - 2);
    config.timeout_ms = (uint32_t)o.timeout_s * 1000;
    config.trace_records = records_for(&o);
    code = perf_ranks_run(o.threads, &config, run_rank, &j);
    return code == EXIT_DONE ? atomic_load(&j.code) : code;
}
