/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON: an object a line. */
#include <math.h>

#include "gpt/report.h"

/* JSON has no word for what is not finite. */
static void put(FILE *json, const char *key, double value)
{
    if (isfinite(value))
        fprintf(json, "\"%s\":%.9g", key, value);
    else
        fprintf(json, "\"%s\":null", key);
}

typedef struct field {
    const char *key;
    double value;
} field;

static void put_all(FILE *json, const field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put(json, fields[i].key, fields[i].value);
        fputc(',', json);
    }
}

void gpt_json_line(FILE *json, const gpt_options *o, const gpt_line *line)
{
    double tokens = (double)o->global_batch * o->sequence;
    const field fields[] = {
        {"step", line->step},
        {"loss", line->loss},
        {"grad_norm", (double)line->norm},
        {"lr", line->rate},
        {"tokens", tokens},
        {"tokens_per_s", tokens / line->times.window * 1e3},
        {"step_ms", line->times.window},
        {"exposed_ms", line->times.exposed},
        {"hidden_ms", line->times.hidden},
    };
    fputc('{', json);
    put_all(json, fields, sizeof fields / sizeof *fields);
    fprintf(json, "\"skipped\":%s}\n", line->skipped ? "true" : "false");
    fflush(json); /* for who reads along */
}

void gpt_json_summary(FILE *json, const gpt_setup *setup, const gpt_summary *s)
{
    double communicating = s->times.hidden + s->times.exposed;
    const field fields[] = {
        {"params_total", (double)setup->params_total},
        {"params_local", (double)setup->params_local},
        {"state_bytes_per_param", setup->state_bytes},
        {"padding", setup->padding},
        {"loss_first", s->loss_first},
        {"loss_last10", s->loss_last10},
        {"loss_held_out", s->loss_held_out},
        {"compute_ms", s->times.computing},
        {"hidden_ms", s->times.hidden},
        {"exposed_ms", s->times.exposed},
        {"idle_ms", s->times.idle},
        {"comm_ms", communicating},
        {"hidden_fraction", communicating > 0 ? s->times.hidden / communicating : 0},
        {"eta", (double)NAN},
    };
    fprintf(json, "{\"summary\":{\"ranks\":%d,\"layout\":\"%s\",", setup->ranks, setup->layout);
    put_all(json, fields, sizeof fields / sizeof *fields);
    fprintf(json, "\"weights_hash\":\"%016llx\"}}\n", (unsigned long long)s->weights_hash);
}
