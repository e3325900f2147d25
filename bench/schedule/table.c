/* SPDX-License-Identifier: Apache-2.0 */
/* Prints schedules: a line a stage, a column a slot of time. A computation has its name in its first slot. */
#include "table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int digits(uint32_t largest)
{
    return snprintf(NULL, 0, "%" PRIu32, largest);
}

static bool computes(const weft_action *a)
{
    return !weft_action_is_message(a->kind) && a->kind != WEFT_ACTION_SYNC;
}

/* The chunk is shown only where there are several. */
static void print_cell(const weft_action *a, uint32_t chunks, int width)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%s%" PRIu32, weft_action_string(a->kind), a->microbatch);
    if (chunks > 1)
        snprintf(text + n, sizeof text - (size_t)n, ".%" PRIu32, a->chunk);
    printf(" %*s", width, text);
}

static void print_marks(uint32_t count, int width, const char *mark)
{
    for (; count > 0; count--)
        printf(" %*s", width, mark);
}

static void print_stage(const weft_schedule *s, uint32_t stage, const weft_action_time *times, uint32_t slots,
                        int width)
{
    size_t count;
    const weft_action *at = weft_schedule_actions(s, stage, &count);
    uint32_t slot = 0;
    printf("stage %-*" PRIu32, digits(weft_schedule_stages(s) - 1), stage);
    for (size_t i = 0; i < count; i++) {
        if (!computes(&at[i]))
            continue;
        print_marks(times[i].begin - slot, width, ".");
        print_cell(&at[i], weft_schedule_chunks(s), width);
        print_marks(times[i].end - times[i].begin - 1, width, "-");
        slot = times[i].end;
    }
    print_marks(slots - slot, width, ".");
    putchar('\n');
}

static bool is_split(const weft_schedule *s)
{
    for (uint32_t stage = 0; stage < weft_schedule_stages(s); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(s, stage, &count);
        for (size_t i = 0; i < count; i++)
            if (at[i].kind == WEFT_ACTION_W)
                return true;
    }
    return false;
}

/* Idle time as counted, and the closed form: no schedule idles less unless it splits backwards, since the last stage
 * has to wait for its first tensor and the first for its last one. */
static void print_bubble(const weft_schedule *s, uint64_t busy, uint32_t slots)
{
    uint64_t stages = weft_schedule_stages(s);
    uint64_t steps = (uint64_t)weft_schedule_chunks(s) * weft_schedule_microbatches(s);
    uint64_t all = stages * slots, idle = all - busy;
    printf("%" PRIu32 " slots, bubble %.2f %% (%" PRIu64 " of %" PRIu64 " slots idle)", slots,
           all ? 100.0 * (double)idle / (double)all : 0.0, idle, all);
    if (!is_split(s)) {
        bool same = idle * (steps + stages - 1) == (stages - 1) * all;
        printf("%s(p-1)/(v*m+p-1) = %" PRIu64 "/%" PRIu64, same ? " = " : "; the least for these sizes is ", stages - 1,
               steps + stages - 1);
    }
    putchar('\n');
}

/* The widest of what stands in a column. */
static int column_width(const weft_schedule *s, uint32_t slots)
{
    int width = 1 + digits(weft_schedule_microbatches(s) - 1);
    if (weft_schedule_chunks(s) > 1)
        width += 1 + digits(weft_schedule_chunks(s) - 1);
    return digits(slots) > width ? digits(slots) : width;
}

static void print_times(const weft_schedule *s, const weft_action_time *times, uint32_t slots)
{
    uint32_t stages = weft_schedule_stages(s);
    int width = column_width(s, slots);
    printf("slot %*s", digits(stages - 1) + 1, "");
    for (uint32_t slot = 0; slot < slots; slot++)
        printf(" %*" PRIu32, width, slot);
    putchar('\n');
    uint64_t busy = 0;
    for (uint32_t stage = 0; stage < stages; stage++) {
        size_t count;
        weft_schedule_actions(s, stage, &count);
        print_stage(s, stage, times, slots, width);
        for (size_t i = 0; i < count; i++)
            busy += times[i].end - times[i].begin;
        times += count;
    }
    print_bubble(s, busy, slots);
}

weft_result table_print_times(const weft_schedule *s, const weft_times_config *config)
{
    uint32_t slots = 0;
    size_t total = 0, count;
    for (uint32_t stage = 0; stage < weft_schedule_stages(s); stage++, total += count)
        weft_schedule_actions(s, stage, &count);
    weft_action_time *times = calloc(total + 1, sizeof *times);
    weft_result result = times ? weft_schedule_times(s, config, times, total, &slots) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        print_times(s, times, slots);
    free(times);
    return result;
}

void table_print_needs(const weft_schedule *s, const weft_stage_needs *needs)
{
    printf("%-9s %11s | %6s %6s %6s %6s | %8s %13s\n", "", "activations", "RECV_F", "RECV_B", "SEND_F", "SEND_B", "",
           "largest batch");
    printf("%-9s %11s | %27s | %8s %13s\n", "", "at most", "buffers", "messages", "of messages");
    for (uint32_t stage = 0; stage < weft_schedule_stages(s); stage++) {
        const weft_stage_needs *n = &needs[stage];
        size_t count, messages = 0;
        const weft_action *at = weft_schedule_actions(s, stage, &count);
        for (size_t i = 0; i < count; i++)
            messages += weft_action_is_message(at[i].kind) ? 1 : 0;
        printf("stage %-3" PRIu32 " %11" PRIu32 " | %6" PRIu32 " %6" PRIu32 " %6" PRIu32 " %6" PRIu32
               " | %8zu %13" PRIu32 "\n",
               stage, n->activations, n->receives[0], n->receives[1], n->sends[0], n->sends[1], messages,
               n->batch_messages);
    }
}
