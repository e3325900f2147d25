/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the buckets, or the one operation, and calls weft where a trainer does. */
#include "perf/overlap/subject.h"

#include <stdio.h>
#include <string.h>

#include "try.h"

/* ------------------------------------------------------------------------------------------- making */

/* Params are added in the order of use, and reduced in the opposite one. */
static weft_result add_params(overlap_subject *s)
{
    const overlap_shape *shape = s->shape;
    for (size_t i = shape->count; i-- > 0;) {
        char name[32];
        weft_param param = WEFT_PARAM_INIT;
        snprintf(name, sizeof name, "bucket %zu", i);
        param.name = name;
        param.shape[0] = overlap_shape_bytes(shape, i) / OVERLAP_ELEMENT;
        param.dims = 1;
        TRY(weft_params_add(s->params, &param, NULL));
    }
    return WEFT_OK;
}

weft_result overlap_subject_buckets(overlap_subject *s, weft_comm *comm, const overlap_shape *shape)
{
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    *s = (overlap_subject){.shape = shape, .world = weft_comm_world(comm)};
    comms.shard = comm;
    config.name = "overlap";
    config.bucket_elements = 1; /* every param fills one */
    TRY(weft_params_create(&s->params));
    TRY(add_params(s));
    return weft_buckets_create(s->params, &comms, &config, &s->set);
}

weft_result overlap_subject_one(overlap_subject *s, weft_comm *comm, const overlap_shape *shape,
                                weft_collective_kind kind)
{
    size_t ranks = (size_t)weft_comm_size(comm), all = overlap_shape_total(shape) / OVERLAP_ELEMENT, part = all / ranks;
    if (kind != WEFT_ALL_REDUCE)
        all = part * ranks;
    size_t sent = kind == WEFT_ALL_GATHER ? part : all, received = kind == WEFT_REDUCE_SCATTER ? part : all;
    *s = (overlap_subject){.shape = shape, .world = weft_comm_world(comm), .comm = comm, .one = WEFT_COLLECTIVE_INIT};
    TRY(weft_memory_alloc(s->world, sent * OVERLAP_ELEMENT, &s->send));
    TRY(weft_memory_alloc(s->world, received * OVERLAP_ELEMENT, &s->recv));
    memset(s->send, 0, sent * OVERLAP_ELEMENT);
    memset(s->recv, 0, received * OVERLAP_ELEMENT);
    s->one.kind = kind;
    s->one.dtype = WEFT_FP32;
    s->one.reduction = WEFT_SUM;
    s->one.send = s->send;
    s->one.recv = s->recv;
    s->one.count = kind == WEFT_ALL_REDUCE ? all : part;
    return WEFT_OK;
}

void overlap_subject_close(overlap_subject *s)
{
    weft_buckets_destroy(s->set);
    weft_params_destroy(s->params);
    if (s->world) {
        weft_memory_free(s->world, s->send);
        weft_memory_free(s->world, s->recv);
    }
    *s = (overlap_subject){0};
}

/* ------------------------------------------------------------------------------------------- the backward */

static weft_result begin_backward(overlap_subject *s)
{
    return weft_buckets_begin(s->set, 1);
}

static weft_result mark(overlap_subject *s, size_t piece)
{
    return weft_buckets_mark_ready(s->set, (uint32_t)(s->shape->count - 1 - piece), WEFT_STREAM_HOST);
}

static weft_result end_backward(overlap_subject *s)
{
    return weft_buckets_reduce(&s->set, 1, 0);
}

/* ------------------------------------------------------------------------------------------- the forward */

/* In the order of use, as weft_adam_step() starts them. */
static weft_result gather_all(overlap_subject *s)
{
    const weft_layout *layout = weft_buckets_layout(s->set);
    for (uint32_t i = weft_layout_buckets(layout); i-- > 0;)
        TRY(weft_buckets_gather(s->set, weft_layout_order(layout, i), WEFT_STREAM_HOST));
    return WEFT_OK;
}

static weft_result acquire(overlap_subject *s, size_t piece)
{
    return weft_buckets_acquire(s->set, (uint32_t)piece, 1, WEFT_STREAM_HOST);
}

const overlap_phase overlap_step[OVERLAP_PHASES] = {
    {.name = "backward", .kind = WEFT_REDUCE_SCATTER, .prepare = begin_backward, .after = mark, .leave = end_backward},
    {.name = "forward", .kind = WEFT_ALL_GATHER, .enter = gather_all, .before = acquire, .is_forward = true},
};

/* ------------------------------------------------------------------------------------------- one operation */

static weft_result start(overlap_subject *s)
{
    return weft_collective_start(s->comm, &s->one, WEFT_STREAM_HOST, &s->work);
}

static weft_result finish(overlap_subject *s)
{
    return weft_work_finish(s->work, WEFT_STREAM_HOST);
}

const overlap_phase overlap_alone = {.name = "computing", .enter = start, .leave = finish};
