/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps until absolute deadlines, so that a thousand short sleeps last as long as one long one. */
#include "gpt/timed.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

#include "clock.h"

static void sleep_until(int64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) /* a signal came */
        ;
}

void gpt_timed_pass(gpt_timed_device *t, double ns)
{
    int64_t now = clock_ns();
    t->due_ns += now - t->left_ns + (int64_t)ns;
    if (t->due_ns > now)
        sleep_until(t->due_ns);
    t->left_ns = clock_ns();
}

static void product(gpt_device *device, size_t in, size_t out)
{
    gpt_timed_device *t = (gpt_timed_device *)device; /* its first member */
    gpt_timed_pass(t, t->ns_an_element * (double)in * (double)out);
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
    *t = (gpt_timed_device){.device = gpt_nothing_device(shape), .ops = gpt_nothing, .due_ns = clock_ns()};
    t->left_ns = t->due_ns;
    t->ops.name = "timed";
    t->ops.linear = t->ops.linear_input_grad = linear;
    t->ops.linear_weight_grad = linear_weight_grad;
    t->device.ops = &t->ops;
    snprintf(t->device.products, sizeof t->device.products, "none: computing is nothing but time, losses mean nothing");
    (void)prctl(PR_SET_TIMERSLACK, 1); /* of this thread, in ns */
}

void gpt_timed_set(gpt_timed_device *t, double ms, double elements)
{
    t->ns_an_element = ms * 1e6 / elements;
}

double gpt_timed_elements(const gpt_chunk *chunk)
{
    double elements = chunk->output ? (double)chunk->output->count : 0;
    for (const gpt_param *p = chunk->first_layer; p < chunk->first_layer + chunk->layers * GPT_LAYER_PARAMS; p++)
        elements += p->decays ? (double)p->count : 0; /* norms do not */
    return elements;
}
