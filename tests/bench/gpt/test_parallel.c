/* SPDX-License-Identifier: Apache-2.0 */
/* However the model is shared out, the loss and every gradient are those of one rank that has all of it. */
#include <stdlib.h>

#include "fixture.h"
#include "harness/test.h"
#include "ranks.h"

enum { MICROBATCHES = 3, STAGES = 2 };

typedef struct layout {
    size_t tensor, pipeline, virtual_stages;
    bool sequence, tied;
} layout;

static gpt_shape shape_of(layout l)
{
    gpt_shape shape = fixture_shape();
    gpt_failure failure;
    shape.layers = 4;
    shape.groups = 4;
    shape.heads = 8;
    shape.sequence = 8;
    shape.tensor = l.tensor;
    shape.sequence_parallel = l.sequence;
    shape.pipeline = l.pipeline;
    shape.virtual_stages = l.virtual_stages;
    shape.tied = l.tied;
    CHECK_MSG(gpt_shape_complete(&shape, &failure) == 0, "%s", failure.text);
    return shape;
}

/* All stages of one tensor parallel rank, run one after the other by one thread. */
typedef struct pipeline {
    fixture stages[STAGES];
    gpt_chunk *chunks[STAGES * FIXTURE_CHUNKS]; /* along the forward */
    size_t chunk_count, stage_count;
    void *activations;
    double loss;
} pipeline;

static void open_pipeline(pipeline *p, gpt_shape shape, weft_comm *comm)
{
    *p = (pipeline){.stage_count = shape.pipeline, .chunk_count = shape.pipeline * shape.virtual_stages};
    for (size_t i = 0; i < shape.pipeline; i++)
        fixture_open(&p->stages[i], shape, comm, i, MICROBATCHES);
    for (size_t i = 0; i < p->chunk_count; i++)
        p->chunks[i] = &p->stages[i % shape.pipeline].chunks[i / shape.pipeline];
    p->activations = malloc(shape.rows * shape.hidden * sizeof(float));
}

static void close_pipeline(pipeline *p)
{
    for (size_t i = 0; i < p->stage_count; i++)
        fixture_close(&p->stages[i]);
    free(p->activations);
}

/* All microbatches forward, then all backward: what is kept of each must last. */
static void run_pipeline(pipeline *p)
{
    fixture *f = &p->stages[0];
    for (int m = 0; m < MICROBATCHES; m++) {
        fixture_batch(f, m);
        for (size_t i = 0; i < p->chunk_count; i++)
            CHECK_OK(gpt_chunk_forward(p->chunks[i], (size_t)m, p->activations, p->activations, f->tokens, f->targets,
                                       &p->loss));
    }
    p->loss /= (double)(MICROBATCHES * f->shape.tokens);
    for (size_t m = 0; m < MICROBATCHES; m++)
        for (size_t i = p->chunk_count; i-- > 0;)
            CHECK_OK(gpt_chunk_backward(p->chunks[i], m, p->activations, p->activations,
                                        1 / (float)(MICROBATCHES * f->shape.tokens)));
}

typedef struct comparison {
    layout layout;
    gpt_shape shape;
    pipeline *whole;
    float summed[64][1024]; /* gradients that are added over ranks, by the number of the whole's parameter */
} comparison;

/* Where element @p i of a rank's part lies in the whole tensor of one rank; -1: it is padding that one rank lacks. */
static long place(const gpt_param *p, const gpt_param *whole, size_t tensor, size_t rank, size_t i)
{
    size_t rows = p->sharded ? p->rows / tensor : p->rows, column = i % p->columns, row = i / p->columns % rows;
    size_t part = i / p->columns / rows, whole_row = row + (p->sharded ? rank * rows : 0);
    return whole_row < whole->rows ? (long)((part * whole->rows + whole_row) * p->columns + column) : -1;
}

/* Compare values, and put gradients where they belong in the whole tensor; add up what several ranks have. */
static void merge(comparison *c, const gpt_param *p, size_t rank)
{
    gpt_chunk *chunk = &c->whole->stages[0].chunks[0];
    gpt_param *w = fixture_find(&c->whole->stages[0], p->name);
    CHECK_MSG(w && w->count <= 1024 && w - chunk->params < 64, "%s is not in the whole model", p->name);
    float *sum = c->summed[w - chunk->params];
    for (size_t i = 0; i < p->count; i++) {
        long at = place(p, w, c->layout.tensor, rank, i);
        float value = ((const float *)p->value)[i];
        if (at < 0)
            CHECK_MSG(value == 0 && p->grad[i] == 0, "%s: padding is %g, %g", p->name, value, p->grad[i]);
        else if (!p->sharded && !p->summed && rank > 0)
            CHECK_NEAR(p->grad[i], sum[at], 0); /* each rank has the same */
        else
            sum[at] += p->grad[i];
        if (at >= 0)
            CHECK_NEAR(value, ((const float *)w->value)[at], 0);
    }
}

static void rank_body(weft_comm *comm, void *argument)
{
    comparison *c = argument;
    pipeline p;
    size_t rank = comm ? (size_t)weft_comm_rank(comm) : 0;
    open_pipeline(&p, c->shape, comm);
    run_pipeline(&p);
    CHECK_NEAR(p.loss, c->whole->loss, 1e-6);
    float nothing = 0;
    CHECK_OK(gpt_tp_agree(&p.stages[0].model.tp, &nothing, 1, WEFT_SUM)); /* merge in the order of the ranks */
    for (size_t turn = 0; turn < c->layout.tensor; turn++) {
        for (size_t i = 0; i < p.chunk_count && turn == rank; i++)
            for (size_t k = 0; k < p.chunks[i]->param_count; k++)
                merge(c, &p.chunks[i]->params[k], rank);
        CHECK_OK(gpt_tp_agree(&p.stages[0].model.tp, &nothing, 1, WEFT_SUM));
    }
    close_pipeline(&p);
}

static void compare(layout l)
{
    static comparison c;
    pipeline whole;
    c = (comparison){.layout = l, .shape = shape_of(l), .whole = &whole};
    open_pipeline(&whole, shape_of((layout){1, 1, 1, false, l.tied}), NULL);
    run_pipeline(&whole);
    if (l.tensor > 1)
        ranks_run((int)l.tensor, rank_body, &c);
    else
        rank_body(NULL, &c);

    gpt_chunk *chunk = &whole.stages[0].chunks[0];
    double worst = 0;
    for (size_t i = 0; i < chunk->param_count; i++) {
        double sum[1024];
        for (size_t k = 0; k < chunk->params[i].count; k++)
            sum[k] = (double)c.summed[i][k];
        double distance = relative_distance(chunk->params[i].grad, sum, chunk->params[i].count);
        CHECK_MSG(distance < 1e-5, "%s: gradient is %g away", chunk->params[i].name, distance);
        worst = distance > worst ? distance : worst;
    }
    test_note("largest distance of a gradient, by its norm: %.2g", worst);
    close_pipeline(&whole);
}

TEST(tensor_parallel_ranks_compute_what_one_does)
{
    compare((layout){2, 1, 1, false, true});
    compare((layout){4, 1, 1, false, false});
}

TEST(sequence_parallel_ranks_compute_what_one_does)
{
    compare((layout){2, 1, 1, true, false});
    compare((layout){4, 1, 1, true, true});
}

TEST(pipeline_stages_compute_what_one_does)
{
    compare((layout){1, 2, 1, false, false});
    compare((layout){1, 2, 1, false, true});
}

TEST(interleaved_chunks_compute_what_one_stage_does)
{
    compare((layout){1, 2, 2, false, true});
}

TEST(all_at_once_compute_what_one_does)
{
    compare((layout){2, 2, 2, true, true});
    compare((layout){4, 2, 1, false, true});
}
