/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof cost`: what tracing costs a step. The same step, of buckets reduced behind computing, is run with and
 * without it in turn; what differs between the two of a pair is tracing, and noise, of which the interval tells. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

#include "complain.h"
#include "cores.h"
#include "json.h"
#include "option.h"
#include "out.h"
#include "prof/prof.h"
#include "prof/report.h"
#include "try.h"

typedef struct cost_values {
    int pairs, buckets;
    double compute_ms;
    size_t bytes;
    const char *trace, *json;
    int code; /* of rank 0, when its JSON is written */
} cost_values;

#define AT(field) offsetof(cost_values, field)
static const option table[] = {
    {"pairs", OPTION_INT, AT(pairs), 2, 100000, "N", "pairs of steps, one of each with tracing (50)"},
    {"compute", OPTION_REAL, AT(compute_ms), 0.01, 60000, "MS", "computing of a step, milliseconds (20)"},
    {"buckets", OPTION_INT, AT(buckets), 1, 4096, "N", "buckets, each with its part of the computing (8)"},
    {"bytes", OPTION_SIZE, AT(bytes), 4, 1 << 30, "B", "bytes of a bucket (256K)"},
    {"trace", OPTION_TEXT, AT(trace), 0, 0, "DIR", "trace into files there (into memory)"},
    {"json", OPTION_FILE, AT(json), 0, 0, "FILE", "one JSON object; - = standard output, with nothing else"},
};

static const char usage[] =
    "usage: weft run -n N -- weft prof cost [options]\n\n"
    "Runs the same step with and without tracing in turn and prints by how much the traced ones are longer: the "
    "median\n"
    "of the differences of pairs, with the interval in which it lies with 95 %; and beside it the records of a step\n"
    "times what one costs. Ranks come from weft run, mpirun or torchrun; without one of them there is one.";

typedef struct subject {
    cost_values *v;
    weft_world *world;
    weft_comm *comm;
    weft_params *params;
    weft_buckets *set;
    uint32_t label;
    uint64_t rounds;                  /* of work in one piece of computing */
    double records;                   /* of a traced step */
    double *traced, *untraced, *room; /* ms, by pair */
} subject;

/* ---- the step ---- */

static volatile float sink;

/* The same work each time, however long it takes. */
static void compute(uint64_t rounds)
{
    float x[16];
    for (int i = 0; i < 16; i++)
        x[i] = sink + (float)i;
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 16; i++)
            x[i] = x[i] * 0.999f + 0.001f;
    sink = x[rounds % 16];
}

static double now_ms(const subject *s)
{
    return weft_trace_ns(s->world, weft_trace_now(s->world)) * 1e-6;
}

/* Rounds of work that take so long. */
static uint64_t calibrate(const subject *s, double ms)
{
    const uint64_t tried = 200000;
    double best = INFINITY;
    for (int i = 0; i < 5; i++) {
        double begin = now_ms(s);
        compute(tried);
        best = fmin(best, now_ms(s) - begin);
    }
    return (uint64_t)fmax(1, (double)tried * ms / best);
}

static weft_result step(subject *s, uint64_t number)
{
    uint64_t begin = weft_trace_now(s->world);
    TRY(weft_buckets_begin(s->set, 1));
    for (uint32_t i = (uint32_t)s->v->buckets; i-- > 0;) {
        uint64_t span = weft_span_begin(s->world, s->label, number);
        compute(s->rounds);
        weft_span_end(s->world, span);
        TRY(weft_buckets_mark_ready(s->set, i, WEFT_STREAM_HOST));
    }
    TRY(weft_buckets_reduce(&s->set, 1, 0));
    for (uint32_t i = 0; i < (uint32_t)s->v->buckets; i++)
        TRY(weft_buckets_gather(s->set, i, WEFT_STREAM_HOST));
    TRY(weft_buckets_acquire(s->set, 0, (uint32_t)s->v->buckets, WEFT_STREAM_HOST));
    weft_trace_step(s->world, number, begin);
    return WEFT_OK;
}

/* One step, from a barrier on, with tracing or without. */
static weft_result timed(subject *s, uint64_t number, bool traced, double *ms)
{
    weft_trace_enable(s->world, traced);
    TRY(weft_barrier_run(s->comm, WEFT_STREAM_HOST));
    uint64_t before = weft_trace_count(s->world);
    double begin = now_ms(s);
    TRY(step(s, number));
    *ms = now_ms(s) - begin;
    if (traced) /* operations and spans are written twice: when they begin, and when they are over */
        s->records = 2 * (double)(weft_trace_count(s->world) - before) - 1;
    return WEFT_OK;
}

static weft_result run_pairs(subject *s)
{
    double unused;
    s->rounds = calibrate(s, s->v->compute_ms / s->v->buckets);
    for (uint64_t i = 0; i < 4; i++)
        TRY(timed(s, 0, i % 2, &unused));
    for (int i = 0; i < s->v->pairs; i++)
        for (int k = 0; k < 2; k++) { /* on, off, off, on, ...: a drift falls on both alike */
            bool traced = (i + k) % 2 == 0;
            TRY(timed(s, (uint64_t)(2 * i + k + 1), traced, traced ? &s->traced[i] : &s->untraced[i]));
        }
    return WEFT_OK;
}

/* ---- what it took ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Half of all pairs differ by more, half by less; noise that hits some steps only does not count. */
typedef struct difference {
    double median, least, most; /* it lies between these with 95 %, whatever the distribution */
} difference;

static difference compare(const subject *s, double *room)
{
    int n = s->v->pairs, aside = (int)ceil(0.98 * sqrt(n));
    for (int i = 0; i < n; i++)
        room[i] = s->traced[i] - s->untraced[i];
    double middle = median(room, n); /* sorts */
    int low = n / 2 - aside, high = (n - 1) / 2 + aside;
    return (difference){middle, room[low > 0 ? low : 0], room[high < n ? high : n - 1]};
}

#define NOISY 0.1 /* of a step */

typedef struct cost {
    difference d;
    double untraced, traced; /* ms of a step, medians */
    double record_ns, counted;
} cost;

static void print_json(FILE *out, const subject *s, const cost *c)
{
    json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    json_put_whole(&json, "pairs", s->v->pairs);
    json_put_number(&json, "untraced_ms", c->untraced);
    json_put_number(&json, "traced_ms", c->traced);
    json_put_number(&json, "difference_ms", c->d.median);
    json_put_number(&json, "difference_least_ms", c->d.least);
    json_put_number(&json, "difference_most_ms", c->d.most);
    json_put_number(&json, "records", s->records);
    json_put_number(&json, "record_ns", c->record_ns);
    json_put_number(&json, "counted_ms", c->counted);
    json_close(&json, '}');
    json_end_line(&json);
}

static void print_text(const subject *s, const cost *c)
{
    const difference *d = &c->d;
    printf("%d pairs of steps, median: without tracing %.3f ms, with %.3f ms\n", s->v->pairs, c->untraced, c->traced);
    printf("median of differences %+9.4f ms (95 %%: %+.4f to %+.4f): %+.3f %% of the step (%+.3f to %+.3f)\n",
           d->median, d->least, d->most, 100 * d->median / c->untraced, 100 * d->least / c->untraced,
           100 * d->most / c->untraced);
    if (d->most - d->least > NOISY * c->untraced)
        printf("the interval is wider than %.0f %% of the step: this machine is too noisy to tell (do ranks share "
               "cores?)\n",
               100 * NOISY);
    printf("records times a cost  %+9.4f ms: %.0f records of %.0f ns, %.3f %% of the step\n", c->counted, s->records,
           c->record_ns, 100 * c->counted / c->untraced);
}

static int print(subject *s)
{
    int n = s->v->pairs;
    const char *path = s->v->json;
    cost c = {.d = compare(s, s->room), .record_ns = prof_record_cost()};
    c.traced = median(s->traced, n);
    c.untraced = median(s->untraced, n);
    c.counted = s->records * c.record_ns * 1e-6;
    FILE *json = path ? out_open(path) : NULL;
    if (path && !json)
        return out_complain(path);
    if (json)
        print_json(json, s, &c);
    if (json != stdout)
        print_text(s, &c);
    return json && !out_close(json) ? out_complain(path) : EXIT_DONE;
}

/* ---- setting up ---- */

static weft_result make(subject *s)
{
    TRY(weft_comm_create(s->world, "cost", NULL, 0, NULL, &s->comm));
    TRY(weft_params_create(&s->params));
    for (int i = 0; i < s->v->buckets; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name;
        param.shape[0] = s->v->bytes / sizeof(float);
        param.dims = 1;
        TRY(weft_params_add(s->params, &param, NULL));
    }
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = s->comm;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = 1;
    TRY(weft_buckets_create(s->params, &comms, &config, &s->set));
    s->label = weft_trace_label(s->world, "piece");
    s->traced = calloc((size_t)s->v->pairs, sizeof *s->traced);
    s->untraced = calloc((size_t)s->v->pairs, sizeof *s->untraced);
    s->room = calloc((size_t)s->v->pairs, sizeof *s->room);
    return s->traced && s->untraced && s->room ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static weft_result run_rank(weft_world *world, void *argument)
{
    subject s = {.v = argument, .world = world};
    cores_share(weft_world_local_rank(world), weft_world_size(world));
    weft_result result = make(&s);
    if (result == WEFT_OK)
        result = run_pairs(&s);
    if (result == WEFT_OK && weft_world_rank(world) == 0)
        s.v->code = print(&s);
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error());
    weft_buckets_destroy(s.set);
    weft_params_destroy(s.params);
    weft_comm_destroy(s.comm);
    free(s.traced);
    free(s.untraced);
    free(s.room);
    return result;
}

int prof_cost(int argc, char **argv)
{
    cost_values v = {.pairs = 50, .buckets = 8, .compute_ms = 20, .bytes = 256 << 10};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &v, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft prof cost --help)", argv[rest]);
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace = v.trace;
    if (weft_world_run(&config, run_rank, &v) != WEFT_OK)
        return complain(EXIT_FAILED, "%s", weft_last_error());
    return v.code;
}
