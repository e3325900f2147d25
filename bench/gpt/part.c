/* SPDX-License-Identifier: Apache-2.0 */
/* Opens parts: the parameters of a chunk become params of a set of buckets, and its hooks acquire and mark them. */
#include "gpt/part.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* Is this one counted elsewhere: by the first tensor parallel rank, or on the first stage? */
static bool is_copy(const gpt_param *param, const gpt_layout *layout)
{
    return (!param->sharded && layout->tensor_rank > 0) || (param->tied && layout->stage > 0);
}

static weft_result add_param(weft_params *params, const gpt_param *param, const gpt_layout *layout, weft_dtype dtype)
{
    weft_param p = WEFT_PARAM_INIT;
    p.name = param->name;
    p.shape[0] = param->parts, p.shape[1] = param->count / (param->parts * param->columns);
    p.shape[2] = param->columns;
    p.dims = 3;
    p.dtype = dtype;
    p.flags = (param->tied ? WEFT_PARAM_TIED : 0) | (param->decays ? 0 : WEFT_PARAM_NO_DECAY) |
              (is_copy(param, layout) ? WEFT_PARAM_COPY : 0);
    p.contributions = (uint32_t)param->contributions;
    return weft_params_add(params, &p, NULL);
}

int gpt_part_open(gpt_part *part, gpt_model *model, const gpt_layout *layout, size_t index, size_t slots,
                  gpt_failure *failure)
{
    if (gpt_chunk_open(&part->chunk, model, index, slots, failure))
        return failure->code;
    weft_result result = weft_params_create(&part->params);
    for (size_t i = 0; i < part->chunk.param_count && result == WEFT_OK; i++)
        result = add_param(part->params, &part->chunk.params[i], layout, model->shape.dtype);
    return gpt_fail_weft(failure, result);
}

/* Gradients that are partial sums on other ranks too: of replicated parameters under sequence parallelism, and of a
 * tied embedding. Returns how many. */
static size_t list_sums(const gpt_part *part, const gpt_layout *layout, weft_buckets_sum *sums)
{
    size_t count = 0;
    for (size_t i = 0; i < part->chunk.param_count; i++) {
        if (part->chunk.params[i].summed)
            sums[count++] = (weft_buckets_sum){(uint32_t)i, layout->groups[GPT_TP].comm, NULL};
        if (part->chunk.params[i].tied)
            sums[count++] = (weft_buckets_sum){(uint32_t)i, layout->ends, "tied"};
    }
    return count;
}

static uint32_t bucket_of(const gpt_part *part, size_t param)
{
    return weft_layout_param_at(weft_buckets_layout(part->set), (uint32_t)param)->bucket;
}

static weft_stream stream_of(const gpt_part *part)
{
    return part->chunk.model->device->stream;
}

static weft_result use(void *cookie, size_t param)
{
    gpt_part *part = cookie;
    int64_t *used_ns = &part->used_ns[bucket_of(part, param)];
    bool first = !*used_ns;
    *used_ns = first ? clock_ns() : *used_ns;
    weft_result result = weft_buckets_acquire(part->set, (uint32_t)param, 1, stream_of(part));
    if (first)
        gpt_tp_waited(&part->chunk.model->tp);
    return result;
}

static weft_result ready(void *cookie, size_t param)
{
    gpt_part *part = cookie;
    part->ready_ns[bucket_of(part, param)] = clock_ns();
    return weft_buckets_mark_ready(part->set, (uint32_t)param, stream_of(part));
}

void gpt_part_begin(gpt_part *part)
{
    memset(part->used_ns, 0, weft_layout_buckets(weft_buckets_layout(part->set)) * sizeof *part->used_ns);
}

weft_result gpt_part_reduce(gpt_part *part)
{
    GPT_TRY(weft_buckets_begin_on(part->set, 1, stream_of(part)));
    for (size_t i = part->chunk.param_count; i-- > 0;)
        for (int k = 0; k < part->chunk.params[i].contributions; k++)
            GPT_TRY(weft_buckets_mark_ready(part->set, (uint32_t)i, stream_of(part)));
    return WEFT_OK;
}

static void hand_over(gpt_part *part)
{
    for (size_t i = 0; i < part->chunk.param_count; i++) {
        part->chunk.params[i].value = weft_buckets_param(part->set, (uint32_t)i);
        part->chunk.params[i].grad = weft_buckets_grad(part->set, (uint32_t)i);
    }
    part->chunk.hooks = (gpt_hooks){part, use, ready};
}

static bool make_room_for_times(gpt_part *part)
{
    size_t buckets = weft_layout_buckets(weft_buckets_layout(part->set));
    part->used_ns = calloc(buckets, sizeof *part->used_ns);
    part->ready_ns = calloc(buckets, sizeof *part->ready_ns);
    return part->used_ns && part->ready_ns;
}

int gpt_part_connect(gpt_part *part, const char *name, const gpt_options *o, const gpt_layout *layout, weft_comm *all,
                     gpt_failure *failure)
{
    weft_buckets_sum *sums = calloc(part->chunk.param_count, sizeof *sums);
    if (!sums)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu parameters", part->chunk.param_count);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = layout->groups[GPT_DP].comm;
    comms.norm = all;
    comms.sums = sums, comms.sum_count = list_sums(part, layout, sums);
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = name;
    config.bucket_elements = o->bucket_elements;
    config.last_bucket_elements = o->last_bucket_elements;
    config.device = (weft_device)stream_of(part).kind;
    config.reduction = o->average_in_collective ? WEFT_AVERAGE : WEFT_SUM;
    weft_result result = weft_buckets_create(part->params, &comms, &config, &part->set);
    free(sums);
    if (result == WEFT_OK && !make_room_for_times(part))
        return gpt_fail(failure, EXIT_FAILED, "no memory for the times of buckets");
    if (result == WEFT_OK)
        hand_over(part);
    return gpt_fail_making(failure, result, "parameters and gradients of the model");
}

void gpt_part_close(gpt_part *part)
{
    weft_buckets_destroy(part->set);
    weft_params_destroy(part->params);
    gpt_chunk_close(&part->chunk);
    free(part->used_ns);
    free(part->ready_ns);
}
