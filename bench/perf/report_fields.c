/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the fields of a half row, once for JSON and CSV. */
#include <math.h>
#include <string.h>

#include "json.h"
#include "perf/report.h"

typedef struct value {
    const char *text; /* NULL: a number */
    double number;    /* NAN: null */
    bool truth;       /* it is a truth value */
} value;

static value text_value(const char *text)
{
    return (value){.text = text};
}

static value number_value(double number)
{
    return (value){.number = number};
}

static const char *reduction_of(const perf_subject *s)
{
    return s->operation->reduces ? weft_reduction_string(s->reduction) : "none";
}

static int root_of(const perf_subject *s)
{
    bool rooted = s->operation->senders == PERF_ROOT || s->operation->receivers == PERF_ROOT;
    return rooted ? s->root : -1;
}

enum { FIELDS = 25 };
typedef struct field {
    const char *name;
    value value;
} field;

static void fields_of(const perf_row *row, int in_place, field *f)
{
    const perf_subject *s = row->subject;
    const perf_half *h = &row->half[in_place];
    const field all[FIELDS] = {
        {"op", text_value(s->operation->name)},
        {"bytes", number_value((double)perf_size_of(s))},
        {"count", number_value((double)s->count)},
        {"dtype", text_value(weft_dtype_string(s->dtype))},
        {"redop", text_value(reduction_of(s))},
        {"root", number_value(root_of(s))},
        {"inplace", {.number = in_place, .truth = true}},
        {"backend", text_value(row->backend)},
        {"ranks", number_value(s->ranks)},
        {"us_median", number_value(h->us.median)},
        {"us_p99", number_value(h->us.p99)},
        {"us_min", number_value(h->us.min)},
        {"us_max", number_value(h->us.max)},
        {"algbw", number_value(h->algbw)},
        {"busbw", number_value(h->busbw)},
        {"wrong", number_value(h->wrong)},
        {"ratio", number_value(h->ratio)},
        {"samples", number_value((double)h->samples)},
        {"calls", number_value((double)h->calls)},
        {"probe_ns", number_value(h->probe_ns)},
        {"us_limit", number_value(h->limit_us)},
        {"limit_share", number_value(h->limit_us / h->us.median)},
        {"us_contended", number_value(h->contended_us)},
        {"slower_contended", number_value(h->contended_us / h->us.median)},
        {"product_left", number_value(h->product_left)},
    };
    memcpy(f, all, sizeof all);
}

void perf_report_json(FILE *out, const perf_row *row, int in_place)
{
    field f[FIELDS];
    json_writer json = {.out = out};
    fields_of(row, in_place, f);
    json_open(&json, NULL, '{');
    for (int i = 0; i < FIELDS; i++)
        if (f[i].value.text)
            json_put_text(&json, f[i].name, f[i].value.text);
        else if (f[i].value.truth)
            json_put_bool(&json, f[i].name, f[i].value.number != 0);
        else if (f[i].value.number == floor(f[i].value.number) && fabs(f[i].value.number) < 1e15)
            json_put_whole(&json, f[i].name, (int64_t)f[i].value.number);
        else
            json_put_number(&json, f[i].name, f[i].value.number);
    json_close(&json, '}');
    json_end_line(&json);
}

void perf_report_csv_head(FILE *out)
{
    static const perf_operation none = {.name = ""};
    perf_subject s = {.operation = &none, .ranks = 1};
    perf_row row = {.subject = &s, .backend = ""};
    field f[FIELDS];
    fields_of(&row, 0, f);
    for (int i = 0; i < FIELDS; i++)
        fprintf(out, "%s%s", f[i].name, i < FIELDS - 1 ? "," : "\n");
}

void perf_report_csv(FILE *out, const perf_row *row, int in_place)
{
    field f[FIELDS];
    fields_of(row, in_place, f);
    for (int i = 0; i < FIELDS; i++) {
        if (f[i].value.text)
            fputs(f[i].value.text, out);
        else if (isfinite(f[i].value.number))
            fprintf(out, "%.15g", f[i].value.number);
        fputc(i < FIELDS - 1 ? ',' : '\n', out);
    }
}
