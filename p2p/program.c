/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up beforehand what a stage needs to know in each step of its list. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* A chunk while its steps are written. */
typedef struct chunk_state {
    uint32_t backwards; /* B to come */
    uint32_t weights;   /* W to come */
    uint32_t free;      /* activations that were used and are free again, on a stack */
    bool begun, synced;
} chunk_state;

typedef struct writer {
    const weft_schedule *s;
    const weft__actions *list;
    uint32_t stage;
    weft__index index;
    weft__channel *channels;
    weft__program *out;
    chunk_state *chunks;
    uint32_t *activations;      /* of each chunk and microbatch */
    uint32_t *free_activations; /* a stack for each chunk, as high as there are microbatches */
    uint32_t *step_of;          /* an action: its step */
    bool *over;                 /* a batch: has been waited for */
    uint32_t message_count;
    uint32_t under_way;
} writer;

/* The buffer of the message of this kind for the microbatch and chunk of @p a; NULL if there is no such message. */
static weft__buffer *buffer_of(const writer *w, weft_action_kind kind, const weft_action *a)
{
    uint32_t at = weft__index_find(&w->index, kind, (weft__part){w->stage, a->chunk}, a->microbatch);
    return at ? &w->channels[kind].buffers[w->list->at[at - 1].buffer] : NULL;
}

static void *memory_of(const weft__buffer *buffer)
{
    return buffer ? buffer->memory : NULL;
}

/* The batch that uses a buffer must be over before the step goes on. */
static uint32_t wait_for(writer *w, const weft__buffer *buffer)
{
    uint32_t batch = buffer ? buffer->batch : WEFT__BATCH_NONE;
    if (batch != WEFT__BATCH_NONE && !w->over[batch]) {
        w->over[batch] = true;
        w->under_way--;
    }
    return batch;
}

/* The number of what a microbatch keeps of its forward, taken by F and given back by the last task. */
static uint32_t activation_of(writer *w, const weft_action *a)
{
    chunk_state *chunk = &w->chunks[a->chunk];
    size_t row = (size_t)a->chunk * w->s->microbatches;
    uint32_t *number = &w->activations[row + a->microbatch], *stack = &w->free_activations[row];
    if (a->kind == WEFT_ACTION_F)
        *number = chunk->free ? stack[--chunk->free] : w->out->activations[a->chunk]++;
    if (weft__is_last(&w->index, w->stage, a))
        stack[chunk->free++] = *number;
    return *number;
}

static void write_task(writer *w, const weft_action *a, weft__step *step)
{
    /* What a task reads and fills, by the messages that bring and take it. */
    static const weft_action_kind reads[] = {WEFT_ACTION_RECV_F, WEFT_ACTION_RECV_B, WEFT_ACTION_RECV_B};
    static const weft_action_kind fills[] = {WEFT_ACTION_SEND_F, WEFT_ACTION_SEND_B};
    chunk_state *chunk = &w->chunks[a->chunk];
    bool forward = a->kind == WEFT_ACTION_F, weights = a->kind == WEFT_ACTION_W;
    const weft__buffer *read = buffer_of(w, reads[a->kind], a);
    const weft__buffer *filled = weights ? NULL : buffer_of(w, fills[a->kind], a);
    chunk->backwards -= a->kind == WEFT_ACTION_B;
    chunk->weights -= weights;
    step->waits[0] = wait_for(w, read);
    step->waits[1] = wait_for(w, filled);
    step->task = (weft_pipeline_task){.kind = a->kind,
                                      .chunk = a->chunk,
                                      .microbatch = a->microbatch,
                                      .activation = activation_of(w, a),
                                      .first = forward && !chunk->begun,
                                      .last = !forward && chunk->synced && chunk->backwards == 0 &&
                                              (!weights || chunk->weights == 0),
                                      .split = weft__is_split(&w->index, w->stage, a),
                                      .input = memory_of(buffer_of(w, WEFT_ACTION_RECV_F, a)),
                                      .output = forward ? memory_of(filled) : NULL,
                                      .output_grad = forward ? NULL : memory_of(read),
                                      .input_grad = forward ? NULL : memory_of(filled)};
    chunk->begun = true;
}

static void write_sync(writer *w, const weft_action *a, weft__step *step)
{
    chunk_state *chunk = &w->chunks[a->chunk];
    chunk->synced = true;
    step->task.chunk = a->chunk;
    step->left = chunk->backwards;
}

static void write_message(writer *w, const weft_action *a)
{
    uint32_t number = w->message_count++;
    weft__channel *channel = &w->channels[a->kind];
    w->out->messages[number] = weft__channel_message(channel, w->s, w->stage, a);
    channel->buffers[a->buffer].batch = w->out->batch_count;
    if (!weft__kinds[a->kind].send)
        return;
    w->out->batches[w->out->batch_count].sends = true;
    uint32_t made =
        weft__index_find(&w->index, weft__kinds[a->kind].of, (weft__part){w->stage, a->chunk}, a->microbatch);
    w->out->makers[number] = &w->out->steps[w->step_of[made - 1]].task;
}

/* The batch that begins at @p i. Returns the position behind it. */
static size_t write_batch(writer *w, size_t i, weft__step *step)
{
    weft__program_batch *batch = &w->out->batches[w->out->batch_count];
    step->batch = w->out->batch_count;
    batch->first = w->message_count;
    do {
        write_message(w, &w->list->at[i++]);
    } while (i < w->list->count && !weft__begins_batch(w->list, i));
    batch->count = w->message_count - batch->first;
    w->out->batch_count++;
    if (++w->under_way > w->out->under_way)
        w->out->under_way = w->under_way;
    return i;
}

static void write_steps(writer *w)
{
    for (size_t i = 0; i < w->list->count; i++) {
        chunk_state *chunk = &w->chunks[w->list->at[i].chunk];
        chunk->backwards += w->list->at[i].kind == WEFT_ACTION_B;
        chunk->weights += w->list->at[i].kind == WEFT_ACTION_W;
    }
    for (size_t i = 0; i < w->list->count;) {
        const weft_action *a = &w->list->at[i];
        w->step_of[i] = (uint32_t)w->out->step_count;
        weft__step *step = &w->out->steps[w->out->step_count++];
        step->kind = a->kind;
        if (weft__kinds[a->kind].message) {
            i = write_batch(w, i, step);
            continue;
        }
        (a->kind == WEFT_ACTION_SYNC ? write_sync : write_task)(w, a, step);
        i++;
    }
}

weft_result weft__program_make(const weft_schedule *schedule, uint32_t stage, weft__channel *channels,
                               weft__program *out)
{
    const weft__actions *list = &schedule->lists[stage];
    size_t chunks = schedule->chunks, forwards = chunks * schedule->microbatches;
    writer w = {.s = schedule, .list = list, .stage = stage, .channels = channels, .out = out};
    *out = (weft__program){
        .steps = weft__alloc(list->count * sizeof *out->steps),
        .batches = weft__alloc(list->count * sizeof *out->batches),
        .messages = weft__alloc(list->count * sizeof *out->messages),
        .makers = weft__alloc(list->count * sizeof *out->makers),
        .activations = weft__alloc(chunks * sizeof *out->activations),
    };
    w.chunks = weft__alloc(chunks * sizeof *w.chunks);
    w.activations = weft__alloc((2 * forwards + list->count) * sizeof *w.activations);
    w.over = weft__alloc(list->count * sizeof *w.over);
    weft_result result = weft__index_create(schedule, &w.index);
    if (!out->steps || !out->batches || !out->messages || !out->makers || !out->activations || !w.chunks ||
        !w.activations || !w.over)
        result = WEFT_E_NO_MEMORY;
    if (result == WEFT_OK) {
        w.free_activations = w.activations + forwards;
        w.step_of = w.free_activations + forwards;
        write_steps(&w);
    }
    free(w.chunks);
    free(w.activations);
    free(w.over);
    free(w.index.at);
    return result;
}

void weft__program_release(weft__program *program)
{
    free(program->steps);
    free(program->batches);
    free(program->messages);
    free(program->makers);
    free(program->activations);
    *program = (weft__program){0};
}
