/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf pipeline`: runs a pipeline whose computing is timed, in every way to treat its messages, and holds its
 * step against what the schedule allows. Ways are measured in turn, round by round. */
#include "perf/pipeline.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "clock.h"
#include "complain.h"
#include "json.h"
#include "option.h"
#include "out.h"
#include "perf/ranks.h"
#include "perf/statistics.h"
#include "pretend.h"
#include "try.h"

typedef struct values {
    int microbatches, threads, rounds;
    double forward_ms, backward_ms, message_ms;
    size_t message_bytes;
    const char *json;
    _Atomic int code; /* of the exit, where rank 0 has said why */
} values;

#define FIELD(name) offsetof(values, name)
static const option table[] = {
    {"m", OPTION_INT, FIELD(microbatches), 1, 4096, "N", "microbatches of one step (8)"},
    {"t|nthreads", OPTION_INT, FIELD(threads), 1, 256, "N",
     "stages are N threads of this process, not ranks of a launcher"},
    {"forward", OPTION_REAL, FIELD(forward_ms), 0.1, 1e4, "MS", "what a forward takes (10)"},
    {"backward", OPTION_REAL, FIELD(backward_ms), 0.1, 1e4, "MS", "... a backward (twice a forward)"},
    {"message", OPTION_REAL, FIELD(message_ms), 0.01, 1e4, "MS",
     "find a size at which a message takes so long by itself (a fourth of a forward)"},
    {"message-bytes", OPTION_SIZE, FIELD(message_bytes), 4, 1e9, "BYTES", "take this size instead; K M G may follow"},
    {"rounds", OPTION_INT, FIELD(rounds), 1, 1000, "N", "steps of each way; figures are medians over them (5)"},
    {"json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "a line of JSON a row; - = stdout, the table then on stderr"},
};

static const char usage[] =
    "usage: weft perf pipeline [-m MICROBATCHES] [options]        (ranks come from a launcher, or -t)\n\n"
    "Takes microbatches through a pipeline with a stage a rank, in every way to treat messages. Computing is timed: "
    "it\n"
    "sleeps to a deadline and takes no core, so more stages than cores are fine. Held against it are the step of the\n"
    "schedule if messages took no time, (m + p - 1)(F + B), and if they took what one by itself was measured to take.";

/* ------------------------------------------------------------------------------------------- ways */

typedef struct way {
    const char *name;
    uint32_t schedule_flags, lower_flags, pipeline_flags;
    weft_batching batching;
} way;

static const way ways[] = {
    {"1f1b", 0, 0, 0, WEFT_BATCHING_AUTO},
    {"1f1b, no look-ahead", 0, WEFT_LOWER_NO_LOOKAHEAD, 0, WEFT_BATCHING_AUTO},
    {"1f1b, sends waited for", 0, 0, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_AUTO},
    {"1f1b, both", 0, WEFT_LOWER_NO_LOOKAHEAD, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_AUTO},
    {"1f1b, exchanges", 0, 0, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_EXCHANGE},
    {"run ahead", WEFT_SCHEDULE_RUN_AHEAD, 0, 0, WEFT_BATCHING_AUTO},
    {"run ahead, no look-ahead", WEFT_SCHEDULE_RUN_AHEAD, WEFT_LOWER_NO_LOOKAHEAD, 0, WEFT_BATCHING_AUTO},
    {"run ahead, sends waited for", WEFT_SCHEDULE_RUN_AHEAD, 0, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_AUTO},
    {"run ahead, both", WEFT_SCHEDULE_RUN_AHEAD, WEFT_LOWER_NO_LOOKAHEAD, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_AUTO},
    {"run ahead, one batch a step", WEFT_SCHEDULE_RUN_AHEAD, 0, WEFT_PIPELINE_WAIT_SENDS, WEFT_BATCHING_STEP},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ------------------------------------------------------------------------------------------- a stage */

typedef struct stage {
    values *v;
    weft_world *world;
    weft_comm *comm;
    pretend core;
    double message_ms; /* of one by itself */
    size_t elements;   /* of a message */
    weft_pipeline *pipelines[WAYS];
    double *step_ms; /* a way: its rounds */
    FILE *json;      /* of the first rank */
    uint32_t activations[WAYS];
    double ideal_ms[WAYS], ideal_messages_ms[WAYS];
} stage;

static weft_result compute(stage *s, double ms)
{
    pretend_begin(&s->core);
    pretend_pass(&s->core, (int64_t)(ms * 1e6));
    return WEFT_OK;
}

static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    (void)task;
    stage *s = cookie;
    return compute(s, s->v->forward_ms);
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    (void)task;
    stage *s = cookie;
    return compute(s, s->v->backward_ms);
}

/* ------------------------------------------------------------------------------------------- messages */

static weft_result message(weft_comm *comm, void *buffer, size_t elements, bool send, int peer)
{
    weft_p2p one = {
        .kind = send ? WEFT_SEND : WEFT_RECV, .peer = peer, .dtype = WEFT_FP32, .buffer = buffer, .count = elements};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = &one, batch.count = 1;
    return weft_p2p_run(comm, &batch, WEFT_STREAM_HOST);
}

/* How long a message takes from the first stage to the second: half of what it takes there and back. */
static weft_result time_message(stage *s, size_t elements, double *ms_out)
{
    enum { TIMES = 7 };
    int rank = weft_comm_rank(s->comm);
    double ms[TIMES];
    void *buffer;
    TRY(weft_memory_alloc(s->world, elements * sizeof(float), &buffer));
    weft_result result = WEFT_OK;
    for (int i = -1; i < TIMES && rank < 2 && result == WEFT_OK; i++) { /* the first is for warming up */
        int64_t begin = clock_ns();
        result = message(s->comm, buffer, elements, rank == 0, !rank);
        if (result == WEFT_OK)
            result = message(s->comm, buffer, elements, rank == 1, !rank);
        ms[i < 0 ? 0 : i] = (double)(clock_ns() - begin) / 2e6;
    }
    weft_memory_free(s->world, buffer);
    double median = rank < 2 ? perf_median(ms, TIMES) : 0;
    TRY(result);
    return weft_broadcast_run(s->comm, &median, ms_out, 1, WEFT_FP64, 0, WEFT_STREAM_HOST);
}

static double ratio_of(double a, double b)
{
    return a > b ? a / b : b / a;
}

/* The size of messages and their time. Links are not quite regular: of several trials the best one counts. */
static weft_result choose_message(stage *s)
{
    enum { TRIALS = 10, MOST = 1 << 26, FIRST = 1 << 16 };
    double wanted = s->v->message_ms, close_enough = 1.005, ms, elements = FIRST;
    s->elements = s->v->message_bytes / sizeof(float);
    if (s->elements)
        return time_message(s, s->elements, &s->message_ms);
    for (int i = 0; i < TRIALS && (i == 0 || ratio_of(wanted, s->message_ms) > close_enough); i++) {
        TRY(time_message(s, (size_t)elements, &ms));
        if (i == 0 || ratio_of(wanted, ms) < ratio_of(wanted, s->message_ms)) {
            s->elements = (size_t)elements;
            s->message_ms = ms;
        }
        elements = fmin(fmax(elements * fmin(wanted / ms, 16), 1), MOST);
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- what a schedule allows */

enum { SLOTS_PER_MS = 100 };

static uint32_t slots(double ms)
{
    return (uint32_t)(ms * SLOTS_PER_MS + 0.5);
}

static weft_result find_ideal(const stage *s, const weft_schedule *schedule, double message_ms, double *ms_out)
{
    size_t total = 0, count;
    for (uint32_t i = 0; i < weft_schedule_stages(schedule); i++, total += count)
        weft_schedule_actions(schedule, i, &count);
    weft_times_config config = WEFT_TIMES_CONFIG_INIT;
    config.forward = slots(s->v->forward_ms);
    config.backward = slots(s->v->backward_ms) / 2;
    config.weights = slots(s->v->backward_ms) - config.backward;
    config.message = slots(message_ms);
    weft_action_time *times = calloc(total, sizeof *times);
    uint32_t length;
    weft_result result = times ? weft_schedule_times(schedule, &config, times, total, &length) : WEFT_E_NO_MEMORY;
    free(times);
    if (result == WEFT_OK)
        *ms_out = (double)length / SLOTS_PER_MS;
    return result;
}

static weft_result open_pipeline(stage *s, const way *w, const weft_schedule *schedule, weft_pipeline **out)
{
    weft_lower_config how = WEFT_LOWER_CONFIG_INIT;
    how.queues = weft_comm_queues(s->comm), how.batching = w->batching, how.flags = w->lower_flags;
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = s->elements;
    config.flags = w->pipeline_flags;
    config.cookie = s, config.forward = forward, config.backward = backward;
    weft_schedule *lowered;
    TRY(weft_schedule_lower(schedule, &how, &lowered));
    weft_result result = weft_pipeline_create(s->comm, lowered, &config, out);
    weft_schedule_destroy(lowered);
    return result;
}

static weft_result open_way(stage *s, int number)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = WEFT_POLICY_1F1B;
    config.stages = (uint32_t)weft_comm_size(s->comm);
    config.microbatches = (uint32_t)s->v->microbatches;
    config.flags = ways[number].schedule_flags;
    weft_schedule *schedule;
    TRY(weft_schedule_create(&config, &schedule));
    weft_result result = find_ideal(s, schedule, 0, &s->ideal_ms[number]);
    if (result == WEFT_OK)
        result = find_ideal(s, schedule, s->message_ms, &s->ideal_messages_ms[number]);
    if (result == WEFT_OK)
        result = open_pipeline(s, &ways[number], schedule, &s->pipelines[number]);
    if (result == WEFT_OK)
        s->activations[number] = weft_pipeline_activations(s->pipelines[number], 0);
    weft_schedule_destroy(schedule);
    return result;
}

/* ------------------------------------------------------------------------------------------- measuring */

static weft_result measure(stage *s)
{
    int rounds = s->v->rounds;
    for (int round = -1; round < rounds; round++) /* the first is for warming up, and of one way only */
        for (int w = 0; w < (round < 0 ? 1 : WAYS); w++) {
            TRY(weft_barrier_run(s->comm, WEFT_STREAM_HOST));
            int64_t begin = clock_ns();
            TRY(weft_pipeline_run(s->pipelines[w]));
            s->step_ms[w * rounds + (round < 0 ? 0 : round)] = (double)(clock_ns() - begin) / 1e6;
        }
    return WEFT_OK;
}

static void print_row(const stage *s, int w, double ms, FILE *text, FILE *json_file)
{
    double over = ms / s->ideal_ms[w] - 1, over_messages = ms / s->ideal_messages_ms[w] - 1;
    fprintf(text, "%-28s %10.2f %8.1f %10.1f %9.1f %6.1f %11u\n", ways[w].name, ms, s->ideal_ms[w], 100 * over,
            s->ideal_messages_ms[w], 100 * over_messages, s->activations[w]);
    if (!json_file)
        return;
    json_writer json = {.out = json_file};
    json_open(&json, NULL, '{');
    json_put_text(&json, "way", ways[w].name);
    json_put_whole(&json, "stages", weft_comm_size(s->comm));
    json_put_whole(&json, "microbatches", s->v->microbatches);
    json_put_bool(&json, "run_ahead", ways[w].schedule_flags & WEFT_SCHEDULE_RUN_AHEAD);
    json_put_bool(&json, "lookahead",
                  !(ways[w].lower_flags & WEFT_LOWER_NO_LOOKAHEAD) && ways[w].batching == WEFT_BATCHING_AUTO);
    json_put_bool(&json, "waits_sends", ways[w].pipeline_flags & WEFT_PIPELINE_WAIT_SENDS);
    json_put_number(&json, "forward_ms", s->v->forward_ms);
    json_put_number(&json, "backward_ms", s->v->backward_ms);
    json_put_number(&json, "message_ms", s->message_ms);
    json_put_whole(&json, "message_bytes", (int64_t)(s->elements * sizeof(float)));
    json_put_number(&json, "step_ms", ms);
    json_put_number(&json, "ideal_ms", s->ideal_ms[w]);
    json_put_number(&json, "ideal_messages_ms", s->ideal_messages_ms[w]);
    json_put_whole(&json, "activations", s->activations[w]);
    json_close(&json, '}');
    json_end_line(&json);
}

static void print(const stage *s, FILE *text, FILE *json)
{
    const values *v = s->v;
    fprintf(text,
            "stages p = %d, microbatches m = %d, forward %g ms, backward %g ms, message %.3g ms (%zu bytes); median of "
            "%d\n",
            weft_comm_size(s->comm), v->microbatches, v->forward_ms, v->backward_ms, s->message_ms,
            s->elements * sizeof(float), v->rounds);
    fprintf(text, "%-28s %10s %8s %10s %9s %6s %11s\n", "", "step ms", "ideal", "over it %", "messages", "over %",
            "activations");
    for (int w = 0; w < WAYS; w++)
        print_row(s, w, perf_median(s->step_ms + w * v->rounds, (size_t)v->rounds), text, json);
}

/* Before anything is measured for it. All ranks end if it cannot be written. */
static weft_result open_json(stage *s)
{
    bool mine = s->v->json && weft_comm_rank(s->comm) == 0;
    s->json = mine ? out_open(s->v->json) : NULL;
    if (mine && !s->json)
        out_complain(s->v->json);
    weft_result result = weft_comm_agree(s->comm, mine && !s->json ? WEFT_E_SYSTEM : WEFT_OK, "no file");
    if (result == WEFT_E_SYSTEM)
        atomic_store(&s->v->code, EXIT_FAILED);
    return result;
}

/* The first stage begins first and ends last: its time is the step. */
static weft_result report(stage *s)
{
    if (weft_comm_rank(s->comm) != 0)
        return WEFT_OK;
    FILE *json = s->json, *text = json == stdout ? stderr : stdout;
    s->json = NULL;
    print(s, text, json);
    if (!json || out_close(json))
        return WEFT_OK;
    out_complain(s->v->json);
    atomic_store(&s->v->code, EXIT_FAILED);
    return WEFT_E_SYSTEM;
}

static weft_result run_rank(weft_world *world, void *argument)
{
    stage s = {.v = argument, .world = world};
    if (weft_world_size(world) == 1) {
        atomic_store(&s.v->code, complain(EXIT_USAGE, "one rank is no pipeline: start ranks with weft run -n N, weft "
                                                      "hosts, mpirun or torchrun, or say -t N"));
        return WEFT_OK;
    }
    pretend_open(&s.core);
    s.step_ms = calloc((size_t)(WAYS * s.v->rounds), sizeof *s.step_ms);
    weft_result result = s.step_ms ? weft_comm_create(world, "pp", NULL, 0, NULL, &s.comm) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        result = open_json(&s);
    if (result == WEFT_OK)
        result = choose_message(&s);
    for (int w = 0; w < WAYS && result == WEFT_OK; w++)
        result = open_way(&s, w);
    if (result == WEFT_OK)
        result = measure(&s);
    if (result == WEFT_OK)
        result = report(&s);
    for (int w = 0; w < WAYS; w++)
        weft_pipeline_destroy(s.pipelines[w]);
    weft_comm_destroy(s.comm);
    if (s.json)
        (void)out_close(s.json);
    free(s.step_ms);
    return result;
}

int perf_pipeline(int argc, char **argv)
{
    values v = {.microbatches = 8, .rounds = 5, .forward_ms = 10};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &v, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft perf pipeline --help)", argv[rest]);
    if (v.message_ms > 0 && v.message_bytes > 0)
        return complain(EXIT_USAGE, "--message and --message-bytes both say how large messages are: say one of them");
    code = v.threads > 1 ? perf_ranks_refuse_launcher(v.threads) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    v.backward_ms = v.backward_ms > 0 ? v.backward_ms : 2 * v.forward_ms;
    v.message_ms = v.message_ms > 0 ? v.message_ms : v.forward_ms / 4;
    weft_result result = v.threads ? weft_team_run(v.threads, NULL, run_rank, &v) : weft_world_run(NULL, run_rank, &v);
    if (atomic_load(&v.code) != EXIT_DONE)
        return atomic_load(&v.code);
    if (result == WEFT_OK)
        return EXIT_DONE;
    return complain(result == WEFT_E_TIMEOUT ? EXIT_DEADLINE : EXIT_FAILED, "%s",
                    *weft_last_error() ? weft_last_error() : weft_result_string(result));
}
