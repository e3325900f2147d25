/* SPDX-License-Identifier: Apache-2.0 */
/* The device that the options ask for. */
#ifndef WEFT_BENCH_GPT_DEVICE_H
#define WEFT_BENCH_GPT_DEVICE_H
#include <weft/world.h>

#include "gpt/ops.h"

/* The GPU of this rank, by the module for it. */
int gpt_gpu_open(weft_world *world, const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure);

#endif
