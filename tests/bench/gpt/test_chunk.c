/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk says while it computes: which parameters it comes to, and when their gradients are final. */
#include <stdlib.h>

#include "complain.h"
#include "fixture.h"
#include "harness/test.h"

enum { MOST = 32 };

typedef struct watch {
    fixture *f;
    float *kept_values, *snapshot;
    int used[MOST], ready[MOST], order[2 * MOST];
    int ready_count;
    size_t different; /* parameters that were asked for */
    weft_result answer;
} watch;

/* The values come only now: whoever reads a parameter before it has been asked for finds NaN. */
static weft_result on_use(void *cookie, size_t param)
{
    watch *w = cookie;
    gpt_param *p = &w->f->chunks[0].params[param];
    memcpy(p->value, w->kept_values + (p->grad - w->f->grads), p->count * sizeof(float));
    CHECK_MSG(w->used[param]++ > 0 || param == w->different++, "%s is asked for out of turn", p->name);
    return w->answer;
}

static weft_result on_ready(void *cookie, size_t param)
{
    watch *w = cookie;
    gpt_param *p = &w->f->chunks[0].params[param];
    w->ready[param]++;
    w->order[w->ready_count++] = (int)param;
    memcpy(w->snapshot + (p->grad - w->f->grads), p->grad, p->count * sizeof(float));
    return w->answer;
}

static void open_watched(watch *w, fixture *f, bool tied)
{
    gpt_shape shape = fixture_shape();
    gpt_failure failure;
    shape.tied = tied;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(f, shape, NULL, 0, 1);
    fixture_batch(f, 0);
    size_t bytes = f->param_elements * sizeof(float);
    *w = (watch){.f = f, .kept_values = malloc(bytes), .snapshot = calloc(1, bytes)};
    memcpy(w->kept_values, f->values, bytes);
    memset(f->values, 0xff, bytes);
    f->chunks[0].hooks = (gpt_hooks){w, on_use, on_ready};
}

static void close_watched(watch *w)
{
    fixture_close(w->f);
    free(w->kept_values);
    free(w->snapshot);
}

static void check_hooks(bool tied)
{
    fixture f;
    watch w;
    double loss = 0;
    open_watched(&w, &f, tied);
    gpt_chunk *c = &f.chunks[0];
    CHECK_OK(gpt_chunk_forward(c, 0, NULL, NULL, f.tokens, f.targets, &loss));
    CHECK(isfinite(loss));
    CHECK_OK(gpt_chunk_backward(c, 0, NULL, NULL, 1));
    for (size_t i = 0; i < c->param_count; i++) {
        CHECK_MSG(w.used[i] == (tied && i == 0 ? 2 : 1), "%s is asked for %d times", c->params[i].name, w.used[i]);
        CHECK_MSG(w.ready[i] == c->params[i].contributions, "%s is ready %d times", c->params[i].name, w.ready[i]);
    }
    CHECK(memcmp(w.snapshot, f.grads, f.param_elements * sizeof(float)) == 0);
    /* Ready in the reverse of the registration; a tied embedding says it first of all, too. */
    for (int i = 0; i < (int)c->param_count; i++)
        CHECK_INT(w.order[w.ready_count - 1 - i], i);
    CHECK_INT(w.order[0], tied ? 0 : (int)c->param_count - 1);
    close_watched(&w);
}

TEST(a_parameter_is_asked_for_before_it_is_read_and_ready_when_its_gradient_is_final)
{
    check_hooks(false);
}

TEST(a_tied_embedding_is_ready_twice)
{
    check_hooks(true);
}

TEST(a_hook_that_fails_ends_the_pass_with_its_error)
{
    fixture f;
    watch w;
    double loss = 0;
    open_watched(&w, &f, false);
    w.answer = WEFT_E_PEER_LOST;
    CHECK_RESULT(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss), WEFT_E_PEER_LOST);
    w.answer = WEFT_OK;
    CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
    w.answer = WEFT_E_PEER_LOST;
    CHECK_RESULT(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1), WEFT_E_PEER_LOST);
    CHECK_INT(w.ready_count, 1);
    close_watched(&w);
}

TEST(microbatches_add_up_and_slots_keep_them_apart)
{
    gpt_shape shape = fixture_shape();
    gpt_failure failure;
    fixture f;
    double loss = 0;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(&f, shape, NULL, 0, 3);
    float *sum = calloc(f.param_elements, sizeof *sum);
    for (int m = 0; m < 3; m++) { /* each alone */
        fixture_clear_grads(&f);
        fixture_batch(&f, m);
        CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
        CHECK_OK(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1));
        for (size_t i = 0; i < f.param_elements; i++)
            sum[i] += f.grads[i];
    }
    fixture_clear_grads(&f);
    for (int m = 0; m < 3; m++) {
        fixture_batch(&f, m);
        CHECK_OK(gpt_chunk_forward(&f.chunks[0], (size_t)m, NULL, NULL, f.tokens, f.targets, &loss));
    }
    for (size_t m = 0; m < 3; m++)
        CHECK_OK(gpt_chunk_backward(&f.chunks[0], m, NULL, NULL, 1));
    for (size_t i = 0; i < f.param_elements; i++)
        CHECK_NEAR(f.grads[i], sum[i], 1e-4);
    free(sum);
    fixture_close(&f);
}

TEST(a_chunk_that_finds_no_memory_can_be_closed)
{
    gpt_model model = {.shape = fixture_shape()};
    gpt_chunk chunk;
    gpt_failure failure;
    CHECK(gpt_shape_complete(&model.shape, &failure) == 0);
    CHECK_INT(gpt_chunk_open(&chunk, &model, 0, (size_t)1 << 48, &failure), EXIT_FAILED);
    CHECK_HAS(failure.text, "no memory for chunk 0");
    gpt_chunk_close(&chunk);
}
