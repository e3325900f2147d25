/* SPDX-License-Identifier: Apache-2.0 */
/* Prints schedules: a line a stage, a column a slot of time. */
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

static void print_stage(const weft_schedule *s, uint32_t stage, const uint32_t *begin, uint32_t slots, int width)
{
    size_t count;
    const weft_action *at = weft_schedule_actions(s, stage, &count);
    uint32_t slot = 0;
    printf("stage %-*" PRIu32, digits(weft_schedule_stages(s) - 1), stage);
    for (size_t i = 0; i < count; i++) {
        if (!computes(&at[i]))
            continue;
        for (; slot < begin[i]; slot++)
            printf(" %*s", width, ".");
        print_cell(&at[i], weft_schedule_chunks(s), width);
        slot++;
    }
    for (; slot < slots; slot++)
        printf(" %*s", width, ".");
    putchar('\n');
}

/* Idle time as counted, and as the closed form for even slots has it where that is something else. */
static void print_bubble(const weft_schedule *s, uint64_t busy, uint32_t slots)
{
    uint64_t stages = weft_schedule_stages(s);
    uint64_t steps = (uint64_t)weft_schedule_chunks(s) * weft_schedule_microbatches(s);
    uint64_t all = stages * slots, idle = all - busy;
    printf("%" PRIu32 " slots, bubble %.2f %% (%" PRIu64 " of %" PRIu64 " slots idle)", slots,
           all ? 100.0 * (double)idle / (double)all : 0.0, idle, all);
    bool same = idle * (steps + stages - 1) == (stages - 1) * all;
    printf(same ? " = (p-1)/(v*m+p-1) = %" PRIu64 "/%" PRIu64 "\n"
                : "; the least for these sizes is (p-1)/(v*m+p-1) = %" PRIu64 "/%" PRIu64 "\n",
           stages - 1, steps + stages - 1);
}

weft_result table_print_times(const weft_schedule *s)
{
    uint32_t stages = weft_schedule_stages(s), slots = 0;
    size_t total = 0, count;
    for (uint32_t stage = 0; stage < stages; stage++, total += count)
        weft_schedule_actions(s, stage, &count);
    uint32_t *begin = calloc(total + 1, sizeof *begin);
    weft_result result = begin ? weft_schedule_times(s, begin, total, &slots) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK) {
        int width = 1 + digits(weft_schedule_microbatches(s) - 1);
        if (weft_schedule_chunks(s) > 1)
            width += 1 + digits(weft_schedule_chunks(s) - 1);
        width = digits(slots) > width ? digits(slots) : width;
        printf("slot %*s", digits(stages - 1) + 1, "");
        for (uint32_t slot = 0; slot < slots; slot++)
            printf(" %*" PRIu32, width, slot);
        putchar('\n');
        uint64_t busy = 0;
        const uint32_t *at = begin;
        for (uint32_t stage = 0; stage < stages; stage++, at += count) {
            const weft_action *list = weft_schedule_actions(s, stage, &count);
            print_stage(s, stage, at, slots, width);
            for (size_t i = 0; i < count; i++)
                busy += computes(&list[i]);
        }
        print_bubble(s, busy, slots);
    }
    free(begin);
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
