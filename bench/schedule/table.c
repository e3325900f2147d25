/* SPDX-License-Identifier: Apache-2.0 */
/* Prints schedules: a line a stage, a column a slot of time. A computation has its name in its first slot. */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>

static int digits(uint32_t largest)
{
    return snprintf(NULL, 0, "%" PRIu32, largest);
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
        if (!timeline_computes(&at[i]))
            continue;
        print_marks(times[i].begin - slot, width, ".");
        print_cell(&at[i], weft_schedule_chunks(s), width);
        print_marks(times[i].end - times[i].begin - 1, width, "-");
        slot = times[i].end;
    }
    print_marks(slots - slot, width, ".");
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

void table_print_times(const timeline *line)
{
    const weft_schedule *s = line->schedule;
    const weft_action_time *times = line->times;
    uint32_t stages = weft_schedule_stages(s);
    int width = column_width(s, line->slots);
    char bubble[160];
    printf("slot %*s", digits(stages - 1) + 1, "");
    for (uint32_t slot = 0; slot < line->slots; slot++)
        printf(" %*" PRIu32, width, slot);
    putchar('\n');
    for (uint32_t stage = 0; stage < stages; stage++) {
        size_t count;
        weft_schedule_actions(s, stage, &count);
        print_stage(s, stage, times, line->slots, width);
        times += count;
    }
    printf("%" PRIu32 " slots, %s\n", line->slots, timeline_bubble(line, bubble));
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
