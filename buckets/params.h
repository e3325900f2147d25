/* SPDX-License-Identifier: Apache-2.0 */
/* What sets of buckets know of params besides their public side. */
#ifndef WEFT_BUCKETS_PARAMS_H
#define WEFT_BUCKETS_PARAMS_H
#include <stdint.h>
#include <weft/params.h>

/* While a list is held by a set it does not change. */
void weft__params_hold(weft_params *params);
void weft__params_release(weft_params *params);

/* A number that differs if name, shape, types or flags differ. */
uint64_t weft__params_hash(const weft_params *params, uint32_t index);

#endif
