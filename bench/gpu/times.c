/* SPDX-License-Identifier: Apache-2.0 */
/* `gpu-times`: how long the operations of a GPT take on this GPU, each alone, and how much of messages that NCCL
 * carries from a rank to itself is hidden behind a backward. Prints JSON; bench/gpu/check makes the table.
 *
 * An operation is queued many times in a row and then waited for: what a launch costs the host overlaps with the GPU,
 * as it does in a training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>
#include <weft/comm.h>
#include <weft/memory.h>
#include <weft/p2p.h>

#include "clock.h"
#include "complain.h"
#include "gpu/bed.h"
#include "json.h"
#include "option.h"

enum { ROUNDS = 3, MESSAGES_MOST = 64, VALUES = 4096 };

typedef struct times_options {
    int layers, hidden, ffn, heads, groups, vocab, seq, micro;
    size_t message_bytes;
    double ms; /* of one operation in a row */
    int code;  /* that it ended with */
} times_options;

#define FIELD(name) offsetof(times_options, name)
static const option table[] = {
    {"layers", OPTION_INT, FIELD(layers), 1, 1e9, "N", "layers (16)"},
    {"hidden", OPTION_INT, FIELD(hidden), 1, 1e9, "N", "width (2048)"},
    {"ffn", OPTION_INT, FIELD(ffn), 1, 1e9, "N", "width of the MLP (8192)"},
    {"heads", OPTION_INT, FIELD(heads), 1, 1e9, "N", "query heads (32)"},
    {"groups", OPTION_INT, FIELD(groups), 1, 1e9, "N", "key and value heads (8)"},
    {"vocab", OPTION_INT, FIELD(vocab), 1, 1e9, "N", "tokens of the vocabulary (128256)"},
    {"seq", OPTION_INT, FIELD(seq), 1, 1e9, "N", "tokens of a sample (8192)"},
    {"micro", OPTION_INT, FIELD(micro), 1, 1e9, "N", "samples of a microbatch (1)"},
    {"message", OPTION_SIZE, FIELD(message_bytes), 1, 1e12, "BYTES", "of a message to itself (64M)"},
    {"ms", OPTION_REAL, FIELD(ms), 0.001, 1e4, "N", "milliseconds that each operation is repeated for (20)"},
};

static int shape_of(const times_options *o, gpt_shape *shape, gpt_failure *failure)
{
    *shape = (gpt_shape){.layers = (size_t)o->layers,
                         .hidden = (size_t)o->hidden,
                         .ffn = (size_t)o->ffn,
                         .heads = (size_t)o->heads,
                         .groups = (size_t)o->groups,
                         .channels = (size_t)(o->hidden / o->heads),
                         .sequence = (size_t)o->seq,
                         .vocabulary = (size_t)o->vocab,
                         .vocabulary_multiple = 128,
                         .micro_batch = (size_t)o->micro,
                         .norm_epsilon = 1e-5f,
                         .rotary_base = 10000,
                         .init_deviation = 0.02f,
                         .tied = true,
                         .dtype = WEFT_BF16,
                         .tensor = 1,
                         .pipeline = 1,
                         .virtual_stages = 1};
    return gpt_shape_complete(shape, failure);
}

static double ms_since(int64_t began)
{
    return (double)(clock_ns() - began) * 1e-6;
}

/* ------------------------------------------------------------------------------------------- each alone */

/* Milliseconds of one; negative: it failed. */
static double time_of(gpu_bed *bed, const gpu_operation *o, double ms, gpt_failure *failure)
{
    size_t repeats = 1;
    for (;;) {
        int64_t began = clock_ns();
        for (size_t i = 0; i < repeats; i++)
            o->run(bed, o->in, o->out);
        if (gpu_bed_await(bed, failure))
            return -1;
        double took = ms_since(began);
        if (took >= ms || repeats >= 1000)
            return took / (double)repeats;
        double wanted = 1.2 * ms / (took > 1e-3 ? took : 1e-3) * (double)repeats;
        repeats = wanted > 1000 ? 1000 : (size_t)wanted + 1;
    }
}

static int tell_operations(gpu_bed *bed, double ms, json_writer *json, gpt_failure *failure)
{
    gpu_operation operations[GPU_OPERATIONS];
    size_t count = gpu_operations(&bed->shape, operations);
    for (size_t i = 0; i < count; i++) {
        const gpu_operation *o = &operations[i];
        if (time_of(bed, o, ms / 10, failure) < 0) /* warm */
            return failure->code;
        double each = time_of(bed, o, ms, failure);
        if (each < 0)
            return failure->code;
        json_open(json, NULL, '{');
        json_put_text(json, "operation", o->name);
        json_put_number(json, "ms", each);
        json_put_number(json, "times", (double)o->times);
        json_put_number(json, "tflops", o->flops / each * 1e-9);
        json_put_number(json, "gb_per_s", o->bytes / each * 1e-6);
        json_close(json, '}');
        json_end_line(json);
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------- beside a backward */

typedef struct exchange {
    weft_comm *comm;
    unsigned char *from, *to;
    size_t bytes;
} exchange;

static weft_result open_exchange(gpu_bed *bed, size_t bytes, exchange *e)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    config.backend = "nccl";
    *e = (exchange){.bytes = bytes};
    weft_result result = weft_comm_create(bed->world, "itself", NULL, 0, &config, &e->comm);
    if (result == WEFT_OK)
        result = weft_memory_alloc_on(bed->world, WEFT_DEVICE_CUDA, bytes, (void **)&e->from);
    if (result == WEFT_OK)
        result = weft_memory_alloc_on(bed->world, WEFT_DEVICE_CUDA, bytes, (void **)&e->to);
    return result;
}

static void close_exchange(gpu_bed *bed, exchange *e)
{
    weft_comm_destroy(e->comm);
    weft_memory_free(bed->world, e->from);
    weft_memory_free(bed->world, e->to);
}

static weft_result start_message(gpu_bed *bed, const exchange *e, weft_work *work)
{
    const weft_p2p messages[] = {{.kind = WEFT_SEND, .dtype = WEFT_UINT8, .buffer = e->from, .count = e->bytes},
                                 {.kind = WEFT_RECV, .dtype = WEFT_UINT8, .buffer = e->to, .count = e->bytes}};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = messages;
    batch.count = 2;
    return weft_p2p_start(e->comm, &batch, bed->device->stream, work);
}

/* Milliseconds of a backward of all layers (@p computes) and of @p messages, started as it goes; negative: failed. */
static double time_both(gpu_bed *bed, const exchange *e, size_t messages, bool computes, gpt_failure *failure)
{
    gpu_operation operations[GPU_OPERATIONS];
    size_t count = gpu_operations(&bed->shape, operations), layers = bed->shape.layers, started = 0;
    weft_work works[MESSAGES_MOST];
    weft_result result = WEFT_OK;
    int64_t began = clock_ns();
    for (size_t l = 0; l < layers; l++) {
        for (; started * layers < messages * (l + 1) && result == WEFT_OK; started++)
            result = start_message(bed, e, &works[started]);
        for (size_t i = 0; i < count && computes; i++)
            for (size_t k = 0; operations[i].backward && k < operations[i].times / layers; k++)
                operations[i].run(bed, operations[i].in, operations[i].out);
    }
    for (size_t i = 0; i < started && result == WEFT_OK; i++)
        result = weft_work_finish(works[i], bed->device->stream);
    if (result != WEFT_OK)
        return gpt_fail(failure, EXIT_FAILED, "a message to itself: %s", weft_last_error()), -1;
    return gpu_bed_await(bed, failure) ? -1 : ms_since(began);
}

/* The shortest of some. */
static double time_best(gpu_bed *bed, const exchange *e, size_t messages, bool computes, gpt_failure *failure)
{
    double best = -1;
    for (int i = 0; i <= ROUNDS; i++) { /* the first warms up */
        double ms = time_both(bed, e, messages, computes, failure);
        if (ms < 0)
            return -1;
        best = i > 0 && (best < 0 || ms < best) ? ms : best;
    }
    return best;
}

static int tell_overlap(gpu_bed *bed, const exchange *e, json_writer *json, gpt_failure *failure)
{
    double backward = time_best(bed, e, 0, true, failure), one = time_best(bed, e, 1, false, failure);
    if (backward < 0 || one < 0)
        return failure->code;
    /* About as long as the backward. */
    double wanted = backward / (one > 1e-3 ? one : 1e-3);
    size_t messages = wanted < 1 ? 1 : wanted > MESSAGES_MOST ? MESSAGES_MOST : (size_t)wanted;
    double alone = time_best(bed, e, messages, false, failure), both = time_best(bed, e, messages, true, failure);
    if (alone < 0 || both < 0)
        return failure->code;
    json_open(json, NULL, '{');
    json_put_number(json, "backward_ms", backward);
    json_put_number(json, "messages_ms", alone);
    json_put_number(json, "both_ms", both);
    json_put_number(json, "messages", (double)messages);
    json_put_number(json, "message_bytes", (double)e->bytes);
    json_put_number(json, "hidden", (backward + alone - both) / (backward < alone ? backward : alone));
    json_close(json, '}');
    json_end_line(json);
    return 0;
}

/* ------------------------------------------------------------------------------------------- values */

/* The only kernels that NCCL has for one rank: an average of floats, and messages to itself. Both copy. */
static bool carry(gpu_bed *bed, const exchange *e, bool average, unsigned char *sent, unsigned char *got)
{
    gpt_device *d = bed->device;
    weft_work work;
    for (size_t i = 0; i < VALUES; i++)
        ((float *)(void *)sent)[i] = (float)(i % 1000) - (average ? 500 : 400);
    d->ops->bring(d, VALUES * sizeof(float), sent, e->from);
    weft_result result =
        average ? weft_all_reduce_start(e->comm, e->from, e->to, VALUES, WEFT_FP32, WEFT_AVERAGE, d->stream, &work)
                : start_message(bed, e, &work);
    if (result == WEFT_OK)
        result = weft_work_finish(work, d->stream);
    d->ops->fetch(d, VALUES * sizeof(float), e->to, got);
    return result == WEFT_OK && memcmp(sent, got, VALUES * sizeof(float)) == 0;
}

static int check_values(gpu_bed *bed, const exchange *e, json_writer *json, gpt_failure *failure)
{
    unsigned char *sent = malloc(2 * VALUES * sizeof(float)), *got = sent + VALUES * sizeof(float);
    if (!sent || e->bytes < VALUES * sizeof(float))
        return free(sent),
               gpt_fail(failure, EXIT_FAILED, "no memory, or messages below %zu bytes", VALUES * sizeof(float));
    bool right = carry(bed, e, true, sent, got) && carry(bed, e, false, sent, got);
    free(sent);
    if (!right)
        return gpt_fail(failure, EXIT_WRONG, "NCCL with one rank: an average or a message to itself has other values");
    json_open(json, NULL, '{');
    json_put_whole(json, "values_carried", 2 * VALUES);
    json_close(json, '}');
    json_end_line(json);
    return 0;
}

/* ------------------------------------------------------------------------------------------- all of it */

static int measure(gpu_bed *bed, const times_options *o, gpt_failure *failure)
{
    json_writer json = {.out = stdout};
    exchange e = {0};
    int code = gpu_bed_open(bed, failure);
    if (code == 0)
        code = tell_operations(bed, o->ms, &json, failure);
    if (code == 0 && open_exchange(bed, o->message_bytes, &e) != WEFT_OK)
        code = gpt_fail(failure, EXIT_FAILED, "messages to itself: %s", weft_last_error());
    if (code == 0)
        code = check_values(bed, &e, &json, failure);
    if (code == 0)
        code = tell_overlap(bed, &e, &json, failure);
    close_exchange(bed, &e);
    gpu_bed_close(bed);
    return code;
}

static weft_result run(weft_world *world, void *argument)
{
    times_options *o = argument;
    gpu_bed bed = {.world = world};
    gpt_failure failure = {0};
    if (shape_of(o, &bed.shape, &failure) || measure(&bed, o, &failure)) {
        o->code = complain(failure.code, "%s", failure.text);
    }
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    times_options o = {16, 2048, 8192, 32, 8, 128256, 8192, 1, 64 << 20, 20, EXIT_DONE};
    int rest, code = options_read("usage: gpu-times [options]\n\nTimes the operations of a GPT in bf16 on a GPU.",
                                  table, sizeof table / sizeof *table, argc, argv, &o, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "gpu-times takes no '%s'", argv[rest]);
    return weft_world_run(NULL, run, &o) == WEFT_OK ? o.code : complain(EXIT_FAILED, "%s", weft_last_error());
}
