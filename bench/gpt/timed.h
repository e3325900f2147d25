/* SPDX-License-Identifier: Apache-2.0 */
/* Computing that is nothing but time: a device that sleeps as long as its products shall take, and takes no core. So
 * more ranks than there are cores overlap as if each had one. */
#ifndef WEFT_BENCH_GPT_TIMED_H
#define WEFT_BENCH_GPT_TIMED_H
#include "gpt/model.h"

typedef struct gpt_timed_device {
    gpt_device device;
    gpt_ops ops;
    double ns_an_element;    /* of a weight, in one product */
    int64_t due_ns, left_ns; /* when all that was asked for should have been over, and when it was */
} gpt_timed_device;

void gpt_timed_open(gpt_timed_device *timed, const gpt_shape *shape);
/* The products that come, with @p elements of weights, take @p ms together. */
void gpt_timed_set(gpt_timed_device *timed, double ms, double elements);
/* Be busy for @p ns. What was slept too long before is made up for, what passed in between is not. */
void gpt_timed_pass(gpt_timed_device *timed, double ns);
/* Elements of the weights that a forward of @p chunk multiplies with. */
double gpt_timed_elements(const gpt_chunk *chunk);

#endif
