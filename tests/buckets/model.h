/* SPDX-License-Identifier: Apache-2.0 */
/* Params for tests, from short descriptions. */
#ifndef WEFT_TESTS_BUCKETS_MODEL_H
#define WEFT_TESTS_BUCKETS_MODEL_H
#include <weft/params.h>

#include "harness/test.h"

/* Add an fp32 param of @p elements. */
static inline uint32_t add_param(weft_params *params, const char *name, size_t elements, uint32_t flags)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = name;
    param.dims = 1;
    param.shape[0] = elements;
    param.flags = flags;
    uint32_t index;
    CHECK_OK(weft_params_add(params, &param, &index));
    return index;
}

/* fp32 params p0, p1, ... of these sizes; ends at 0. */
static inline weft_params *params_of_sizes(const size_t *sizes)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    for (unsigned i = 0; sizes[i]; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", i);
        add_param(params, name, sizes[i], 0);
    }
    return params;
}
#define PARAMS_OF(...) params_of_sizes((const size_t[]){__VA_ARGS__, 0})

#endif
