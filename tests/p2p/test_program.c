/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and channels: what each step reads, fills and waits for, worked out by hand. */
#include "program.h"

#include <stdarg.h>
#include <weft/world.h>

#include "harness/test.h"
#include "schedules.h"

enum { COUNT = 100 };

typedef struct fixture {
    weft_world *world;
    weft_schedule *schedule;
    weft__channel channels[WEFT_ACTION_KINDS];
    weft__program program;
} fixture;

static fixture open_fixture(weft_schedule *schedule, uint32_t stage)
{
    fixture f = {.schedule = schedule};
    weft_stage_needs needs[8];
    CHECK_OK(weft_world_open(NULL, &f.world));
    CHECK_OK(weft_schedule_verify(schedule, NULL, needs));
    const uint32_t credits[WEFT_ACTION_KINDS] = {[WEFT_ACTION_RECV_F] = needs[stage].receives[0],
                                                 [WEFT_ACTION_RECV_B] = needs[stage].receives[1],
                                                 [WEFT_ACTION_SEND_F] = needs[stage].sends[0],
                                                 [WEFT_ACTION_SEND_B] = needs[stage].sends[1]};
    for (int kind = 0; kind < WEFT_ACTION_KINDS; kind++)
        CHECK_OK(weft__channel_open(&f.channels[kind], f.world, WEFT_DEVICE_HOST, credits[kind], COUNT, WEFT_BF16));
    CHECK_OK(weft__program_make(schedule, stage, f.channels, &f.program));
    return f;
}

static void close_fixture(fixture *f)
{
    weft__program_release(&f->program);
    for (int kind = 0; kind < WEFT_ACTION_KINDS; kind++)
        weft__channel_close(&f->channels[kind]);
    weft_schedule_destroy(f->schedule);
    weft_world_close(f->world);
}

/* ---- programs as text ---- */

static char text[4096];
static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
}

/* ":3" for buffer 3 of this kind, nothing for none. */
static void put_buffer(const fixture *f, const char *name, weft_action_kind kind, const void *memory)
{
    for (uint32_t i = 0; i < f->channels[kind].credits; i++)
        if (f->channels[kind].buffers[i].memory == memory)
            put(" %s%u", name, i);
}

static void put_task(const fixture *f, const weft__step *step)
{
    const weft_pipeline_task *task = &step->task;
    put("%s%u.%u@%u", weft_action_string(task->kind), task->microbatch, task->chunk, task->activation);
    put("%s%s%s", task->first ? " first" : "", task->last ? " last" : "", task->split ? " split" : "");
    put_buffer(f, "x", WEFT_ACTION_RECV_F, task->input);
    put_buffer(f, "y", WEFT_ACTION_SEND_F, task->output);
    put_buffer(f, "dy", WEFT_ACTION_RECV_B, task->output_grad);
    put_buffer(f, "dx", WEFT_ACTION_SEND_B, task->input_grad);
    for (int i = 0; i < 2; i++)
        if (step->waits[i] != WEFT__BATCH_NONE)
            put(" after %u", step->waits[i]);
}

static void put_batch(const fixture *f, uint32_t number)
{
    const weft__program_batch *batch = &f->program.batches[number];
    put("[%u:", number);
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        const weft_p2p *m = &f->program.messages[i];
        const weft_pipeline_task *maker = f->program.makers[i];
        put(" %s%u%c%d", m->kind == WEFT_SEND ? "send" : "recv", m->channel, m->kind == WEFT_SEND ? '>' : '<', m->peer);
        CHECK_INT(m->count, COUNT);
        CHECK_INT(m->dtype, WEFT_BF16);
        if (maker)
            put(" of %s%u.%u", weft_action_string(maker->kind), maker->microbatch, maker->chunk);
    }
    put("]");
}

static const char *program_text(const fixture *f)
{
    text[0] = 0;
    for (size_t i = 0; i < f->program.step_count; i++) {
        const weft__step *step = &f->program.steps[i];
        put("%s", i ? "\n" : "");
        if (weft_action_is_message(step->kind))
            put_batch(f, step->batch);
        else if (step->kind == WEFT_ACTION_SYNC)
            put("sync%u %u left", step->task.chunk, step->left);
        else
            put_task(f, step);
    }
    return text;
}

TEST(sends_are_waited_for_when_their_buffer_is_filled_again)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 3, 1, 0);
    fixture f = open_fixture(lower(s, WEFT_QUEUES_DIRECTION, WEFT_BATCHING_NONE, 0), 0);
    CHECK_STR(program_text(&f), "F0.0@0 first y0\n"
                                "[0: recv1<1]\n"
                                "[1: send0>1 of F0.0]\n"
                                "F1.0@1 y1\n"
                                "[2: send0>1 of F1.0]\n"
                                "B0.0@0 dy0 after 0\n"
                                "[3: recv1<1]\n"
                                "F2.0@0 y0 after 1\n"
                                "[4: recv1<1]\n"
                                "[5: send0>1 of F2.0]\n"
                                "B1.0@1 dy0 after 3\n"
                                "sync0 1 left\n"
                                "B2.0@0 last dy1 after 4");
    CHECK_INT(f.program.under_way, 4); /* 2 to 5 */
    CHECK_INT(f.program.activations[0], 2);
    weft_schedule_destroy(s);
    close_fixture(&f);
}

TEST(a_batch_is_waited_for_as_a_whole)
{
    fixture f =
        open_fixture(from_text("stage 0: F0.0 SEND_F0.0#0 F1.0 [SEND_F1.0#1 RECV_B0.0#0] B0.0 W0.0 RECV_B1.0#0 "
                               "SYNC.0 B1.0 W1.0\n"
                               "stage 1: RECV_F0.0#0 F0.0 B0.0 SEND_B0.0#0 RECV_F1.0#1 W0.0 F1.0 B1.0 SEND_B1.0#0 "
                               "SYNC.0 W1.0\n"),
                     0);
    CHECK_STR(program_text(&f), "F0.0@0 first y0\n"
                                "[0: send0>1 of F0.0]\n"
                                "F1.0@1 y1\n"
                                "[1: send0>1 of F1.0 recv1<1]\n"
                                "B0.0@0 split dy0 after 1\n"
                                "W0.0@0 dy0 after 1\n"
                                "[2: recv1<1]\n"
                                "sync0 1 left\n"
                                "B1.0@1 last split dy0 after 2\n"
                                "W1.0@1 last dy0 after 2");
    CHECK_INT(f.program.under_way, 2);
    fixture g =
        open_fixture(from_text("stage 0: F0.0 SEND_F0.0#0 F1.0 [SEND_F1.0#1 RECV_B0.0#0] B0.0 W0.0 RECV_B1.0#0 "
                               "SYNC.0 B1.0 W1.0\n"
                               "stage 1: RECV_F0.0#0 F0.0 B0.0 SEND_B0.0#0 RECV_F1.0#1 W0.0 F1.0 B1.0 SEND_B1.0#1 "
                               "SYNC.0 W1.0\n"),
                     1);
    CHECK_STR(program_text(&g), "[0: recv0<0]\n"
                                "F0.0@0 first x0 after 0\n"
                                "B0.0@0 split x0 dx0\n"
                                "[1: send1>0 of B0.0]\n"
                                "[2: recv0<0]\n"
                                "W0.0@0 x0\n"
                                "F1.0@0 x1 after 2\n"
                                "B1.0@0 split x1 dx1\n"
                                "[3: send1>0 of B1.0]\n"
                                "sync0 0 left\n"
                                "W1.0@0 last x1");
    close_fixture(&f);
    close_fixture(&g);
}

TEST(a_stage_sends_its_chunks_to_itself)
{
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 1, 2, 2, 0);
    fixture f = open_fixture(lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, WEFT_LOWER_ALIGN_SYNC), 0);
    CHECK_STR(program_text(&f), "F0.0@0 first y0\n"
                                "[0: send0>0 of F0.0 recv0<0]\n"
                                "F0.1@0 first x0 after 0\n"
                                "B0.1@0 x0 dx0\n"
                                "[1: send1>0 of B0.1 recv1<0]\n"
                                "F1.0@1 y1\n"
                                "[2: send0>0 of F1.0 recv0<0]\n"
                                "B0.0@0 dy0 after 1\n"
                                "F1.1@0 x0 after 2\n"
                                "sync1 1 left\n"
                                "B1.1@0 last x0 dx1\n"
                                "[3: send1>0 of B1.1 recv1<0]\n"
                                "sync0 1 left\n"
                                "B1.0@1 last dy0 after 3");
    CHECK_INT(f.program.activations[0], 2);
    CHECK_INT(f.program.activations[1], 1);
    weft_schedule_destroy(s);
    close_fixture(&f);
}

/* ---- channels ---- */

static uint64_t tag_at(const weft_schedule *s, uint32_t stage, const weft_action *a)
{
    weft__buffer buffer = {0};
    weft__channel channel = {.dtype = WEFT_FP32, .count = 3, .buffers = &buffer, .credits = 1};
    weft_action first = *a;
    first.buffer = 0;
    return weft__channel_message(&channel, s, stage, &first).tag;
}

TEST(both_ends_of_a_message_have_one_tag_and_no_two_messages_share_it)
{
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 3, 7, 3, 4);
    weft_schedule *lowered = lower(s, WEFT_QUEUES_DIRECTION, WEFT_BATCHING_NONE, 0);
    static uint64_t tags[2][512];
    size_t counts[2] = {0, 0};
    for (uint32_t stage = 0; stage < 3; stage++)
        for (size_t i = 0; i < lowered->lists[stage].count; i++) {
            const weft_action *a = &lowered->lists[stage].at[i];
            if (!weft_action_is_message(a->kind))
                continue;
            int receives = a->kind == WEFT_ACTION_RECV_F || a->kind == WEFT_ACTION_RECV_B;
            CHECK(counts[receives] < 512);
            tags[receives][counts[receives]++] = tag_at(lowered, stage, a);
        }
    CHECK_INT(counts[0], 2 * 8 * 7); /* 9 parts have 8 edges */
    CHECK_INT(counts[1], counts[0]);
    for (size_t i = 0; i < counts[0]; i++) {
        int sent = 0, received = 0;
        for (size_t j = 0; j < counts[0]; j++) {
            sent += tags[0][j] == tags[0][i];
            received += tags[1][j] == tags[0][i];
        }
        CHECK(tags[0][i] != 0);
        CHECK_INT(sent, 1);
        CHECK_INT(received, 1);
    }
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
}

TEST(a_channel_has_its_buffers_apart)
{
    weft_world *world;
    CHECK_OK(weft_world_open(NULL, &world));
    for (size_t count = 0; count < 300; count += 99) {
        weft__channel channel;
        CHECK_OK(weft__channel_open(&channel, world, WEFT_DEVICE_HOST, 5, count, WEFT_FP64));
        CHECK_INT(channel.credits, 5);
        for (uint32_t i = 0; i < 5; i++) {
            unsigned char *memory = channel.buffers[i].memory;
            CHECK(memory && (uintptr_t)memory % 256 == 0);
            for (size_t k = 0; k < 8 * count; k++)
                CHECK_INT(memory[k], 0);
            memset(memory, 0x11 * (int)(i + 1), 8 * count);
        }
        for (uint32_t i = 0; i < 5; i++)
            for (size_t k = 0; k < 8 * count; k++)
                CHECK_INT(((unsigned char *)channel.buffers[i].memory)[k], 0x11 * (i + 1));
        weft__channel_close(&channel);
    }
    weft__channel channel;
    mute();
    CHECK_RESULT(weft__channel_open(&channel, world, WEFT_DEVICE_HOST, 0, SIZE_MAX / 64, WEFT_FP64), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "elements of fp64");
    CHECK_OK(weft__channel_open(&channel, world, WEFT_DEVICE_HOST, 0, 7, WEFT_FP64));
    CHECK_INT(channel.credits, 0);
    weft__channel_close(&channel);
    weft_world_close(world);
}
