/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer of plain.c, data parallel: ranks divide each batch among them, and Adam's moments too. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { LAYERS = 3, WIDEST = 32, BATCH = 64, STEPS = 500 };
static const int widths[LAYERS + 1] = {2, WIDEST, WIDEST, 1};
static const float lr = 0.01f;

#define TRY(call)                     \
    do {                              \
        weft_result result_ = (call); \
        if (result_ != WEFT_OK)       \
            return result_;           \
    } while (0)

typedef struct layer {
    int in, out, count;
    float *weight, *grad; /* out rows of in weights and a bias */
} layer;

typedef struct model {
    weft_comm *comm;
    weft_params *params;
    weft_buckets *set;
    weft_adam *adam;
    layer layers[LAYERS];
    /* samples of a step: this rank's, and a row for each: what goes into a layer, and the gradient by it */
    int first, rows;
    float x[LAYERS + 1][BATCH * WIDEST], dx[LAYERS + 1][BATCH * WIDEST];
} model;

/* Number `index` of a sequence that fills [0, 1) evenly. */
static float even(unsigned index)
{
    return (float)(index * 2654435769u) / 4294967296.0f;
}

/* A point on one of two spirals; returns on which one: 1 or -1. */
static float spiral(unsigned index, float *point)
{
    float label = index % 2 ? 1.0f : -1.0f, along = even(index);
    point[0] = label * (0.1f + along) * cosf(9 * along);
    point[1] = label * (0.1f + along) * sinf(9 * along);
    return label;
}

static weft_result make(model *m, weft_world *world)
{
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    memset(m, 0, sizeof *m);
    m->first = BATCH * rank / ranks;
    m->rows = BATCH * (rank + 1) / ranks - m->first;
    TRY(weft_comm_create(world, "data", NULL, 0, NULL, &m->comm));
    TRY(weft_params_create(&m->params));
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &m->layers[i];
        l->in = widths[i], l->out = widths[i + 1];
        l->count = l->out * (l->in + 1);
        char name[16];
        snprintf(name, sizeof name, "layer %d", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name, param.shape[0] = (size_t)l->count, param.dims = 1;
        TRY(weft_params_add(m->params, &param, NULL));
    }
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = m->comm;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = 1; /* a bucket for each layer: one is reduced while the next is computed */
    TRY(weft_buckets_create(m->params, &comms, &config, &m->set));
    TRY(weft_adam_create(&m->set, 1, NULL, &m->adam));
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &m->layers[i];
        l->weight = (float *)weft_buckets_param(m->set, i), l->grad = (float *)weft_buckets_grad(m->set, i);
        for (int j = 0; j < l->count; j++)
            l->weight[j] = (2 * even((unsigned)j) - 1) / sqrtf((float)l->in);
    }
    return WEFT_OK;
}

static void destroy(model *m)
{
    weft_adam_destroy(m->adam);
    weft_buckets_destroy(m->set);
    weft_params_destroy(m->params);
    weft_comm_destroy(m->comm);
}

static void forward(model *m, int i)
{
    const layer *l = &m->layers[i];
    for (int row = 0; row < m->rows; row++) {
        const float *x = m->x[i] + row * l->in;
        for (int o = 0; o < l->out; o++) {
            const float *weight = l->weight + o * (l->in + 1);
            float sum = weight[l->in];
            for (int k = 0; k < l->in; k++)
                sum += weight[k] * x[k];
            m->x[i + 1][row * l->out + o] = i < LAYERS - 1 ? tanhf(sum) : sum;
        }
    }
}

static void backward(model *m, int i)
{
    layer *l = &m->layers[i];
    memset(m->dx[i], 0, sizeof(float) * (size_t)(m->rows * l->in));
    for (int row = 0; row < m->rows; row++) {
        const float *x = m->x[i] + row * l->in;
        for (int o = 0; o < l->out; o++) {
            const float *weight = l->weight + o * (l->in + 1);
            float *grad = l->grad + o * (l->in + 1);
            float y = m->x[i + 1][row * l->out + o], dy = m->dx[i + 1][row * l->out + o];
            float d = i < LAYERS - 1 ? dy * (1 - y * y) : dy;
            for (int k = 0; k < l->in; k++) {
                grad[k] += d * x[k];
                m->dx[i][row * l->in + k] += d * weight[k];
            }
            grad[l->in] += d;
        }
    }
}

static weft_result train(model *m)
{
    for (int step = 1; step <= STEPS; step++) {
        double loss = 0;
        for (int row = 0; row < m->rows; row++)
            m->dx[LAYERS][row] = spiral((unsigned)(step * BATCH + m->first + row), m->x[0] + 2 * row);
        for (int i = 0; i < LAYERS; i++) {
            TRY(weft_buckets_acquire(m->set, i, 1, WEFT_STREAM_HOST)); /* the step before has gathered it */
            forward(m, i);
        }
        for (int row = 0; row < m->rows; row++) {
            float label = m->dx[LAYERS][row], right = label * m->x[LAYERS][row];
            loss += log1p(exp((double)-right)) / (double)BATCH;
            m->dx[LAYERS][row] = -label / (1 + expf(right)) / (float)BATCH;
        }
        TRY(weft_buckets_begin(m->set, 1));
        for (int i = LAYERS; i-- > 0;) {
            backward(m, i);
            TRY(weft_buckets_mark_ready(m->set, i, WEFT_STREAM_HOST));
        }
        weft_step how = WEFT_STEP_INIT;
        how.lr = lr;
        TRY(weft_adam_step(m->adam, &how, NULL));
        if (step > 1 && step % 100 > 0)
            continue;
        TRY(weft_all_reduce_run(m->comm, &loss, &loss, 1, WEFT_FP64, WEFT_SUM, WEFT_STREAM_HOST));
        if (weft_comm_rank(m->comm) == 0)
            printf("step %d: loss %.9f\n", step, loss);
    }
    return weft_buckets_acquire(m->set, 0, LAYERS, WEFT_STREAM_HOST); /* the last gathers, before all is destroyed */
}

static weft_result rank_main(weft_world *world, void *argument)
{
    (void)argument;
    model m;
    weft_result result = make(&m, world);
    if (result == WEFT_OK)
        result = train(&m);
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error()); /* before anything is destroyed */
    destroy(&m);
    return result;
}

int main(void)
{
    weft_result result = weft_world_run(NULL, rank_main, NULL);
    if (result != WEFT_OK)
        fprintf(stderr, "%s: %s\n", weft_result_string(result), weft_last_error());
    return result != WEFT_OK;
}
