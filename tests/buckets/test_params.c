/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of params: what they keep, refuse and hash. */
#include <weft/params.h>

#include "base/memory.h"
#include "model.h"
#include "params.h"

static weft_param named(const char *name)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = name;
    return param;
}

TEST(params_keep_what_was_added_in_order)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    char name[] = "h.0.attn.qkvw";
    weft_param param = named(name);
    param.shape[0] = 3, param.shape[1] = 5, param.dims = 2;
    param.dtype = WEFT_BF16;
    param.contributions = 2;
    uint32_t index = 9;
    CHECK_OK(weft_params_add(params, &param, &index));
    CHECK_INT(index, 0);
    name[0] = '#'; /* the name was copied */
    add_param(params, "lnf", 7, WEFT_PARAM_NO_DECAY);
    CHECK_INT(weft_params_count(params), 2);
    CHECK_STR(weft_params_get(params, 0)->name, "h.0.attn.qkvw");
    CHECK_INT(weft_params_get(params, 0)->contributions, 2);
    CHECK_INT(weft_params_get(params, 0)->grad_dtype, WEFT_FP32);
    CHECK_INT(weft_params_elements(params, 0), 15);
    CHECK_INT(weft_params_get(params, 1)->contributions, 1);
    CHECK(weft_params_get(params, 1)->lr_scale == 1.0f);
    CHECK_OK(weft_params_find(params, "lnf", &index));
    CHECK_INT(index, 1);
    CHECK(weft_params_get(params, 2) == NULL);
    CHECK_INT(weft_params_elements(params, 2), 0);
    weft_params_destroy(params);
}

TEST(a_hundred_thousand_params_are_found_by_name)
{
    enum { MANY = 100000 }; /* a search through all of them for each would take minutes */
    weft_params *params;
    char name[32];
    CHECK_OK(weft_params_create(&params));
    for (uint32_t i = 0, index; i < MANY; i++) {
        snprintf(name, sizeof name, "layers.%u.weight", i);
        weft_param param = named(name);
        CHECK_OK(weft_params_add(params, &param, &index));
        CHECK_INT(index, i);
    }
    for (uint32_t i = 0, index; i < MANY; i++) {
        snprintf(name, sizeof name, "layers.%u.weight", i);
        CHECK_OK(weft_params_find(params, name, &index));
        CHECK_INT(index, i);
    }
    weft_param again = named("layers.77777.weight");
    uint32_t index;
    CHECK_INT(weft_params_add(params, &again, NULL), WEFT_E_TWICE);
    CHECK_INT(weft_params_find(params, "layers.100000.weight", &index), WEFT_E_NOT_FOUND);
    weft_params_destroy(params);
}

TEST(a_shape_without_dimensions_is_one_element)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    weft_param param = named("scale");
    CHECK_OK(weft_params_add(params, &param, NULL));
    CHECK_INT(weft_params_elements(params, 0), 1);
    weft_params_destroy(params);
}

/* Add @p param, see it refused with @p want and a message that says @p part, and nothing added. */
static void refused(weft_params *params, weft_param param, weft_result want, const char *part)
{
    uint32_t count = weft_params_count(params), index = 77;
    CHECK_RESULT(weft_params_add(params, &param, &index), want);
    CHECK_HAS(weft_last_error(), part);
    CHECK_INT(weft_params_count(params), count);
    CHECK_INT(index, 77);
}

TEST(what_makes_no_sense_is_refused_by_name)
{
    weft_params *params = PARAMS_OF(4);
    refused(params, named(NULL), WEFT_E_INVALID, "needs a name");
    refused(params, named(""), WEFT_E_INVALID, "needs a name");
    refused(params, named("p0"), WEFT_E_TWICE, "'p0'");
    weft_param param = named("w");
    param.size = 0;
    refused(params, param, WEFT_E_INVALID, "weft_param.size is 0");
    param = named("w");
    param.dims = 9;
    refused(params, param, WEFT_E_INVALID, "'w': 9 dimensions");
    param = named("w");
    param.shape[0] = 2048;
    refused(params, param, WEFT_E_INVALID, "param 'w': a shape of 2048, but dims is 0");
    param.dims = 2, param.shape[0] = 3;
    refused(params, param, WEFT_E_INVALID, "'w': dimension 1 is 0");
    param.shape[0] = SIZE_MAX / 2, param.shape[1] = 3;
    refused(params, param, WEFT_E_RANGE, "'w': more elements");
    param = named("w");
    param.dtype = (weft_dtype)42;
    refused(params, param, WEFT_E_INVALID, "'w': dtype 42");
    param = named("w");
    param.flags = 1 << 20;
    refused(params, param, WEFT_E_INVALID, "'w': unknown flags 0x100000");
    param = named("w");
    param.reserved = 5;
    refused(params, param, WEFT_E_INVALID, "'w': reserved is 5");
    param = named("w");
    param.lr_scale = -1;
    refused(params, param, WEFT_E_INVALID, "'w': lr_scale is -1");
    uint32_t index;
    CHECK_RESULT(weft_params_find(params, "w", &index), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "'w'");
    CHECK_RESULT(weft_params_freeze(params, 1, 1), WEFT_E_RANGE);
    weft_params_destroy(params);
}

TEST(a_list_in_use_does_not_change)
{
    weft_params *params = PARAMS_OF(4, 5);
    CHECK_OK(weft_params_freeze(params, 1, 1));
    CHECK_INT(weft_params_get(params, 1)->flags, WEFT_PARAM_FROZEN);
    weft__params_hold(params);
    CHECK_RESULT(weft_params_freeze(params, 1, 0), WEFT_E_STATE);
    CHECK_HAS(weft_last_error(), "'p1'");
    refused(params, named("late"), WEFT_E_STATE, "'late'");
    weft__params_release(params);
    CHECK_OK(weft_params_freeze(params, 1, 0));
    CHECK_INT(weft_params_get(params, 1)->flags, 0);
    weft_params_destroy(params);
}

TEST(the_hash_of_a_param_sees_all_that_ranks_must_have_alike)
{
    weft_param plain = named("w"), variants[8];
    plain.dims = 2, plain.shape[0] = 4, plain.shape[1] = 6;
    for (int i = 0; i < 8; i++)
        variants[i] = plain;
    variants[1].name = "v";
    variants[2].shape[0] = 6, variants[2].shape[1] = 4;
    variants[3].dtype = WEFT_BF16;
    variants[4].grad_dtype = WEFT_BF16;
    variants[5].flags = WEFT_PARAM_COPY;
    variants[6].lr_scale = 2;
    variants[7].contributions = 2;
    uint64_t hashes[8];
    for (int i = 0; i < 8; i++) {
        weft_params *params;
        CHECK_OK(weft_params_create(&params));
        CHECK_OK(weft_params_add(params, &variants[i], NULL));
        hashes[i] = weft__params_hash(params, 0);
        for (int k = 0; k < i; k++)
            CHECK_MSG(hashes[i] != hashes[k], "variants %d and %d have one hash", i, k);
        weft_params_destroy(params);
    }
}

TEST(a_list_survives_every_want_of_memory)
{
    for (long n = 1;; n++) {
        weft__alloc_fail_at(n);
        weft_params *params = NULL;
        weft_result result = weft_params_create(&params);
        for (int i = 0; i < 40 && result == WEFT_OK; i++) {
            char name[8];
            snprintf(name, sizeof name, "p%d", i);
            weft_param param = named(name);
            result = weft_params_add(params, &param, NULL);
            if (result != WEFT_OK)
                CHECK_INT(weft_params_count(params), i);
        }
        bool failed = weft__alloc_count() >= n;
        weft__alloc_fail_at(0);
        weft_params_destroy(params);
        CHECK_INT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK);
        if (!failed)
            break;
    }
}
