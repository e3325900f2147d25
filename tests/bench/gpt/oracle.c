/* SPDX-License-Identifier: Apache-2.0 */
/* The forward of the GPT in fp64, loop by loop. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 64, LONG = 16 };

static void rms_norm(const oracle_model *m, const double *x, const double *weight, double *out)
{
    double squares = 0;
    for (int i = 0; i < m->hidden; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < m->hidden; i++)
        out[i] = x[i] / sqrt(squares / m->hidden + m->epsilon) * weight[i];
}

static void multiply(const double *matrix, const double *x, int outputs, int inputs, double *out)
{
    for (int o = 0; o < outputs; o++) {
        out[o] = 0;
        for (int i = 0; i < inputs; i++)
            out[o] += matrix[o * inputs + i] * x[i];
    }
}

/* Channel i and channel i + half are a point of the plane, turned by the position's angle. */
static void turn(const oracle_model *m, double *vector, int position)
{
    int half = m->channels / 2;
    for (int i = 0; i < half; i++) {
        double angle = position / pow(m->rotary_base, 2.0 * i / m->channels), c = cos(angle), s = sin(angle);
        double a = vector[i], b = vector[i + half];
        vector[i] = a * c - b * s;
        vector[i + half] = a * s + b * c;
    }
}

/* One sequence through one layer's attention. A row of qkv holds, group by group, its queries, its key, its value. */
static void attention(const oracle_model *m, const oracle_layer *l, double x[LONG][WIDE])
{
    static double q[LONG][WIDE], k[LONG][WIDE], v[LONG][WIDE];
    int d = m->channels, each = m->heads / m->groups;
    for (int t = 0; t < m->sequence; t++) {
        double normed[WIDE], qkv[2 * WIDE];
        rms_norm(m, x[t], l->attention_norm, normed);
        multiply(l->qkv, normed, (m->heads + 2 * m->groups) * d, m->hidden, qkv);
        for (int g = 0; g < m->groups; g++) {
            const double *group = qkv + g * (each + 2) * d;
            memcpy(q[t] + g * each * d, group, sizeof(double) * (size_t)(each * d));
            memcpy(k[t] + g * d, group + each * d, sizeof(double) * (size_t)d);
            memcpy(v[t] + g * d, group + (each + 1) * d, sizeof(double) * (size_t)d);
            turn(m, k[t] + g * d, t);
        }
        for (int h = 0; h < m->heads; h++)
            turn(m, q[t] + h * d, t);
    }
    for (int t = 0; t < m->sequence; t++) {
        double context[WIDE] = {0}, out[WIDE];
        for (int h = 0; h < m->heads; h++) {
            int g = h / each;
            double weight[LONG], sum = 0;
            for (int u = 0; u <= t; u++) {
                double score = 0;
                for (int i = 0; i < d; i++)
                    score += q[t][h * d + i] * k[u][g * d + i];
                sum += weight[u] = exp(score / sqrt(d));
            }
            for (int u = 0; u <= t; u++)
                for (int i = 0; i < d; i++)
                    context[h * d + i] += weight[u] / sum * v[u][g * d + i];
        }
        multiply(l->attention_output, context, m->hidden, m->heads * d, out);
        for (int i = 0; i < m->hidden; i++)
            x[t][i] += out[i];
    }
}

static void feed_forward(const oracle_model *m, const oracle_layer *l, double *x)
{
    double normed[WIDE], gate_up[2 * WIDE], inner[WIDE], out[WIDE];
    rms_norm(m, x, l->mlp_norm, normed);
    multiply(l->gate_up, normed, 2 * m->ffn, m->hidden, gate_up);
    for (int i = 0; i < m->ffn; i++)
        inner[i] = gate_up[i] / (1 + exp(-gate_up[i])) * gate_up[m->ffn + i];
    multiply(l->down, inner, m->hidden, m->ffn, out);
    for (int i = 0; i < m->hidden; i++)
        x[i] += out[i];
}

static double token_loss(const oracle_model *m, const double *x, int target)
{
    double normed[WIDE], logits[WIDE], sum = 0;
    rms_norm(m, x, m->final_norm, normed);
    multiply(m->output, normed, m->vocabulary, m->hidden, logits);
    for (int i = 0; i < m->vocabulary; i++)
        sum += exp(logits[i]);
    return log(sum) - logits[target];
}

double oracle_loss(const oracle_model *m, const int *tokens, const int *targets)
{
    static double x[LONG][WIDE];
    double loss = 0;
    if (m->sequence > LONG || m->hidden > WIDE || m->ffn > WIDE || m->heads * m->channels > WIDE)
        abort();
    for (int b = 0; b < m->batch; b++) {
        for (int t = 0; t < m->sequence; t++)
            memcpy(x[t], m->embedding + tokens[t * m->batch + b] * m->hidden, sizeof(double) * (size_t)m->hidden);
        for (int l = 0; l < m->layers; l++) {
            attention(m, &m->layer[l], x);
            for (int t = 0; t < m->sequence; t++)
                feed_forward(m, &m->layer[l], x[t]);
        }
        for (int t = 0; t < m->sequence; t++)
            loss += token_loss(m, x[t], targets[t * m->batch + b]);
    }
    return loss / (m->batch * m->sequence);
}
