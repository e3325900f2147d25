/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer that knows nothing of weft: three layers learn to tell two spirals apart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 3, WIDEST = 32, BATCH = 64, STEPS = 500, MOST = WIDEST * (WIDEST + 1) };
static const int widths[LAYERS + 1] = {2, WIDEST, WIDEST, 1};
static const float lr = 0.01f;

typedef struct layer {
    int in, out, count;
    float weight[MOST], grad[MOST]; /* out rows of in weights and a bias */
    float mean[MOST], square[MOST]; /* of the gradient: Adam's moments */
} layer;

typedef struct model {
    layer layers[LAYERS];
    /* samples of a step, and a row for each: what goes into a layer, and the gradient by it */
    int rows;
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

static void make(model *m)
{
    memset(m, 0, sizeof *m);
    m->rows = BATCH;
    for (int i = 0; i < LAYERS; i++) {
        layer *l = &m->layers[i];
        l->in = widths[i], l->out = widths[i + 1];
        l->count = l->out * (l->in + 1);
        for (int j = 0; j < l->count; j++)
            l->weight[j] = (2 * even((unsigned)j) - 1) / sqrtf((float)l->in);
    }
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

static void adam(layer *l, int step)
{
    const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    float correction1 = 1 - powf(beta1, (float)step), correction2 = 1 - powf(beta2, (float)step);
    for (int j = 0; j < l->count; j++) {
        float g = l->grad[j];
        l->mean[j] = beta1 * l->mean[j] + (1 - beta1) * g;
        l->square[j] = beta2 * l->square[j] + (1 - beta2) * (g * g);
        l->weight[j] -= lr * (l->mean[j] / correction1) / (sqrtf(l->square[j] / correction2) + epsilon);
        l->grad[j] = 0;
    }
}

static void train(model *m)
{
    for (int step = 1; step <= STEPS; step++) {
        double loss = 0;
        for (int row = 0; row < m->rows; row++)
            m->dx[LAYERS][row] = spiral((unsigned)(step * BATCH + row), m->x[0] + 2 * row);
        for (int i = 0; i < LAYERS; i++)
            forward(m, i);
        for (int row = 0; row < m->rows; row++) {
            float label = m->dx[LAYERS][row], right = label * m->x[LAYERS][row];
            loss += log1p(exp((double)-right)) / (double)BATCH;
            m->dx[LAYERS][row] = -label / (1 + expf(right)) / (float)BATCH;
        }
        for (int i = LAYERS; i-- > 0;)
            backward(m, i);
        for (int i = 0; i < LAYERS; i++)
            adam(&m->layers[i], step);
        if (step > 1 && step % 100 > 0)
            continue;
        printf("step %d: loss %.9f\n", step, loss);
    }
}

int main(void)
{
    model m;
    make(&m);
    train(&m);
    return 0;
}
