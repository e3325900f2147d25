/* SPDX-License-Identifier: Apache-2.0 */
/* A device that spreads the time of a pass over its products, by their weights. */
#include "gpt/timed.h"

#include <stdio.h>

static void product(gpt_device *device, size_t in, size_t out)
{
    gpt_timed_device *t = (gpt_timed_device *)device; /* its first member */
    pretend_pass(&t->core, (int64_t)(t->ns_an_element * (double)in * (double)out));
}

static void linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y)
{
    (void)rows, (void)x, (void)w, (void)y;
    product(device, in, out);
}

static void linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                               float *dw)
{
    (void)rows, (void)dy, (void)x, (void)dw;
    product(device, in, out);
}

void gpt_timed_open(gpt_timed_device *t, const gpt_shape *shape)
{
    *t = (gpt_timed_device){.device = gpt_nothing_device(shape), .ops = gpt_nothing};
    t->ops.name = "timed";
    t->ops.linear = t->ops.linear_input_grad = linear;
    t->ops.linear_weight_grad = linear_weight_grad;
    t->device.ops = &t->ops;
    snprintf(t->device.products, sizeof t->device.products, "none: computing is nothing but time, losses mean nothing");
    pretend_open(&t->core);
}

void gpt_timed_set(gpt_timed_device *t, double ms, double elements)
{
    t->ns_an_element = ms * 1e6 / elements;
    pretend_begin(&t->core); /* what comes in was waited for */
}

double gpt_timed_elements(const gpt_chunk *chunk)
{
    double elements = chunk->output ? (double)chunk->output->count : 0;
    for (const gpt_param *p = chunk->first_layer; p < chunk->first_layer + chunk->layers * GPT_LAYER_PARAMS; p++)
        elements += p->decays ? (double)p->count : 0; /* norms do not */
    return elements;
}
