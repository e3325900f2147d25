/* SPDX-License-Identifier: Apache-2.0 */
/* Sets for tests: each rank makes its params, its set and its gradients. */
#ifndef WEFT_TESTS_BUCKETS_SETS_H
#define WEFT_TESTS_BUCKETS_SETS_H
#include <weft/adam.h>

#include "base/error.h"
#include "harness/ranks.h"
#include "model.h"
#include "set.h"

/* What one rank holds during a test. */
typedef struct rank_state {
    weft_world *world;
    weft_comm *all; /* over every rank */
    int rank, ranks;
    weft_params *params;
    weft_buckets *set;
} rank_state;

/* The body of a test on one rank; @p params, of p0, p1, ..., are made before and destroyed behind it. */
typedef void (*set_body)(rank_state *r);

typedef struct rank_job {
    set_body body;
    const size_t *sizes; /* of fp32 params; NULL = the body makes its own */
} rank_job;

/* A comm of the ranks first, first + step, ..., @p count of them. */
static inline weft_comm *comm_every(weft_world *world, const char *kind, int first, int step, int count)
{
    char name[32];
    int ranks[16];
    snprintf(name, sizeof name, "%s%d", kind, first);
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * step;
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, name, ranks, count, NULL, &comm));
    return comm;
}

static inline void run_rank_job(weft_world *world, void *argument)
{
    const rank_job *job = argument;
    rank_state r = {.world = world, .rank = weft_world_rank(world), .ranks = weft_world_size(world)};
    r.all = all_ranks(world, "all", NULL);
    if (job->sizes)
        r.params = params_of_sizes(job->sizes);
    else
        CHECK_OK(weft_params_create(&r.params));
    job->body(&r);
    weft_buckets_destroy(r.set);
    weft_params_destroy(r.params);
    weft_comm_destroy(r.all);
}

/* Run @p body on @p ranks thread ranks. */
static inline void on_ranks(int ranks, const size_t *sizes, set_body body)
{
    rank_job job = {body, sizes};
    ranks_as_threads(ranks, NULL, run_rank_job, &job);
}
#define SIZES(...) ((const size_t[]){__VA_ARGS__, 0})

/* Make the set of a rank over all ranks. */
static inline void make_set(rank_state *r, const weft_buckets_config *config)
{
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    CHECK_OK(weft_buckets_create(r->params, &comms, config, &r->set));
}

static inline weft_buckets_config packed(size_t bucket_elements)
{
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = bucket_elements;
    config.param_alignment = config.bucket_alignment = 1;
    return config;
}

/* Add @p value to every element of the gradient of a param, and mark it. */
static inline void give(weft_buckets *set, weft_params *params, uint32_t param, float value)
{
    float *grad = weft_buckets_grad(set, param);
    for (size_t i = 0; i < weft_params_elements(params, param); i++)
        grad[i] += value;
    CHECK_OK(weft_buckets_mark_ready(set, param, WEFT_STREAM_HOST));
}

/* One microbatch in which every param gets @p value everywhere. */
static inline void microbatch(rank_state *r, bool last, float value)
{
    CHECK_OK(weft_buckets_begin(r->set, last));
    for (uint32_t i = weft_params_count(r->params); i-- > 0;)
        if (weft_buckets_grad(r->set, i))
            give(r->set, r->params, i, value);
}

static inline void reduce(rank_state *r)
{
    CHECK_OK(weft_buckets_reduce(&r->set, 1, 0));
}

static inline void gather_all(rank_state *r)
{
    for (uint32_t b = 0; b < weft_layout_buckets(weft_buckets_layout(r->set)); b++)
        CHECK_OK(weft_buckets_gather(r->set, b, WEFT_STREAM_HOST));
    CHECK_OK(weft_buckets_acquire(r->set, 0, weft_params_count(r->params), WEFT_STREAM_HOST));
}

/* Create a set over all ranks that is refused. */
static inline weft_result try_set(rank_state *r, const weft_buckets_config *config)
{
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    weft_buckets *set = (weft_buckets *)r;
    weft_result result = weft_buckets_create(r->params, &comms, config, &set);
    CHECK(result == WEFT_OK || set == NULL);
    if (result == WEFT_OK)
        weft_buckets_destroy(set);
    return result;
}

/* Every owned gradient element is @p want. */
static inline void check_owned(const weft_buckets *set, float want)
{
    size_t count;
    const weft_owned *owned = weft_buckets_owned(set, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < owned[i].count; k++)
            CHECK_MSG(((float *)owned[i].grad)[k] == want, "rank %d: element %zu of param %u is %g, not %g", set->rank,
                      owned[i].start + k, owned[i].param, (double)((float *)owned[i].grad)[k], (double)want);
}

/* Gradient @p k of an owned part, in fp32. */
static inline float owned_value(const weft_owned *owned, size_t k)
{
    return ((const float *)owned->grad)[k];
}

/* The call was refused with @p want and a message that says all @p count parts. */
static inline void check_refused(weft_result got, weft_result want, const char *const *parts, size_t count)
{
    if (got != want)
        FAIL("gave %s (%s), not %s", weft_result_string(got), weft_last_error(), weft_result_string(want));
    for (size_t i = 0; i < count; i++)
        CHECK_HAS(weft_last_error(), parts[i]);
}
#define CHECK_REFUSED(call, want, ...)                            \
    check_refused(call, want, (const char *const[]){__VA_ARGS__}, \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#endif
