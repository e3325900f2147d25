/* SPDX-License-Identifier: Apache-2.0 */
/* What a training writes: lines, summary and JSON. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../spawn.h"
#include "gpt/report.h"
#include "harness/test.h"
#include "training.h"

/* ---- the report of a whole training ---- */

static void check_keys(const json *object, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK_MSG(json_get(object, keys[i]), "key '%s' is missing", keys[i]);
    CHECK_INT(object->count, count);
}

TEST(the_json_has_the_promised_keys)
{
    static const char *const step[] = {"step",    "loss",       "grad_norm", "lr",      "tokens", "tokens_per_s",
                                       "step_ms", "exposed_ms", "hidden_ms", "skipped", "serial"};
    static const char *const summary[] = {
        "ranks",     "layout",     "params_total", "params_local",  "state_bytes_per_param",
        "padding",   "loss_first", "loss_last10",  "loss_held_out", "compute_ms",
        "hidden_ms", "exposed_ms", "idle_ms",      "comm_ms",       "hidden_fraction",
        "eta",       "comparison", "weights_hash"};
    training t = training_on_threads(2, "--tensor-model-parallel-size 2");
    for (int i = 0; i < t.steps; i++) {
        check_keys(t.lines[i], step, sizeof step / sizeof *step);
        CHECK_INT(json_int(json_get(t.lines[i], "tokens"), -1), 16 * 16);
        CHECK(!json_bool(json_get(t.lines[i], "skipped"), true));
    }
    check_keys(t.summary, summary, sizeof summary / sizeof *summary);
    CHECK(json_is_null(json_get(t.summary, "eta")) && json_is_null(json_get(t.summary, "comparison")));
    CHECK_INT(training_number(&t, "ranks"), 2);
    CHECK_STR(training_text(&t, "layout"), "tp2");
    training_forget(&t);
}

TEST(the_summary_adds_up)
{
    training t = training_on_threads(4, "--pipeline-model-parallel-size 2 --overlap-grad-reduce");
    double step_ms = 0, exposed_ms = 0, hidden_ms = 0, loss = 0;
    for (int i = 0; i < t.steps; i++) {
        step_ms += json_real(json_get(t.lines[i], "step_ms"), (double)NAN) / t.steps;
        exposed_ms += json_real(json_get(t.lines[i], "exposed_ms"), (double)NAN) / t.steps;
        hidden_ms += json_real(json_get(t.lines[i], "hidden_ms"), (double)NAN) / t.steps;
        loss += i >= t.steps - 10 ? t.loss[i] / 10 : 0;
    }
    double exposed = training_number(&t, "exposed_ms"), hidden = training_number(&t, "hidden_ms");
    CHECK_NEAR(training_number(&t, "compute_ms") + hidden + exposed + training_number(&t, "idle_ms"), step_ms,
               1e-6 * step_ms);
    CHECK_NEAR(exposed, exposed_ms, 1e-6 * step_ms);
    CHECK_NEAR(hidden, hidden_ms, 1e-6 * step_ms);
    CHECK_NEAR(training_number(&t, "comm_ms"), hidden + exposed, 1e-6 * step_ms);
    CHECK_NEAR(training_number(&t, "hidden_fraction"), hidden / (hidden + exposed), 1e-6);
    CHECK_NEAR(training_number(&t, "loss_first"), t.loss[0], 1e-7);
    CHECK_NEAR(training_number(&t, "loss_last10"), loss, 1e-7);
    CHECK(exposed > 0 && training_number(&t, "compute_ms") > 0);
    training_forget(&t);
}

TEST(nothing_held_out_is_null)
{
    training t = training_on_threads(1, "--split 1,0 --train-iters 3");
    CHECK(json_is_null(json_get(t.summary, "loss_held_out")));
    CHECK_NEAR(training_number(&t, "loss_last10"), (t.loss[0] + t.loss[1] + t.loss[2]) / 3, 1e-7);
    training_forget(&t);
}

TEST(a_step_whose_gradient_is_not_finite_is_skipped_and_said_so)
{
    training t = training_on_threads(2, "--train-iters 6 --lr 1e30 --clip-grad 0 --lr-warmup-iters 0");
    CHECK_INT(t.code, 0);
    CHECK(!json_bool(json_get(t.lines[0], "skipped"), true));
    CHECK(json_bool(json_get(t.lines[5], "skipped"), false));
    CHECK(json_is_null(json_get(t.lines[5], "grad_norm")));
    training_forget(&t);
}

static spawned run_alone(const char *flags)
{
    static char line[1024];
    const char *words[64];
    int count = 0;
    snprintf(line, sizeof line, "gpt %s %s", training_model(), flags);
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    spawned r = spawn_weft(NULL, words);
    CHECK_INT(spawn_finish(&r), 0);
    return r;
}

TEST(results_go_to_standard_output_and_notes_to_the_other)
{
    spawned r = run_alone("--log-interval 8 --show-defaults");
    CHECK_HAS(r.said.data, "1 rank, layout 1; a step is 16 samples of 16 bytes, 8 microbatches of 2 on each replica\n");
    CHECK_HAS(r.said.data, "\nproducts of matrices: fp32 by ");
    CHECK_HAS(r.said.data, "state 16.00 bytes per padded element, padding 0.");
    CHECK_HAS(r.said.data, "\nstep  1/20  loss 5.5");
    CHECK_HAS(r.said.data, "\nstep  8/20  loss ");
    CHECK_HAS(r.said.data, "\nstep 16/20  loss ");
    CHECK_HAS(r.said.data, "\nstep 20/20  loss ");
    CHECK_INT(spawn_count(r.said.data, "\nstep "), 4);
    CHECK_HAS(r.said.data, "\n20 steps in ");
    CHECK_HAS(r.said.data, "\nmilliseconds a step      computing only         hidden        exposed           idle");
    CHECK_HAS(r.said.data, "\nmean of 1 rank ");
    CHECK_HAS(r.said.data, "\ncomputing only: no operation of weft under way; hidden: computing while some was;");
    CHECK_HAS(r.said.data, "\nweights ");
    CHECK_HAS(r.complained.data, "weft: defaults: --num-query-groups 4 ");
    CHECK(!strstr(r.complained.data, "\r")); /* no bar: not a terminal */
    spawn_forget(&r);
}

TEST(json_can_have_standard_output_for_itself)
{
    spawned r = run_alone("--json -");
    CHECK_INT(spawn_count(r.said.data, "\n"), 21);
    CHECK_INT(spawn_count(r.said.data, "\n{\"") + 1, 21);
    CHECK_HAS(r.complained.data, "\nstep 20/20  loss ");
    spawn_forget(&r);
}

TEST(a_trace_is_written_for_every_rank)
{
    char flags[160];
    const char *folder = training_file("");
    snprintf(flags, sizeof flags, "--train-iters 2 --trace %s", folder);
    training t = training_on_threads(2, flags);
    CHECK_INT(t.code, 0);
    CHECK(access(training_file("trace.0.weft"), R_OK) == 0 && access(training_file("trace.1.weft"), R_OK) == 0);
    training_forget(&t);
}

/* ---- its pieces ---- */

static gpt_line line_of(int step)
{
    return (gpt_line){.step = step, .loss = 2.5, .rate = 1e-3, .norm = 1, .times.ms[GPT_TIME_STEP] = 10};
}

TEST(what_is_not_finite_is_null)
{
    char text[1024] = "", message[64];
    gpt_line line = line_of(7);
    line.loss = (double)NAN, line.norm = (double)INFINITY, line.skipped = true;
    FILE *file = fmemopen(text, sizeof text, "w");
    gpt_json_line(file, &line);
    fclose(file);
    json *j = json_parse(text, message, sizeof message);
    CHECK_MSG(j, "%s: %s", text, message);
    CHECK(json_is_null(json_get(j, "loss")) && json_is_null(json_get(j, "grad_norm")));
    CHECK(json_bool(json_get(j, "skipped"), false));
    json_free(j);
}

static json *parse_line(const gpt_line *line)
{
    char text[1024] = "", message[64];
    FILE *file = fmemopen(text, sizeof text, "w");
    gpt_json_line(file, line);
    fclose(file);
    json *j = json_parse(text, message, sizeof message);
    CHECK_MSG(j, "%s: %s", text, message);
    return j;
}

/* Every number gets a value of its own. */
TEST(every_number_of_a_step_is_under_its_key)
{
    gpt_line line = {.step = 1};
    for (int i = 0; i < GPT_LINE_NUMBERS; i++)
        *(double *)((char *)&line + gpt_line_numbers[i].field) = 100 + i;
    for (int i = 0; i < GPT_TIMES; i++)
        line.times.ms[i] = 200 + i;
    json *j = parse_line(&line);
    for (int i = 0; i < GPT_LINE_NUMBERS; i++)
        CHECK_NEAR(json_real(json_get(j, gpt_line_numbers[i].key), 0), 100 + i, 0);
    for (int i = 0; i < GPT_TIMES; i++)
        CHECK_NEAR(json_real(json_get(j, gpt_times_shown[i].key), 0), gpt_times_shown[i].in_step ? 200 + i : 0, 0);
    json_free(j);
}

TEST(a_large_model_loses_no_parameter_in_the_summary)
{
    char text[2048] = "", message[64];
    gpt_setup setup = {.layout = "1", .params_total = 70123456789, .params_local = 8765432101};
    gpt_summary summary = {0};
    for (int i = 0; i < GPT_TIMES; i++)
        summary.times.ms[i] = 200 + i;
    FILE *file = fmemopen(text, sizeof text, "w");
    gpt_json_summary(file, &setup, &summary);
    fclose(file);
    json *j = json_parse(text, message, sizeof message);
    CHECK_MSG(j, "%s: %s", text, message);
    const json *got = json_get(j, "summary");
    CHECK_INT(json_int(json_get(got, "params_total"), -1), 70123456789);
    CHECK_INT(json_int(json_get(got, "params_local"), -1), 8765432101);
    for (int i = 0; i < GPT_TIMES; i++)
        CHECK_NEAR(json_real(json_get(got, gpt_times_shown[i].key), 0), gpt_times_shown[i].column ? 200 + i : 0, 0);
    json_free(j);
}

static const char *page_of(int steps, const double *losses, double held_out)
{
    static char text[1 << 16];
    gpt_options options = {.iterations = steps, .tensor = 1, .pipeline = 1, .global_batch = 1, .sequence = 1};
    gpt_setup setup = {.ranks = 1, .layout = "1", .unit = "byte"};
    gpt_summary summary = {.loss_held_out = held_out};
    FILE *file = fmemopen(text, sizeof text, "w");
    gpt_html_page(file, &(gpt_page){&options, &setup, &summary, losses, 1});
    fclose(file);
    return text;
}

/* The scale goes from 1 to 3, over 264 pixels; three steps over 682. */
TEST(a_loss_that_is_none_is_a_gap_in_the_curve)
{
    const double nan = (double)NAN;
    CHECK_HAS(page_of(3, (double[]){1, nan, 3}, 2), " d=\"M62 280L62 280M744 16L744 16\"/>");
    CHECK_HAS(page_of(3, (double[]){1, 2, 3}, nan), " d=\"M62 280L62 280L403 148L744 16\"/>");
    CHECK(!strstr(page_of(3, (double[]){1, 2, 3}, nan), "held out</text>"));
    CHECK_HAS(page_of(2, (double[]){nan, nan}, nan), " d=\"\"/>");
    CHECK_HAS(page_of(1, (double[]){2.5}, 2.5), " d=\"M62 ");
}

/* What is written to standard error meanwhile. */
static void read_stderr(void (*body)(FILE *out), FILE *out, char *text, size_t bytes)
{
    int kept = dup(STDERR_FILENO), file = open(training_file("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(kept >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    body(out);
    fflush(stderr);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t n = pread(file, text, bytes - 1, 0);
    CHECK(n >= 0);
    text[n] = 0;
    close(kept);
    close(file);
}

static void two_steps_of_four(FILE *out)
{
    gpt_options o = {.iterations = 4, .log_interval = 1, .global_batch = 4, .sequence = 8};
    gpt_report report = {.options = &o, .text = out, .bar = true};
    gpt_setup setup = {.layout = "1", .unit = "byte", .products = "fp32 by hand"};
    gpt_report_setup(&report, &setup);
    for (int step = 2; step <= 4; step += 2) {
        gpt_line line = line_of(step);
        gpt_report_line(&report, &line);
    }
}

TEST(a_bar_grows_between_the_lines_and_is_gone_at_the_end)
{
    char lines[4096] = "", bar[1024];
    FILE *out = fmemopen(lines, sizeof lines, "w");
    read_stderr(two_steps_of_four, out, bar, sizeof bar);
    fclose(out);
    CHECK_INT(spawn_count(lines, "\nstep "), 2);
    CHECK_HAS(bar, "\r\033[K[####################....................] 2/4, ");
    CHECK_STR(bar + strlen(bar) - strlen("s left\r\033[K"), "s left\r\033[K");
}
