/* SPDX-License-Identifier: Apache-2.0 */
/* Says a plan to people, and as one JSON object. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpt/plan.h"
#include "gpt/report.h"
#include "json.h"
#include "plural.h"

/* What a rank keeps, and how it is called. */
static const struct {
    const char *key, *column;
    size_t field;
} kept[] = {
    {"values", "values", offsetof(gpt_plan_stage, value_bytes)},
    {"gradients", "gradients", offsetof(gpt_plan_stage, grad_bytes)},
    {"optimizer", "optimizer", offsetof(gpt_plan_stage, optimizer_bytes)},
    {"activations", "activations", offsetof(gpt_plan_stage, activation_bytes)},
    {"messages", "messages", offsetof(gpt_plan_stage, message_bytes)},
};
enum { KEPT = sizeof kept / sizeof *kept };

static size_t kept_bytes(const gpt_plan_stage *stage, size_t what)
{
    return *(const size_t *)((const char *)stage + kept[what].field);
}

/* Is anything ever sent there? */
static bool is_way(const gpt_plan *plan, int way)
{
    return way != GPT_PLAN_ENDS || (plan->shape.tied && plan->layout.pipeline > 1);
}

/* ---- for people ---- */

enum { STAGES_SHOWN = 64, BUCKETS_SHOWN = 64, GROUPS_SHOWN = 80 /* bytes */, COLUMN = 11 };

static const char *size_text(double bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(text, 32, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static void print_head(const gpt_plan *plan, FILE *text)
{
    const gpt_options *o = plan->options;
    const gpt_layout *l = &plan->layout;
    fprintf(text, "a plan for %d rank%s, layout %s; nothing is started\n", plan->ranks,
            plural((size_t)plan->ranks, "s"), plan->layout_text);
    fprintf(text,
            "%zu parameters in %s, %zu in each of %zu layer%s; state %.2f bytes per padded element, padding %.2f %%\n",
            plan->total_params, o->bf16 ? "bf16" : "fp32", plan->layer_params, plan->shape.layers,
            plural(plan->shape.layers, "s"), plan->state_bytes, 100 * plan->padding);
    fprintf(text, "a step is %d samples of %d tokens, %zu microbatch%s of %d on each replica; bubble %.2f %%\n",
            o->global_batch, o->sequence, l->microbatches, plural(l->microbatches, "es"), o->micro_batch,
            100 * plan->bubble);
}

static int print_groups(const gpt_plan *plan, FILE *text, gpt_failure *failure)
{
    fprintf(text, "\n%-5s %8s %8s  %s\n", "axis", "groups", "of ranks", "ranks");
    for (int i = 0; i < GPT_AXES; i++) {
        char *groups = gpt_plan_groups(plan, i);
        if (!groups)
            return gpt_fail(failure, EXIT_FAILED, "no memory for the groups");
        fprintf(text, "%-5s %8d %8d  %.*s%s\n", gpt_plan_ways[i], weft_mesh_groups(plan->mesh, gpt_layout_axes[i]),
                weft_mesh_size(plan->mesh, gpt_layout_axes[i]), GROUPS_SHOWN, groups,
                strlen(groups) > GROUPS_SHOWN ? "..." : "");
        free(groups);
    }
    return 0;
}

static void print_more(size_t count, size_t shown, FILE *text)
{
    if (count > shown)
        fprintf(text, "... and %zu more (--json has all)\n", count - shown);
}

static void print_kept(const gpt_plan *plan, FILE *text)
{
    char size[32];
    fprintf(text, "\n%-24s %12s", "each rank of a stage has", "parameters");
    for (size_t k = 0; k < KEPT; k++)
        fprintf(text, " %*s", COLUMN, kept[k].column);
    for (size_t i = 0; i < plan->layout.pipeline && i < STAGES_SHOWN; i++) {
        const gpt_plan_stage *stage = &plan->stages[i];
        char name[40];
        snprintf(name, sizeof name, "stage %zu", i);
        fprintf(text, "\n%-24s %12zu", name, stage->params_local);
        for (size_t k = 0; k < KEPT; k++)
            fprintf(text, " %*s", COLUMN, size_text((double)kept_bytes(stage, k), size));
    }
    fputc('\n', text);
    print_more(plan->layout.pipeline, STAGES_SHOWN, text);
}

static void print_received(const gpt_plan *plan, FILE *text)
{
    char size[32];
    fprintf(text, "\n%-24s", "and receives in a step");
    for (int way = 0; way < GPT_PLAN_WAYS; way++)
        if (is_way(plan, way))
            fprintf(text, " %*s", COLUMN, gpt_plan_ways[way]);
    for (size_t i = 0; i < plan->layout.pipeline && i < STAGES_SHOWN; i++) {
        char name[40];
        snprintf(name, sizeof name, "stage %zu", i);
        fprintf(text, "\n%-24s", name);
        for (int way = 0; way < GPT_PLAN_WAYS; way++)
            if (is_way(plan, way))
                fprintf(text, " %*s", COLUMN, size_text(plan->stages[i].received_bytes[way], size));
    }
    fputc('\n', text);
    print_more(plan->layout.pipeline, STAGES_SHOWN, text);
}

static void print_bucket(const gpt_plan *plan, size_t chunk, uint32_t index, FILE *text)
{
    const weft_layout_bucket *b = weft_layout_bucket_at(gpt_plan_own(plan)->layouts[chunk], index);
    const gpt_param *params = gpt_plan_own(plan)->trainer.parts[chunk].chunk.params;
    fprintf(text, "%5zu %7u %13zu %13zu %9zu  %s", chunk, index, b->start, b->end, b->end - b->start - b->used,
            params[b->params[0]].name);
    if (b->param_count > 1)
        fprintf(text, " ... %s (%u)", params[b->params[b->param_count - 1]].name, b->param_count);
    fputc('\n', text);
}

static void print_buckets(const gpt_plan *plan, FILE *text)
{
    size_t shown = 0, count = 0;
    fprintf(text, "\nbuckets of rank %d\n%5s %7s %13s %13s %9s  %s\n", plan->rank, "chunk", "bucket", "start", "end",
            "padding", "parameters");
    for (size_t i = 0; i < plan->shape.virtual_stages; i++)
        for (uint32_t k = 0; k < weft_layout_buckets(gpt_plan_own(plan)->layouts[i]); k++, count++)
            if (shown < BUCKETS_SHOWN) {
                print_bucket(plan, i, k, text);
                shown++;
            }
    print_more(count, shown, text);
}

static int print_plan(const gpt_plan *plan, FILE *text, gpt_failure *failure)
{
    print_head(plan, text);
    if (print_groups(plan, text, failure))
        return failure->code;
    print_kept(plan, text);
    print_received(plan, text);
    print_buckets(plan, text);
    return 0;
}

/* ---- as JSON ---- */

static int put_groups(json_writer *json, const gpt_plan *plan, gpt_failure *failure)
{
    json_open(json, "groups", '{');
    for (int i = 0; i < GPT_AXES; i++) {
        char *groups = gpt_plan_groups(plan, i);
        if (!groups)
            return gpt_fail(failure, EXIT_FAILED, "no memory for the groups");
        json_put_text(json, gpt_plan_ways[i], groups);
        free(groups);
    }
    json_close(json, '}');
    return 0;
}

static void put_params(json_writer *json, const gpt_plan *plan)
{
    json_open(json, "params", '{');
    json_put_whole(json, "layer", (int64_t)plan->layer_params);
    json_put_whole(json, "total", (int64_t)plan->total_params);
    json_open(json, "per_stage", '[');
    for (size_t i = 0; i < plan->layout.pipeline; i++)
        json_put_whole(json, NULL, (int64_t)plan->stages[i].params);
    json_close(json, ']');
    json_open(json, "per_rank", '[');
    for (int rank = 0; rank < plan->ranks; rank++)
        json_put_whole(json, NULL, (int64_t)plan->stages[gpt_plan_stage_of(plan, rank)].params_local);
    json_close(json, ']');
    json_close(json, '}');
}

static void put_bucket(json_writer *json, const weft_layout_bucket *b, const gpt_param *params, size_t chunk)
{
    json_open(json, NULL, '{');
    json_put_whole(json, "chunk", (int64_t)chunk);
    json_put_whole(json, "start", (int64_t)b->start);
    json_put_whole(json, "end", (int64_t)b->end);
    json_put_whole(json, "numel_unpadded", (int64_t)b->used);
    json_open(json, "params", '[');
    for (uint32_t i = 0; i < b->param_count; i++)
        json_put_text(json, NULL, params[b->params[i]].name);
    json_close(json, ']');
    json_close(json, '}');
}

static void put_buckets(json_writer *json, const gpt_plan *plan)
{
    const gpt_plan_stage *own = gpt_plan_own(plan);
    json_open(json, "buckets", '[');
    for (size_t i = 0; i < plan->shape.virtual_stages; i++)
        for (uint32_t k = 0; k < weft_layout_buckets(own->layouts[i]); k++)
            put_bucket(json, weft_layout_bucket_at(own->layouts[i], k), own->trainer.parts[i].chunk.params, i);
    json_close(json, ']');
}

static void put_own(json_writer *json, const gpt_plan *plan)
{
    const gpt_plan_stage *own = gpt_plan_own(plan);
    json_open(json, "bytes", '{');
    for (size_t k = 0; k < KEPT; k++)
        json_put_whole(json, kept[k].key, (int64_t)kept_bytes(own, k));
    json_close(json, '}');
    put_buckets(json, plan);
    json_open(json, "comm_bytes", '{');
    for (int way = 0; way < GPT_PLAN_WAYS; way++)
        if (is_way(plan, way))
            json_put_whole(json, gpt_plan_ways[way], llround(own->received_bytes[way]));
    json_close(json, '}');
}

int gpt_plan_print_json(const gpt_plan *plan, FILE *out, gpt_failure *failure)
{
    json_writer json = {.out = out};
    json_open(&json, NULL, '{');
    json_put_whole(&json, "ranks", plan->ranks);
    json_put_text(&json, "layout", plan->layout_text);
    json_put_whole(&json, "rank", plan->rank);
    if (put_groups(&json, plan, failure))
        return failure->code;
    put_params(&json, plan);
    json_put_number(&json, "state_bytes_per_param", plan->state_bytes);
    json_put_number(&json, "padding", plan->padding);
    json_put_whole(&json, "microbatches", (int64_t)plan->layout.microbatches);
    json_put_number(&json, "bubble", plan->bubble);
    put_own(&json, plan);
    json_close(&json, '}');
    json_end_line(&json);
    return 0;
}

int gpt_plan_run(const gpt_options *options, gpt_failure *failure)
{
    gpt_plan plan;
    gpt_report report = {0};
    gpt_options shown = *options;
    shown.html = NULL; /* it is about a training */
    if (gpt_plan_open(&plan, options, failure) == 0 && gpt_report_open(&report, &shown, failure) == 0) {
        if (report.json)
            gpt_plan_print_json(&plan, report.json, failure);
        if (report.text == stdout) /* else JSON is there */
            print_plan(&plan, report.text, failure);
        gpt_failure late = {0};
        if (gpt_report_close(&report, &late) && !failure->code)
            *failure = late;
    }
    gpt_plan_close(&plan);
    return failure->code;
}
