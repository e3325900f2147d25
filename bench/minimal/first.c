/* SPDX-License-Identifier: Apache-2.0 */
/* The least trainer: every rank has samples of a line of its own, and all learn it from all of them. */
#include <stdio.h>
#include <weft/weft.h>

#define TRY(call)                         \
    do                                    \
        if ((result = (call)) != WEFT_OK) \
            goto end;                     \
    while (0)

static weft_result rank_main(weft_world *world, void *argument)
{
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    float *line = NULL, *grad = NULL;
    weft_result result;
    weft_comm *comm = NULL;
    weft_params *params = NULL;
    weft_buckets *set = NULL;
    weft_adam *adam = NULL;
    weft_param param = WEFT_PARAM_INIT;
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    weft_step how = WEFT_STEP_INIT;
    (void)argument;
    param.name = "line", param.shape[0] = 2, param.dims = 1;
    how.lr = 0.05f, how.divisor = ranks; /* sums over the ranks become means */
    TRY(weft_comm_create(world, "data", NULL, 0, NULL, &comm));
    comms.shard = comm;
    TRY(weft_params_create(&params));
    TRY(weft_params_add(params, &param, NULL));
    TRY(weft_buckets_create(params, &comms, NULL, &set));
    TRY(weft_adam_create(&set, 1, NULL, &adam));
    line = (float *)weft_buckets_param(set, 0), grad = (float *)weft_buckets_grad(set, 0);
    for (int step = 0; step < 500; step++) {
        float x = (float)((step * ranks + rank) % 7) / 7;
        TRY(weft_buckets_acquire(set, 0, 1, WEFT_STREAM_HOST)); /* its values have been gathered */
        float error = line[0] * x + line[1] - (3 * x - 1);      /* the forward */
        TRY(weft_buckets_begin(set, 1));                        /* the backward: gradients are zero */
        grad[0] += error * x, grad[1] += error;
        TRY(weft_buckets_mark_ready(set, 0, WEFT_STREAM_HOST)); /* its reduction starts */
        TRY(weft_adam_step(adam, &how, NULL));                  /* this rank's part; its gather starts */
    }
    TRY(weft_buckets_acquire(set, 0, 1, WEFT_STREAM_HOST));
    printf("rank %d of %d: y = %.1f x %+.1f\n", rank, ranks, (double)line[0], (double)line[1]);
end:
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error()); /* nobody waits for this rank, and all hear why */
    weft_adam_destroy(adam);
    weft_buckets_destroy(set);
    weft_params_destroy(params);
    weft_comm_destroy(comm);
    return result;
}

int main(void)
{
    weft_result result = weft_world_run(NULL, rank_main, NULL);
    if (result != WEFT_OK)
        fprintf(stderr, "%s: %s\n", weft_result_string(result), weft_last_error());
    return result != WEFT_OK;
}
