/* SPDX-License-Identifier: Apache-2.0 */
/* Computing that is nothing but time: a device whose products sleep as long as they shall take. */
#ifndef WEFT_BENCH_GPT_TIMED_H
#define WEFT_BENCH_GPT_TIMED_H
#include "gpt/model.h"
#include "pretend.h"

typedef struct gpt_timed_device {
    gpt_device device;
    gpt_ops ops;
    double ns_an_element; /* of a weight, in one product */
    pretend core;
} gpt_timed_device;

void gpt_timed_open(gpt_timed_device *timed, const gpt_shape *shape);
/* A pass begins, now: its products, with @p elements of weights, take @p ms together. */
void gpt_timed_set(gpt_timed_device *timed, double ms, double elements);
/* Elements of the weights that a forward of @p chunk multiplies with. */
double gpt_timed_elements(const gpt_chunk *chunk);

#endif
