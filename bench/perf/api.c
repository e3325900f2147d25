/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf api`: times calls that move no bytes, or one element, so that what is left is weft itself. Figures are
 * medians over rounds; both sides of a difference are measured in turn, round by round. */
#include "perf/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "clock.h"
#include "complain.h"
#include "cores.h"
#include "json.h"
#include "option.h"
#include "out.h"
#include "perf/statistics.h"
#include "try.h"

typedef struct values {
    int rounds, repeats;
    const char *json;
} values;

#define FIELD(name) offsetof(values, name)
static const option table[] = {
    {"rounds", OPTION_INT, FIELD(rounds), 1, 10000, "N", "rounds; figures are medians over them (101)"},
    {"repeats", OPTION_INT, FIELD(repeats), 1, 10000000, "N", "calls timed together in a round (1000)"},
    {"json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "a line of JSON a call; - = standard output, with nothing else"},
};

static const char usage[] =
    "usage: weft perf api [options]\n\n"
    "Times weft's calls in ns: on one rank alone, and on two threads, each bound to a core if there are two. The cost\n"
    "of a bucket is that of marking, starting and finishing one of a single element less the bare collectives: by the\n"
    "median over rounds of the difference, and n/a where that is below 0 or within noise (95 %).";

/* ------------------------------------------------------------------------------------------- measuring */

/* What is timed: `repeats` calls; the answer is the ns of one of them. */
typedef weft_result (*timed)(void *what, int repeats);

static weft_result time_one(timed call, void *what, int repeats, double *ns)
{
    int64_t begin = clock_ns();
    TRY(call(what, repeats));
    *ns = (double)(clock_ns() - begin) / repeats;
    return WEFT_OK;
}

/* ns of each of @p count calls, measured in turn: its rounds, call by call. */
static weft_result measure(const timed *calls, int count, void *what, const values *v, double *ns)
{
    weft_result result = WEFT_OK;
    for (int round = -1; round < v->rounds && result == WEFT_OK; round++) /* the first is for warming up */
        for (int i = 0; i < count && result == WEFT_OK; i++)
            result = time_one(calls[i], what, v->repeats, &ns[i * v->rounds + (round < 0 ? 0 : round)]);
    return result;
}

/* ------------------------------------------------------------------------------------------- what is measured */

enum { PARAMS = 64 };
enum { NOTHING, RUN, STARTED, TWO, BUCKET, MARKS, SPANS, CALLS };

typedef struct subject {
    weft_world *world;
    weft_comm *comm;
    weft_buckets *one;  /* one bucket of one element, reduced in every window */
    weft_buckets *many; /* many params in one bucket: marks that launch nothing */
    float in[8], out[8];
} subject;

static weft_result nothing(void *what, int repeats)
{
    (void)what, (void)repeats;
    return WEFT_OK;
}

static weft_result bare(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i++)
        TRY(weft_reduce_scatter_run(s->comm, s->in, s->out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    return WEFT_OK;
}

static weft_result started(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i++) {
        weft_work work;
        TRY(weft_reduce_scatter_start(s->comm, s->in, s->out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        TRY(weft_work_finish(work, WEFT_STREAM_HOST));
    }
    return WEFT_OK;
}

static weft_result bucket(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i++) {
        TRY(weft_buckets_begin(s->one, 1));
        TRY(weft_buckets_mark_ready(s->one, 0, WEFT_STREAM_HOST));
        TRY(weft_buckets_reduce(&s->one, 1, 0));
        TRY(weft_buckets_gather(s->one, 0, WEFT_STREAM_HOST));
        TRY(weft_buckets_acquire(s->one, 0, 1, WEFT_STREAM_HOST));
    }
    return WEFT_OK;
}

static weft_result two_bare(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i++) {
        TRY(weft_reduce_scatter_run(s->comm, s->in, s->out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
        TRY(weft_all_gather_run(s->comm, s->out, s->in, 1, WEFT_FP32, WEFT_STREAM_HOST));
    }
    return WEFT_OK;
}

/* Microbatches that are not the last: PARAMS marks and a begin each, counted as marks. */
static weft_result marks(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i += PARAMS) {
        TRY(weft_buckets_begin(s->many, 0));
        for (uint32_t p = 0; p < PARAMS; p++)
            TRY(weft_buckets_mark_ready(s->many, p, WEFT_STREAM_HOST));
    }
    return WEFT_OK;
}

static weft_result spans(void *what, int repeats)
{
    subject *s = what;
    for (int i = 0; i < repeats; i++)
        weft_span_end(s->world, weft_span_begin(s->world, 0, (uint64_t)i));
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- setting up */

static weft_result make_set(weft_comm *comm, uint32_t count, weft_params **params, weft_buckets **set)
{
    TRY(weft_params_create(params));
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name;
        TRY(weft_params_add(*params, &param, NULL));
    }
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = comm;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = count == 1 ? "one" : "many";
    config.param_alignment = config.bucket_alignment = 1;
    return weft_buckets_create(*params, &comms, &config, set);
}

typedef struct job {
    const values *v;
    int ranks;
    FILE *text, *json; /* the second may be NULL */
} job;

static void print(const job *j, const char *what, double ns)
{
    if (isfinite(ns))
        fprintf(j->text, "%-58s %5d %10.1f\n", what, j->ranks, ns);
    else
        fprintf(j->text, "%-58s %5d %10s\n", what, j->ranks, "n/a");
    fflush(j->text);
    if (!j->json)
        return;
    json_writer json = {.out = j->json};
    json_open(&json, NULL, '{');
    json_put_text(&json, "call", what);
    json_put_whole(&json, "ranks", j->ranks);
    json_put_number(&json, "ns", ns);
    json_close(&json, '}');
    json_end_line(&json);
    fflush(j->json); /* for who reads along */
}

/* A difference that may as well be none is not told as a number. */
static void print_gap(const job *j, const char *what, perf_gap gap)
{
    print(j, what, perf_gap_is_shown(gap) ? gap.median : (double)NAN);
    if (perf_gap_is_shown(gap))
        return;
    if (isfinite(gap.error))
        fprintf(j->text, "# n/a: the difference of the two is %.1f +- %.1f ns in %d rounds, within noise; take more\n",
                gap.median, gap.error, j->v->rounds);
    else
        fputs("# n/a: one round does not tell a difference from noise; take more\n", j->text);
}

/* @p ns has room for all rounds of all calls. */
static weft_result run_calls(subject *s, const job *j, double *ns)
{
    static const struct {
        timed call;
        const char *what;
    } list[CALLS] = {
        [NOTHING] = {nothing, NULL},
        [RUN] = {bare, "reduce_scatter of one element, run"},
        [STARTED] = {started, "the same, start and finish"},
        [TWO] = {two_bare, "reduce_scatter and all_gather of one element, run"},
        [BUCKET] = {bucket, "a bucket of one element: mark, reduce, gather, acquire"},
        [MARKS] = {marks, "marking a gradient ready"},
        [SPANS] = {spans, "a span of the trace: begin and end"},
    };
    size_t rounds = (size_t)j->v->rounds;
    timed calls[CALLS];
    for (int i = 0; i < CALLS; i++)
        calls[i] = list[i].call;
    TRY(measure(calls, CALLS, s, j->v, ns));
    if (weft_world_rank(s->world) != 0)
        return WEFT_OK;
    perf_gap gap = perf_gap_of(ns + BUCKET * rounds, ns + TWO * rounds, rounds);
    for (int i = 0; i < CALLS; i++) {
        if (list[i].what)
            print(j, list[i].what, perf_median(ns + (size_t)i * rounds, rounds));
        if (i == BUCKET)
            print_gap(j, "the same less that reduce_scatter and all_gather", gap);
    }
    return WEFT_OK;
}

static weft_result run_rank(weft_world *world, void *argument)
{
    const job *j = argument;
    int ranks[2] = {0, 1}, count = weft_world_size(world);
    subject s = {.world = world};
    double *ns = malloc((size_t)(CALLS * j->v->rounds) * sizeof *ns);
    weft_params *params[2] = {NULL, NULL};
    cores_share(weft_world_rank(world), count);
    weft_result result = weft_comm_create(world, "perf", ranks, count, NULL, &s.comm);
    if (result == WEFT_OK)
        result = make_set(s.comm, 1, &params[0], &s.one);
    if (result == WEFT_OK)
        result = make_set(s.comm, PARAMS, &params[1], &s.many);
    if (result == WEFT_OK)
        result = ns ? run_calls(&s, j, ns) : WEFT_E_NO_MEMORY;
    free(ns);
    weft_buckets_destroy(s.one);
    weft_buckets_destroy(s.many);
    weft_params_destroy(params[0]);
    weft_params_destroy(params[1]);
    weft_comm_destroy(s.comm);
    return result;
}

int perf_api(int argc, char **argv)
{
    values v = {.rounds = 101, .repeats = 1000};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &v, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft perf api --help)", argv[rest]);
    FILE *json = v.json ? out_open(v.json) : NULL, *text = json == stdout ? stderr : stdout;
    if (v.json && !json)
        return out_complain(v.json);
    fprintf(text, "%-58s %5s %10s\n", "call", "ranks", "ns");
    code = EXIT_DONE;
    for (int ranks = 1; ranks <= 2 && code == EXIT_DONE; ranks++)
        if (weft_team_run(ranks, NULL, run_rank, &(job){&v, ranks, text, json}) != WEFT_OK)
            code = complain(EXIT_FAILED, "%s", weft_last_error());
    if (json && !out_close(json))
        code = out_complain(v.json);
    return code;
}
