/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as JSON: an object a line. */
#include <math.h>

#include "gpt/report.h"
#include "json.h"

void gpt_json_line(FILE *out, const gpt_line *line)
{
    json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    json_put_whole(&json, "step", line->step);
    for (int i = 0; i < GPT_LINE_NUMBERS; i++)
        json_put_number(&json, gpt_line_numbers[i].key, gpt_line_number(line, i));
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].in_step)
            json_put_number(&json, gpt_times_shown[i].key, line->times.ms[i]);
    json_put_bool(&json, "skipped", line->skipped);
    json_put_bool(&json, "serial", line->serial);
    json_close(&json, '}');
    json_end_line(&json);
    fflush(out); /* for who reads along */
}

static void put_comparison(json_writer *json, const gpt_comparison *c)
{
    const gpt_phases *p = &c->phases;
    const struct {
        const char *key;
        double ms;
    } phases[] = {
        {"forward_ms", p->forward},
        {"backward_ms", p->backward},
        {"optimizer_ms", p->optimizer},
        {"reduces_alone_ms", p->reduces_alone},
        {"gathers_alone_ms", p->gathers_alone},
        {"reduces_perfect_ms", p->reduces},
        {"gathers_perfect_ms", p->gathers},
        {"reduces_exposed_ms", p->reduces_exposed},
        {"gathers_exposed_ms", p->gathers_exposed},
    };
    if (c->steps == 0) {
        json_put_null(json, "comparison");
        return;
    }
    json_open(json, "comparison", '{');
    json_put_number(json, "steps", c->steps);
    json_put_number(json, "overlapped_ms", c->overlapped.ms[GPT_TIME_STEP]);
    json_put_number(json, "serial_ms", c->serial.ms[GPT_TIME_STEP]);
    json_put_number(json, "comm_alone_ms", c->talk_ms);
    json_put_number(json, "saved_ms", c->saved_ms);
    json_put_number(json, "saved_error_ms", c->saved_error_ms);
    json_put_number(json, "exposed_ms", p->forward > 0 ? c->exposed_ms : (double)NAN);
    json_put_number(json, "exposed_error_ms", p->forward > 0 ? c->exposed_error_ms : (double)NAN);
    json_put_number(json, "hidden_fraction", gpt_comparison_hidden(c));
    json_put_number(json, "perfect_ms", gpt_comparison_perfect(c));
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        json_put_number(json, phases[i].key, p->forward > 0 ? phases[i].ms : (double)NAN);
    json_close(json, '}');
}

void gpt_json_summary(FILE *out, const gpt_setup *setup, const gpt_summary *s)
{
    double communicating = gpt_times_communicating(&s->times);
    char hash[24];
    json_writer json = {.out = out};
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->weights_hash);
    json_open(&json, NULL, '{');
    json_open(&json, "summary", '{');
    json_put_whole(&json, "ranks", setup->ranks);
    json_put_text(&json, "layout", setup->layout);
    json_put_whole(&json, "params_total", (int64_t)setup->params_total);
    json_put_whole(&json, "params_local", (int64_t)setup->params_local);
    json_put_number(&json, "state_bytes_per_param", setup->state_bytes);
    json_put_number(&json, "padding", setup->padding);
    json_put_number(&json, "loss_first", s->loss_first);
    json_put_number(&json, "loss_last10", s->loss_last10);
    json_put_number(&json, "loss_held_out", s->loss_held_out);
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].column)
            json_put_number(&json, gpt_times_shown[i].key, s->times.ms[i]);
    json_put_number(&json, "comm_ms", communicating);
    json_put_number(&json, "hidden_fraction", communicating > 0 ? s->times.ms[GPT_TIME_HIDDEN] / communicating : 0);
    json_put_number(&json, "eta", gpt_comparison_eta(&s->comparison));
    put_comparison(&json, &s->comparison);
    json_put_text(&json, "weights_hash", hash);
    json_close(&json, '}');
    json_close(&json, '}');
    json_end_line(&json);
}
