/* SPDX-License-Identifier: Apache-2.0 */
/* Takes one rank through a training: prepare, train, evaluate, sum up; and if something fails, ends all ranks at once
 * with one clear line. */
#include "gpt/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "gpt/compare.h"
#include "gpt/report.h"
#include "gpt/text.h"
#include "gpt/trainer.h"

typedef struct session {
    gpt_run *run;
    const gpt_options *options;
    weft_world *world;
    weft_comm *all;
    gpt_layout layout;
    char layout_text[64];
    gpt_data data;
    gpt_trainer trainer;
    gpt_meter meter;
    gpt_compare compare;
    gpt_times own; /* the sum over steps */
    gpt_setup setup;
    gpt_summary summary;
    double last_losses[GPT_LAST];
    gpt_report report;
    gpt_failure failure;
} session;

/* ---- before ---- */

/* Go on only if every rank does; the lowest of those that failed says why, and nobody else. What is agreed on is exit
 * codes; results, told by all, are weft_comm_agree()'s. */
static int agree(session *s)
{
    enum { CODES = 256 };
    int rank = weft_world_rank(s->world);
    int64_t first = s->failure.code ? (int64_t)rank * CODES + s->failure.code : INT64_MAX;
    weft_result result = weft_all_reduce_run(s->all, &first, &first, 1, WEFT_INT64, WEFT_MIN, WEFT_STREAM_HOST);
    if (result < 0)
        return gpt_fail_weft(&s->failure, result);
    if (first == INT64_MAX)
        return 0;
    if (first / CODES != rank)
        *s->failure.text = 0;
    return s->failure.code = (int)(first % CODES);
}

static int open_data(session *s)
{
    const gpt_options *o = s->options;
    const gpt_data_config config = {
        .path = o->mock ? NULL : o->data,
        .mock_bytes = GPT_MOCK_BYTES,
        .seed = o->seed,
        .held_out = o->held_out,
        .sequence = (size_t)o->sequence,
        .vocabulary = (size_t)o->vocabulary,
    };
    return gpt_data_open(&s->data, &config, &s->failure);
}

/* What one rank can do alone. */
static int prepare(session *s)
{
    const gpt_options *o = s->options;
    if (s->failure.code || gpt_options_shape(o, &s->trainer.shape, &s->failure) ||
        gpt_layout_plan(&s->layout, o, weft_world_size(s->world), &s->failure) || open_data(s))
        return s->failure.code;
    return weft_world_rank(s->world) == 0 ? gpt_report_open(&s->report, o, &s->failure) : 0;
}

/* See that this rank was told what rank 0 was. */
static int compare_options(session *s)
{
    uint64_t mine[GPT_OPTIONS_MOST + 2], first[GPT_OPTIONS_MOST + 2];
    size_t count = gpt_options_numbers(s->options, mine);
    mine[count] = s->data.tokens.count, mine[count + 1] = s->data.train;
    memcpy(first, mine, sizeof mine);
    weft_result result = weft_broadcast_run(s->all, first, first, count + 2, WEFT_INT64, 0, WEFT_STREAM_HOST);
    for (size_t i = 0; i < count + 2 && result == WEFT_OK; i++)
        if (mine[i] != first[i])
            return gpt_fail(&s->failure, EXIT_USAGE, "--%s is not what it is on rank 0",
                            i < count    ? gpt_options_name(i)
                            : i == count ? "data"
                                         : "split");
    return gpt_fail_weft(&s->failure, result);
}

static int count_state(session *s)
{
    enum { BYTES, ELEMENTS, PADDING, SUMS };
    int64_t sums[SUMS] = {0};
    for (size_t i = 0; i < s->trainer.part_count; i++) {
        weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
        if (gpt_fail_weft(&s->failure, weft_buckets_usage_get(s->trainer.sets[i], &usage)))
            return s->failure.code;
        sums[BYTES] += (int64_t)(usage.param_bytes + usage.grad_bytes + usage.state_bytes);
        sums[ELEMENTS] += (int64_t)usage.elements;
        sums[PADDING] += (int64_t)usage.padding;
        s->setup.params_local += usage.elements - usage.padding;
    }
    weft_result result = weft_all_reduce_run(s->all, sums, sums, SUMS, WEFT_INT64, WEFT_SUM, WEFT_STREAM_HOST);
    s->setup.state_bytes = (double)sums[BYTES] / (double)sums[ELEMENTS];
    s->setup.padding = (double)sums[PADDING] / (double)sums[ELEMENTS];
    return gpt_fail_weft(&s->failure, result);
}

static int describe(session *s)
{
    s->setup = (gpt_setup){
        .ranks = weft_world_size(s->world),
        .layout = gpt_layout_text(&s->layout, s->options, s->layout_text, sizeof s->layout_text),
        .microbatches = s->layout.microbatches,
        .params_total = gpt_shape_parameters(&s->trainer.shape),
        .tokens_to_train = s->data.train,
        .tokens_held_out = s->data.tokens.count - s->data.train,
        .unit = s->data.tokens.unit,
        .products = s->trainer.device->products,
        .is_timed = s->options->timed.is_on,
    };
    if (count_state(s))
        return s->failure.code;
    gpt_report_setup(&s->report, &s->setup);
    return 0;
}

static int begin(session *s)
{
    if (gpt_fail_weft(&s->failure, weft_comm_create(s->world, "all", NULL, 0, NULL, &s->all)))
        return s->failure.code;
    prepare(s);
    if (agree(s))
        return s->failure.code;
    compare_options(s);
    if (agree(s))
        return s->failure.code;
    if (s->report.text && s->run->argv)
        gpt_options_note(s->options, s->run->argc, s->run->argv, stderr);
    if (gpt_fail_weft(&s->failure, gpt_layout_connect(&s->layout, s->options, s->world)))
        return s->failure.code;
    s->trainer.options = s->options;
    s->trainer.layout = &s->layout;
    s->trainer.data = &s->data;
    s->trainer.all = s->all;
    if (gpt_trainer_open(&s->trainer, &s->failure))
        return s->failure.code;
    gpt_trainer_compare(&s->trainer, &s->failure);
    return agree(s) ? s->failure.code : describe(s);
}

/* ---- steps ---- */

/* Means over tokens and ranks. */
static weft_result share(session *s, const gpt_times *times, gpt_line *line)
{
    double sums[GPT_TIMES + 1] = {[GPT_TIMES] = gpt_trainer_loss(&s->trainer)};
    memcpy(sums, times->ms, sizeof times->ms);
    GPT_TRY(weft_all_reduce_run(s->all, sums, sums, GPT_TIMES + 1, WEFT_FP64, WEFT_SUM, WEFT_STREAM_HOST));
    memcpy(line->times.ms, sums, sizeof line->times.ms);
    line->times = gpt_times_divide(&line->times, s->setup.ranks);
    line->loss = s->options->timed.is_on ? (double)NAN : sums[GPT_TIMES] / line->tokens;
    line->tokens_per_s = line->tokens / line->times.ms[GPT_TIME_STEP] * 1e3;
    return WEFT_OK;
}

static bool is_comparing(const session *s)
{
    return s->options->overlap == GPT_OVERLAP_COMPARE;
}

static weft_result make_step(session *s, int number, double rate, weft_step_report *report, gpt_times *times_out)
{
    if (is_comparing(s))
        return gpt_compare_step(&s->compare, number, rate, report, times_out);
    GPT_TRY(gpt_trainer_step(&s->trainer, GPT_AS_ASKED, (uint64_t)number, rate, report));
    *times_out = gpt_meter_lap(&s->meter);
    return WEFT_OK;
}

static weft_result step(session *s, int number, const gpt_lr *rates, gpt_line *line)
{
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    uint64_t samples_before = (uint64_t)(number - 1) * (uint64_t)s->options->global_batch;
    *line = (gpt_line){.step = number,
                       .rate = gpt_lr_at(rates, samples_before),
                       .tokens = (double)s->options->global_batch * s->options->sequence};
    gpt_times times;
    GPT_TRY(make_step(s, number, line->rate, &report, &times));
    line->norm = s->options->timed.is_on ? (double)NAN : (double)report.norm;
    line->skipped = report.skipped;
    line->serial = is_comparing(s) && gpt_compare_way(number) == GPT_SERIAL;
    gpt_times_add(&s->own, &times);
    GPT_TRY(share(s, &times, line));
    return is_comparing(s) ? gpt_compare_between(&s->compare, number) : WEFT_OK;
}

static int train(session *s)
{
    gpt_lr rates = gpt_options_lr(s->options);
    if (gpt_meter_open(&s->meter, s->world, gpt_meter_records(s->options), &s->failure))
        return s->failure.code;
    if (is_comparing(s) && gpt_compare_open(&s->compare, &s->trainer, &s->meter, &s->failure))
        return s->failure.code;
    for (int number = 1; number <= s->options->iterations; number++) {
        gpt_line line;
        if (gpt_fail_weft(&s->failure, step(s, number, &rates, &line)))
            return s->failure.code;
        gpt_report_line(&s->report, &line);
        gpt_times_add(&s->summary.times, &line.times);
        s->last_losses[number % GPT_LAST] = line.loss;
        if (number == 1)
            s->summary.loss_first = line.loss;
    }
    return 0;
}

/* ---- after ---- */

static void take_losses(session *s)
{
    int count = s->options->iterations < GPT_LAST ? s->options->iterations : GPT_LAST;
    for (int i = 0; i < GPT_LAST; i++)
        s->summary.loss_last10 += s->last_losses[i] / count;
}

/* Who computed longest, with operations under way or without, is who the others waited for. */
static int find_slowest(session *s)
{
    int ranks = s->setup.ranks;
    gpt_times *all = malloc((size_t)ranks * sizeof *all);
    if (!all)
        return gpt_fail(&s->failure, EXIT_FAILED, "no memory for the times of %d ranks", ranks);
    weft_result result = weft_all_gather_run(s->all, s->own.ms, all, GPT_TIMES, WEFT_FP64, WEFT_STREAM_HOST);
    if (result == WEFT_OK) {
        s->summary.slowest_rank = gpt_times_slowest(all, ranks);
        s->summary.slowest = gpt_times_divide(&all[s->summary.slowest_rank], s->options->iterations);
    }
    free(all);
    return gpt_fail_weft(&s->failure, result);
}

static int sum_up(session *s)
{
    s->summary.times = gpt_times_divide(&s->summary.times, s->options->iterations);
    s->summary.loss_held_out = (double)NAN;
    take_losses(s);
    if (find_slowest(s))
        return s->failure.code;
    weft_result result = s->trainer.evaluation ? gpt_trainer_evaluate(&s->trainer, &s->summary.loss_held_out) : WEFT_OK;
    if (result == WEFT_OK && is_comparing(s))
        result = gpt_compare_result(&s->compare, &s->summary.comparison);
    if (result == WEFT_OK)
        result = gpt_trainer_hash(&s->trainer, &s->summary.weights_hash);
    if (gpt_fail_weft(&s->failure, result))
        return s->failure.code;
    gpt_trainer_compare(&s->trainer, &s->failure);
    if (agree(s))
        return s->failure.code;
    gpt_report_summary(&s->report, &s->setup, &s->summary);
    return 0;
}

/* ---- failures ---- */

/* Say it, unless another rank does, and let no rank wait for this one. */
static void give_up(session *s)
{
    int rank = weft_world_rank(s->world), none = 0;
    const gpt_failure *f = &s->failure;
    atomic_compare_exchange_strong(&s->run->code, &none, f->code);
    gpt_report_wipe(&s->report);
    if (!*f->text)
        return;
    if (rank > 0)
        complain(f->code, "rank %d: %s", rank, f->text);
    else
        complain(f->code, "%s", f->text);
    (void)weft_world_abort(s->world, f->code == EXIT_DEADLINE ? WEFT_E_TIMEOUT : WEFT_E_ABORTED, f->text);
}

static void close_all(session *s)
{
    gpt_compare_close(&s->compare);
    gpt_meter_close(&s->meter);
    if (s->trainer.all)
        gpt_trainer_close(&s->trainer);
    gpt_layout_close(&s->layout);
    gpt_data_close(&s->data);
    weft_comm_destroy(s->all);
}

weft_result gpt_train(weft_world *world, void *argument)
{
    gpt_run *run = argument;
    session s = {.run = run, .options = &run->options, .world = world, .failure = run->failure};
    if (begin(&s) || train(&s) || sum_up(&s))
        give_up(&s);
    if (gpt_report_close(&s.report, &s.failure))
        give_up(&s);
    close_all(&s);
    return s.failure.code ? WEFT_E_ABORTED : WEFT_OK;
}

weft_world_config gpt_train_world(const gpt_run *run)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    if (run->failure.code) /* a world to say it in */
        return config;
    config.trace = run->options.trace;
    config.timeout_ms = (uint32_t)fmin(run->options.timeout_minutes * 60000, UINT32_MAX);
    config.trace_records = gpt_meter_ring(&run->options);
    return config;
}
