/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of every stage, and queries on them. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "policy.h"

/* Forwards of all stages: keeps every number of actions far below 2^32. */
#define FORWARDS_MAX (1u << 22)

weft_result weft__schedule_new(uint32_t stages, uint32_t chunks, uint32_t microbatches, weft_schedule **out)
{
    *out = NULL;
    if (stages == 0 || microbatches == 0 || chunks == 0)
        return weft__fail(WEFT_E_INVALID, "a schedule of %u stages, %u chunks and %u microbatches has nothing to do",
                          stages, chunks, microbatches);
    if (stages > FORWARDS_MAX || (uint64_t)chunks * microbatches > FORWARDS_MAX / stages)
        return weft__fail(WEFT_E_RANGE, "%u stages with %u chunks and %u microbatches are more than %u forwards",
                          stages, chunks, microbatches, FORWARDS_MAX);
    weft_schedule *s = weft__alloc(sizeof *s);
    weft__actions *lists = s ? weft__alloc(stages * sizeof *lists) : NULL;
    if (!lists) {
        free(s);
        return WEFT_E_NO_MEMORY;
    }
    *s = (weft_schedule){stages, chunks, microbatches, lists};
    *out = s;
    return WEFT_OK;
}

void weft_schedule_destroy(weft_schedule *schedule)
{
    if (!schedule)
        return;
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        free(schedule->lists[stage].at);
    free(schedule->lists);
    free(schedule);
}

weft_result weft__actions_reserve(weft__actions *list, size_t room)
{
    if (room <= list->room)
        return WEFT_OK;
    if (room > SIZE_MAX / sizeof *list->at)
        return weft__fail(WEFT_E_NO_MEMORY, "no memory for %zu actions", room);
    weft_action *grown = weft__alloc(room * sizeof *grown);
    if (!grown)
        return WEFT_E_NO_MEMORY;
    if (list->count)
        memcpy(grown, list->at, list->count * sizeof *grown);
    free(list->at);
    list->at = grown;
    list->room = room;
    return WEFT_OK;
}

size_t weft__schedule_total(const weft_schedule *s)
{
    size_t total = 0;
    for (uint32_t stage = 0; stage < s->stages; stage++)
        total += s->lists[stage].count;
    return total;
}

static weft_result check_action(const weft_schedule *s, uint32_t stage, const weft_action *a)
{
    if ((unsigned)a->kind >= WEFT_ACTION_KINDS)
        return weft__fail(WEFT_E_INVALID, "stage %u: there is no action of kind %d", stage, (int)a->kind);
    if (stage >= s->stages)
        return weft__fail(WEFT_E_RANGE, "there is no stage %u (of %u)", stage, s->stages);
    if (a->chunk >= s->chunks)
        return weft__fail(WEFT_E_RANGE, "stage %u: %s has chunk %u of %u", stage, weft_action_string(a->kind), a->chunk,
                          s->chunks);
    if (a->kind != WEFT_ACTION_SYNC && a->microbatch >= s->microbatches)
        return weft__fail(WEFT_E_RANGE, "stage %u: %s has microbatch %u of %u", stage, weft_action_string(a->kind),
                          a->microbatch, s->microbatches);
    return WEFT_OK;
}

weft_result weft_schedule_append(weft_schedule *schedule, uint32_t stage, const weft_action *action)
{
    if (!schedule || !action)
        return weft__fail(WEFT_E_INVALID, "an action is appended to %s", schedule ? "a schedule: NULL" : "NULL");
    WEFT_TRY(check_action(schedule, stage, action));
    weft_action a = {.kind = action->kind, .chunk = action->chunk, .peer = WEFT_PEER_NONE, .buffer = WEFT_BUFFER_NONE};
    if (a.kind != WEFT_ACTION_SYNC)
        a.microbatch = action->microbatch;
    if (weft__kinds[a.kind].message) {
        a.batch = action->batch;
        a.buffer = action->buffer;
        a.peer = action->peer;
        if (a.peer == WEFT_PEER_NONE)
            a.peer = weft_schedule_peer(schedule, a.kind, stage, a.chunk);
        if (a.peer == WEFT_PEER_NONE)
            return weft__fail(WEFT_E_INVALID, "stage %u: %s %u.%u has no other end: this is the %s part of the model",
                              stage, weft_action_string(a.kind), a.microbatch, a.chunk,
                              weft__kinds[a.kind].forward ? "last" : "first");
        if (a.peer >= schedule->stages)
            return weft__fail(WEFT_E_RANGE, "stage %u: %s %u.%u has peer %u of %u stages", stage,
                              weft_action_string(a.kind), a.microbatch, a.chunk, a.peer, schedule->stages);
    }
    weft__actions *list = &schedule->lists[stage];
    if (list->count == UINT32_MAX)
        return weft__fail(WEFT_E_RANGE, "stage %u has %zu actions already", stage, list->count);
    if (list->count == list->room)
        WEFT_TRY(weft__actions_reserve(list, list->room ? 2 * list->room : 64));
    list->at[list->count++] = a;
    return WEFT_OK;
}

uint32_t weft_schedule_stages(const weft_schedule *schedule)
{
    return schedule->stages;
}

uint32_t weft_schedule_chunks(const weft_schedule *schedule)
{
    return schedule->chunks;
}

uint32_t weft_schedule_microbatches(const weft_schedule *schedule)
{
    return schedule->microbatches;
}

const weft_action *weft_schedule_actions(const weft_schedule *schedule, uint32_t stage, size_t *count_out)
{
    bool exists = stage < schedule->stages;
    *count_out = exists ? schedule->lists[stage].count : 0;
    return exists ? schedule->lists[stage].at : NULL;
}

uint32_t weft_schedule_peer(const weft_schedule *schedule, weft_action_kind kind, uint32_t stage, uint32_t chunk)
{
    weft__part other;
    if (!weft_action_is_message(kind) || stage >= schedule->stages || chunk >= schedule->chunks ||
        !weft__neighbour(schedule, (weft__part){stage, chunk}, weft__kinds[kind].forward, &other))
        return WEFT_PEER_NONE;
    return other.stage;
}

weft_result weft__index_create(const weft_schedule *s, weft__index *out)
{
    size_t parts = (size_t)s->stages * s->chunks;
    uint32_t *at = weft__alloc(WEFT_ACTION_SYNC * parts * s->microbatches * sizeof *at);
    if (!at)
        return WEFT_E_NO_MEMORY;
    *out = (weft__index){at, s->stages, s->chunks, s->microbatches};
    for (uint32_t stage = 0; stage < s->stages; stage++)
        for (size_t i = 0; i < s->lists[stage].count; i++) {
            const weft_action *a = &s->lists[stage].at[i];
            if (a->kind == WEFT_ACTION_SYNC)
                continue;
            uint32_t *entry = weft__index_at(out, a->kind, (weft__part){stage, a->chunk}, a->microbatch);
            if (*entry) {
                weft_result result = weft__fail(WEFT_E_INVALID, "%s repeats action %u (%s)",
                                                weft__locate(s, stage, i).text, *entry - 1, weft__describe(a).text);
                free(at);
                *out = (weft__index){0};
                return result;
            }
            *entry = (uint32_t)i + 1;
        }
    return WEFT_OK;
}
