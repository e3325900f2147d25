/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf behind`: starts a large reduce-scatter on one comm, and runs small operations on another until it has
 * ended: how long do these take, and how much later does it end? The same alone, in turn. */
#include "perf/behind.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/weft.h>

#include "complain.h"
#include "cores.h"
#include "json.h"
#include "option.h"
#include "out.h"
#include "perf/probe.h"
#include "perf/ranks.h"
#include "perf/statistics.h"
#include "try.h"

enum { PING_PONG, ALL_REDUCE };
enum { SAMPLES = 1 << 16, RECORDS = 1 << 17, ALONE = 200 };

typedef struct values {
    int threads, rounds, small;
    size_t small_bytes, large_bytes;
    const char *json;
    _Atomic int code; /* of the exit, where rank 0 has said why */
} values;

#define FIELD(name) offsetof(values, name)
static const option table[] = {
    {"t|nthreads", OPTION_INT, FIELD(threads), 1, 256, "N",
     "ranks are N threads of this process, not those of a launcher"},
    {"small", OPTION_CHOICE, FIELD(small), 0, 0, "ping_pong|all_reduce", "what is small (ping_pong)"},
    {"small-bytes", OPTION_SIZE, FIELD(small_bytes), 4, 1e9, "BYTES", "of it; K M G may follow (4K)"},
    {"large-bytes", OPTION_SIZE, FIELD(large_bytes), 4, 1e12, "BYTES", "a rank's input of the reduce-scatter (64M)"},
    {"rounds", OPTION_INT, FIELD(rounds), 1, 10000, "N", "reduce-scatters of each way, in turn (15)"},
    {"json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "one JSON object; - = standard output, with nothing else"},
};

static const char usage[] =
    "usage: weft perf behind [options]        (ranks come from a launcher, or -t)\n\n"
    "Starts a reduce-scatter of floats on one comm and runs small operations on another, one after the other, until\n"
    "the large one has ended. Ranks 2i and 2i + 1 send a message to and fro, of which half the round is counted, or\n"
    "all ranks make an all-reduce. The times of small ones are those of rank 0, also alone, where nothing else is\n"
    "under way; the large one, alone and with them, takes as long as on the slowest rank, and `slower` is the median\n"
    "over rounds of their ratio.";

/* ------------------------------------------------------------------------------------------- a rank */

typedef struct place {
    values *v;
    weft_world *world;
    int rank, ranks;
    weft_comm *control, *large, *small;
    float *send, *recv, *message; /* of the large one, and of the small one: its first element tells who has ended */
    size_t count, small_count;    /* elements of a part, and of a message */
    FILE *json;
} place;

/* What was measured, on rank 0. */
typedef struct figures {
    double *alone_ms, *both_ms, *ratios; /* a round each */
    double *alone_us, *us;               /* of small ones */
    size_t alone_samples, samples;
    double probe_ns;
} figures;

static weft_result message(const place *p, weft_p2p_kind kind, int peer)
{
    weft_p2p one = {.kind = kind, .peer = peer, .dtype = WEFT_FP32, .buffer = p->message, .count = p->small_count};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = &one, batch.count = 1;
    return weft_p2p_run(p->small, &batch, WEFT_STREAM_HOST);
}

/* There and back; whoever answers tells whether both have ended. */
static weft_result ping_pong(const place *p, bool ended)
{
    bool first = p->rank % 2 == 0;
    int peer = first ? p->rank + 1 : p->rank - 1;
    p->message[0] = ended;
    if (first)
        TRY(message(p, WEFT_SEND, peer));
    TRY(message(p, WEFT_RECV, peer));
    if (first)
        return WEFT_OK;
    p->message[0] = p->message[0] > 0 && ended;
    return message(p, WEFT_SEND, peer);
}

/* One small operation: did all who take part know that the large one has ended? */
static weft_result small_once(const place *p, bool ended, bool *all_ended)
{
    bool alone = p->v->small == PING_PONG && p->rank == (p->ranks & ~1); /* an odd one out */
    if (alone) {
        *all_ended = true;
        return WEFT_OK;
    }
    if (p->v->small == PING_PONG) {
        TRY(ping_pong(p, ended));
        *all_ended = p->message[0] > 0;
        return WEFT_OK;
    }
    p->message[0] = ended;
    TRY(weft_all_reduce_run(p->small, p->message, p->message, p->small_count, WEFT_FP32, WEFT_MIN, WEFT_STREAM_HOST));
    *all_ended = p->message[0] > 0;
    return WEFT_OK;
}

static double us_of(const place *p, uint64_t ticks)
{
    return weft_trace_ns(p->world, ticks) / 1e3 / (p->v->small == PING_PONG ? 2 : 1);
}

static weft_result small_alone(const place *p, figures *f)
{
    bool ended;
    TRY(weft_barrier_run(p->control, WEFT_STREAM_HOST));
    for (int i = 0; i < ALONE; i++) {
        uint64_t began = weft_trace_now(p->world);
        TRY(small_once(p, false, &ended));
        f->alone_us[f->alone_samples++] = us_of(p, weft_trace_now(p->world) - began);
    }
    return WEFT_OK;
}

static weft_result start_large(const place *p, weft_work *work)
{
    TRY(weft_barrier_run(p->control, WEFT_STREAM_HOST));
    return weft_reduce_scatter_start(p->large, p->send, p->recv, p->count, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, work);
}

/* Its time by the trace, since nobody waits for its end; on the slowest rank. */
static weft_result finish_large(const place *p, weft_work work, uint64_t record, uint64_t *end, double *ms)
{
    weft_trace_record r;
    TRY(weft_work_finish(work, WEFT_STREAM_HOST));
    if (weft_trace_read(p->world, record, &r, 1, NULL) != 1)
        return WEFT_E_SYSTEM;
    *end = r.last;
    *ms = weft_trace_ns(p->world, r.last - r.start) / 1e6;
    return weft_all_reduce_run(p->control, ms, ms, 1, WEFT_FP64, WEFT_MAX, WEFT_STREAM_HOST);
}

static weft_result large_alone(const place *p, double *ms)
{
    uint64_t record = weft_trace_count(p->world) + 1, end; /* behind that of the barrier */
    weft_work work;
    TRY(start_large(p, &work));
    return finish_large(p, work, record, &end, ms);
}

/* Small ones until the large one has ended everywhere. While it cannot have, nobody asks: that would move it along. */
static weft_result small_behind(const place *p, weft_work work, double alone_ms, uint64_t *began, double *us,
                                size_t *count)
{
    uint64_t first = weft_trace_now(p->world);
    bool ended = false, all_ended = false;
    for (*count = 0; !all_ended && *count < SAMPLES; ++*count) {
        if (!ended && weft_trace_ns(p->world, weft_trace_now(p->world) - first) > alone_ms * 1e6)
            ended = weft_work_test(work) == WEFT_OK;
        began[*count] = weft_trace_now(p->world);
        TRY(small_once(p, ended || *count + 1 == SAMPLES, &all_ended));
        us[*count] = us_of(p, weft_trace_now(p->world) - began[*count]);
    }
    return WEFT_OK;
}

static weft_result large_and_small(const place *p, figures *f, uint64_t *began, double alone_ms, double *ms)
{
    uint64_t record = weft_trace_count(p->world) + 1, end;
    weft_work work;
    size_t count;
    double *us = f->us + f->samples;
    TRY(start_large(p, &work));
    TRY(small_behind(p, work, alone_ms, began, us, &count));
    TRY(finish_large(p, work, record, &end, ms));
    size_t room = SAMPLES / (size_t)p->v->rounds;
    for (size_t i = 0; i < count && i < room && began[i] < end; i++)
        f->samples++;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the whole */

static weft_result probe(const place *p, double *ns)
{
    double places[2] = {p->rank == 0 ? sched_getcpu() : -1, -1};
    if (p->rank == 1 && weft_world_host(p->world, 1) == weft_world_host(p->world, 0))
        places[1] = sched_getcpu();
    TRY(weft_all_reduce_run(p->control, places, places, 2, WEFT_FP64, WEFT_MAX, WEFT_STREAM_HOST));
    usleep(p->rank == 0 ? 200 : 0); /* the others have come to wait, and sleep */
    *ns = p->rank == 0 ? perf_probe((int)places[0], (int)places[1], 20) : NAN;
    return weft_barrier_run(p->control, WEFT_STREAM_HOST);
}

static weft_result measure(const place *p, figures *f, uint64_t *began)
{
    double ms;
    TRY(probe(p, &f->probe_ns));
    for (int i = 0; i < 2; i++) /* for warming up */
        TRY(large_alone(p, &ms));
    for (int round = 0; round < p->v->rounds; round++) {
        TRY(large_alone(p, &f->alone_ms[round]));
        TRY(small_alone(p, f));
        TRY(large_and_small(p, f, began, f->alone_ms[round], &f->both_ms[round]));
        f->ratios[round] = f->both_ms[round] / f->alone_ms[round];
    }
    return WEFT_OK;
}

static void print(const place *p, figures *f)
{
    const values *v = p->v;
    const char *name = v->small == PING_PONG ? "ping_pong" : "all_reduce";
    size_t rounds = (size_t)v->rounds;
    double alone_ms = perf_median(f->alone_ms, rounds), both_ms = perf_median(f->both_ms, rounds);
    double slower = perf_median(f->ratios, rounds);
    perf_statistics alone = perf_statistics_of(f->alone_us, f->alone_samples);
    perf_statistics behind = perf_statistics_of(f->us, f->samples);
    FILE *text = p->json == stdout ? stderr : stdout;
    fprintf(text, "# %s of %zu bytes behind a reduce_scatter of %zu bytes; %d ranks, %d rounds; probe %.0f ns: %s\n",
            name, v->small_bytes, v->large_bytes, p->ranks, v->rounds, f->probe_ns,
            f->probe_ns < PERF_FAR_NS ? "near" : "far");
    fprintf(text, "%-14s %10s %10s %10s %10s\n", "", "alone", "behind", "p99", "max");
    fprintf(text, "%-14s %10.2f %10.2f %10.2f %10.2f   %zu samples\n", "small (us)", alone.median, behind.median,
            behind.p99, behind.max, f->samples);
    fprintf(text, "%-14s %10.3f %10.3f   slower: %.3f\n", "large (ms)", alone_ms, both_ms, slower);
    if (!p->json)
        return;
    json_writer json = {.out = p->json};
    json_open(&json, NULL, '{');
    json_put_text(&json, "small", name);
    json_put_whole(&json, "ranks", p->ranks);
    json_put_whole(&json, "small_bytes", (int64_t)v->small_bytes);
    json_put_whole(&json, "large_bytes", (int64_t)v->large_bytes);
    json_put_whole(&json, "rounds", v->rounds);
    json_put_number(&json, "probe_ns", f->probe_ns);
    json_put_number(&json, "small_alone_us", alone.median);
    json_put_number(&json, "small_alone_p99_us", alone.p99);
    json_put_number(&json, "small_us", behind.median);
    json_put_number(&json, "small_p99_us", behind.p99);
    json_put_number(&json, "small_max_us", behind.max);
    json_put_whole(&json, "samples", (int64_t)f->samples);
    json_put_number(&json, "large_alone_ms", alone_ms);
    json_put_number(&json, "large_ms", both_ms);
    json_put_number(&json, "slower", slower);
    json_close(&json, '}');
    json_end_line(&json);
}

static weft_result measure_and_print(const place *p)
{
    size_t rounds = (size_t)p->v->rounds, alone = rounds * ALONE;
    double *room = calloc(3 * rounds + alone + 2 * (size_t)SAMPLES, sizeof *room);
    uint64_t *began = calloc(SAMPLES, sizeof *began);
    figures f = {room, room + rounds, room + 2 * rounds, room + 3 * rounds, room + 3 * rounds + alone, 0, 0, NAN};
    weft_result result = room && began ? WEFT_OK : WEFT_E_NO_MEMORY;
    result = weft_comm_agree(p->control, result, result == WEFT_OK ? NULL : "no memory for the figures");
    if (result == WEFT_OK)
        result = measure(p, &f, began);
    if (result == WEFT_OK && p->rank == 0)
        print(p, &f);
    free(began);
    free(room);
    return result;
}

static weft_result open_place(place *p)
{
    TRY(weft_comm_create(p->world, "behind.control", NULL, 0, NULL, &p->control));
    TRY(weft_comm_create(p->world, "behind.large", NULL, 0, NULL, &p->large));
    TRY(weft_comm_create(p->world, "behind.small", NULL, 0, NULL, &p->small));
    size_t large = p->v->large_bytes / sizeof(float), part = large / (size_t)p->ranks;
    p->count = part > 0 ? part : 1;
    p->small_count = p->v->small_bytes / sizeof(float);
    void *memory;
    TRY(weft_memory_alloc(p->world, p->count * (size_t)p->ranks * sizeof(float), &memory));
    p->send = memory;
    TRY(weft_memory_alloc(p->world, p->count * sizeof(float), &memory));
    p->recv = memory;
    TRY(weft_memory_alloc(p->world, p->small_count * sizeof(float), &memory));
    p->message = memory;
    bool mine = p->v->json && p->rank == 0;
    p->json = mine ? out_open(p->v->json) : NULL;
    if (mine && !p->json)
        atomic_store(&p->v->code, out_complain(p->v->json));
    return weft_comm_agree(p->control, mine && !p->json ? WEFT_E_SYSTEM : WEFT_OK, "no file");
}

static void close_place(place *p)
{
    weft_memory_free(p->world, p->message);
    weft_memory_free(p->world, p->recv);
    weft_memory_free(p->world, p->send);
    weft_comm_destroy(p->small);
    weft_comm_destroy(p->large);
    weft_comm_destroy(p->control);
    if (p->json && !out_close(p->json))
        atomic_store(&p->v->code, out_complain(p->v->json));
}

static weft_result run_rank(weft_world *world, void *argument)
{
    place p = {
        .v = argument, .world = world, .rank = weft_world_rank(world), .ranks = weft_world_size(world), .json = NULL};
    if (p.ranks == 1) {
        atomic_store(&p.v->code, complain(EXIT_USAGE, "one rank waits for nobody: start ranks with weft run -n N, "
                                                      "mpirun or torchrun, or say -t N"));
        return WEFT_OK;
    }
    if (p.v->threads)
        cores_share(p.rank, p.ranks);
    weft_result result = open_place(&p);
    if (result == WEFT_OK)
        result = measure_and_print(&p);
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error());
    close_place(&p);
    return result;
}

int perf_behind(int argc, char **argv)
{
    values v = {.rounds = 15, .small_bytes = 4096, .large_bytes = (size_t)64 << 20};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &v, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft perf behind --help)", argv[rest]);
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.trace_records = RECORDS; /* the large one's is read when all small ones have theirs */
    code = perf_ranks_run(v.threads ? v.threads : 1, &config, run_rank, &v);
    return atomic_load(&v.code) != EXIT_DONE ? atomic_load(&v.code) : code;
}
