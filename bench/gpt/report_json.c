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
    json_close(&json, '}');
    json_end_line(&json);
    fflush(out); /* for who reads along */
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
    json_put_null(&json, "eta");
    json_put_text(&json, "weights_hash", hash);
    json_close(&json, '}');
    json_close(&json, '}');
    json_end_line(&json);
}
