/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts and padding against values of the reference implementation. */
#include <stdlib.h>

#include "harness/golden.h"
#include "harness/json.h"
#include "layout.h"
#include "model.h"

static struct {
    size_t layouts, shards, pads, deviations;
} compared;

static weft_dtype golden_dtype(const char *text)
{
    static const struct {
        const char *text;
        weft_dtype dtype;
    } names[] = {{"bf16", WEFT_BF16}, {"bfloat16", WEFT_BF16}, {"fp32", WEFT_FP32},  {"float32", WEFT_FP32},
                 {"fp16", WEFT_FP16}, {"float16", WEFT_FP16},  {"uint8", WEFT_UINT8}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].text) == 0)
            return names[i].dtype;
    FAIL("golden dtype '%s'", text);
}

static weft_params *golden_params(const json *record)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    bool fp32_grads = json_bool(json_get(json_get(record, "ddp"), "grad_reduce_in_fp32"), false);
    unsigned i = 0;
    for (const json *p = json_get(record, "params")->first; p; p = p->next) {
        char name[16];
        snprintf(name, sizeof name, "p%u", i++);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name;
        param.dims = 1, param.shape[0] = (size_t)json_int(json_get(p, "n"), 0);
        param.dtype = golden_dtype(json_text(json_get(p, "dtype"), "bf16"));
        param.grad_dtype = fp32_grads ? WEFT_FP32 : param.dtype;
        if (json_bool(json_get(p, "fp8"), false))
            param.dtype = WEFT_UINT8;
        param.flags = (json_bool(json_get(p, "se"), false) ? WEFT_PARAM_TIED : 0u) |
                      (json_bool(json_get(p, "ep"), false) ? WEFT_PARAM_EXPERT : 0u) |
                      (!json_bool(json_get(p, "rg"), true) ? WEFT_PARAM_FROZEN : 0u);
        CHECK_OK(weft_params_add(params, &param, NULL));
    }
    return params;
}

static weft_layout *golden_layout(const json *record, const weft_params *params)
{
    const json *ddp = json_get(record, "ddp"), *limit = json_get(record, "bucket_size_used");
    int instances = (int)json_int(json_get(record, "inst"), 1);
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.shard_ranks = (int)json_int(json_get(record, "dp"), 0) / instances;
    config.expert_shard_ranks = (int)json_int(json_get(record, "edp"), 0) / instances;
    config.bucket_elements = json_is_null(limit) ? WEFT_BUCKET_UNLIMITED : (size_t)json_int(limit, 0);
    config.flags =
        (json_bool(json_get(ddp, "use_distributed_optimizer"), false) ? 0u : WEFT_LAYOUT_UNSHARDED) |
        (json_bool(json_get(ddp, "pad_buckets_for_high_nccl_busbw"), false) ? WEFT_LAYOUT_PAD_FOR_BUSBW : 0u);
    weft_layout *layout;
    CHECK_OK(weft_layout_create(params, &config, &layout));
    return layout;
}

#define CHECK_GOLDEN(record, what, got, want)                                                                      \
    do {                                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                                              \
        CHECK_MSG(got_ == want_, "%s: %s is %lld, not %lld", json_text(json_get(record, "name"), "?"), what, got_, \
                  want_);                                                                                          \
    } while (0)

static void compare_buckets(const json *record, const weft_layout *layout, const weft_layout_buffer *got,
                            const json *want)
{
    const json *buckets = json_get(want, "buckets");
    CHECK_GOLDEN(record, "number of buckets", got->bucket_count, buckets->count);
    uint32_t index = got->first_bucket;
    for (const json *b = buckets->first; b; b = b->next, index++) {
        const weft_layout_bucket *bucket = weft_layout_bucket_at(layout, index);
        CHECK_GOLDEN(record, "bucket start", bucket->start, json_int(json_get(b, "start"), -1));
        CHECK_GOLDEN(record, "bucket end", bucket->end, json_int(json_get(b, "end"), -1));
        CHECK_GOLDEN(record, "numel_unpadded", bucket->used, json_int(json_get(b, "numel_unpadded"), -1));
        CHECK_GOLDEN(record, "params of a bucket", bucket->param_count, json_get(b, "params")->count);
        const json *name = json_get(b, "params")->first;
        for (uint32_t i = 0; i < bucket->param_count; i++, name = name->next)
            CHECK_GOLDEN(record, "param in a bucket", bucket->params[i], atoi(json_text(name, "?") + 1));
    }
}

static void compare_places(const json *record, const weft_layout *layout, const weft_layout_buffer *got,
                           const json *want)
{
    for (const json *p = json_get(want, "params")->first; p; p = p->next) {
        const weft_layout_place *place = weft_layout_param_at(layout, (uint32_t)atoi(p->key + 1));
        CHECK(place);
        CHECK_GOLDEN(record, "param start", place->start, json_int(json_at(p, 0), -1));
        CHECK_GOLDEN(record, "param end", place->end, json_int(json_at(p, 1), -1));
        CHECK_GOLDEN(record, "bucket of a param", place->bucket - got->first_bucket, json_int(json_at(p, 2), -1));
    }
}

/* One rank's part of one bucket: {param: [in buffer, in bucket, in shard, in param]}. */
static void compare_shard(const json *record, const weft_layout *layout, uint32_t index, int rank, const json *want)
{
    const weft_layout_bucket *bucket = weft_layout_bucket_at(layout, index);
    size_t owned = 0, shard_start, shard_end;
    CHECK_OK(weft_layout_shard(layout, index, rank, &shard_start, &shard_end));
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        size_t start, end;
        weft__layout_owned(layout, bucket->params[i], rank, &start, &end);
        if (start == end)
            continue;
        char name[16];
        snprintf(name, sizeof name, "p%u", bucket->params[i]);
        const json *ranges = json_get(want, name);
        CHECK_MSG(ranges, "%s: rank %d owns a part of %s", json_text(json_get(record, "name"), "?"), rank, name);
        const size_t bases[] = {0, bucket->start, shard_start, weft_layout_param_at(layout, bucket->params[i])->start};
        for (size_t k = 0; k < 4; k++) {
            CHECK_GOLDEN(record, "start of an owned range", start - bases[k],
                         json_int(json_at(json_at(ranges, k), 0), -1));
            CHECK_GOLDEN(record, "end of an owned range", end - bases[k], json_int(json_at(json_at(ranges, k), 1), -1));
        }
        owned++;
    }
    CHECK_GOLDEN(record, "params in a shard", owned, want->count);
    compared.shards++;
}

static void compare_shards(const json *record, const weft_layout *layout, const weft_layout_buffer *got,
                           const json *by_rank)
{
    for (const json *rank = by_rank ? by_rank->first : NULL; rank; rank = rank->next) {
        CHECK_GOLDEN(record, "buckets of a shard", got->bucket_count, rank->count);
        uint32_t bucket = got->first_bucket;
        for (const json *b = rank->first; b; b = b->next)
            compare_shard(record, layout, bucket++, atoi(rank->key), b);
    }
}

/* The dense or the expert buffers of a record, in order. */
static void compare_buffers(const json *record, const weft_layout *layout, bool expert)
{
    const char *kind = expert ? "e" : "d";
    const json *want = json_get(json_get(record, "buffers"), kind)->first;
    const json *shards = json_get(json_get(record, "shards"), kind);
    shards = shards ? shards->first : NULL;
    for (uint32_t i = 0; i < weft_layout_buffers(layout); i++) {
        const weft_layout_buffer *got = weft_layout_buffer_at(layout, i);
        if ((got->expert != 0) != expert)
            continue;
        CHECK_MSG(want, "%s: more buffers than expected", json_text(json_get(record, "name"), "?"));
        CHECK_GOLDEN(record, "dtype", got->dtype, golden_dtype(json_text(json_get(want, "param_dtype"), "?")));
        CHECK_GOLDEN(record, "grad dtype", got->grad_dtype, golden_dtype(json_text(json_get(want, "grad_dtype"), "?")));
        CHECK_GOLDEN(record, "numel", got->elements, json_int(json_get(want, "numel"), -1));
        CHECK_GOLDEN(record, "numel_unpadded of a buffer", got->used, json_int(json_get(want, "numel_unpadded"), -1));
        compare_buckets(record, layout, got, want);
        compare_places(record, layout, got, want);
        compare_shards(record, layout, got, shards);
        want = want->next;
        shards = shards ? shards->next : NULL;
    }
    CHECK_MSG(!want, "%s: fewer buffers than expected", json_text(json_get(record, "name"), "?"));
}

static void compare_record(char *text, void *cookie)
{
    (void)cookie;
    char message[200];
    json *record = json_parse(text, message, sizeof message);
    CHECK_MSG(record, "bucket_layout.jsonl: %s", message);
    weft_params *params = golden_params(record);
    weft_layout *layout = golden_layout(record, params);
    if (json_get(record, "error")) {
        compared.deviations++;
        test_note("deviation: '%s' is refused there (%s) and laid out here: the arithmetic is of integers",
                  json_text(json_get(record, "name"), "?"), json_text(json_get(record, "error"), "?"));
    } else {
        compare_buffers(record, layout, false);
        compare_buffers(record, layout, true);
        compared.layouts++;
    }
    weft_layout_destroy(layout);
    weft_params_destroy(params);
    json_free(record);
}

/* The value that integers give, and the golden one where its float division was exact. */
static void compare_pad(size_t value, size_t multiple, size_t golden)
{
    size_t got, right = (value / multiple + (value % multiple != 0)) * multiple;
    CHECK(weft__pad_up(value, multiple, &got));
    CHECK_MSG(got == right, "%zu to a multiple of %zu is %zu, not %zu", value, multiple, right, got);
    compared.pads++;
    if (got == golden)
        return;
    CHECK_MSG(value >= (size_t)1 << 53, "%zu to a multiple of %zu is %zu, not %zu", value, multiple, got, golden);
    compared.deviations++;
    test_note("deviation: %zu to a multiple of %zu is %zu, not %zu: floats are exact only below 2^53", value, multiple,
              got, golden);
}

static void compare_pads(char *text, void *cookie)
{
    (void)cookie;
    size_t value, divisor, start, end, multiple;
    int ranks, busbw;
    if (strcmp(text, "value\tdp\tbusbw\tdivisor\tpad_param_start\tpad_bucket_end") == 0)
        return;
    CHECK_INT(sscanf(text, "%zu %d %d %zu %zu %zu", &value, &ranks, &busbw, &divisor, &start, &end), 6);
    CHECK(weft__bucket_multiple(ranks, 128, busbw, &multiple));
    CHECK_MSG(multiple == divisor, "%d ranks: bucket ends are multiples of %zu, not %zu", ranks, divisor, multiple);
    compare_pad(value, 64, start);
    compare_pad(value, multiple, end);
}

TEST(layouts_and_padding_are_the_golden_ones)
{
    golden_lines("bucket_layout.jsonl", compare_record, NULL);
    golden_lines("pad_primitives.tsv", compare_pads, NULL);
    CHECK(compared.layouts && compared.shards && compared.pads);
    test_note("compared %zu layouts, %zu shards, %zu pad values; %zu deviations", compared.layouts, compared.shards,
              compared.pads, compared.deviations);
}
