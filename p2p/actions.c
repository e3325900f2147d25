/* SPDX-License-Identifier: Apache-2.0 */
/* What an action is: the facts of its kind, its name in messages, and what it begins and ends for its microbatch. */
#include <stdio.h>
#include <string.h>

#include "schedule.h"

const weft__kind weft__kinds[] = {
    [WEFT_ACTION_F] = {.name = "F"},
    [WEFT_ACTION_B] = {.name = "B"},
    [WEFT_ACTION_W] = {.name = "W"},
    [WEFT_ACTION_SEND_F] = {"SEND_F", true, true, true, 0, WEFT_ACTION_F, WEFT_ACTION_RECV_F},
    [WEFT_ACTION_RECV_F] = {"RECV_F", true, false, false, 0, WEFT_ACTION_F, WEFT_ACTION_SEND_F},
    [WEFT_ACTION_SEND_B] = {"SEND_B", true, true, false, 1, WEFT_ACTION_B, WEFT_ACTION_RECV_B},
    [WEFT_ACTION_RECV_B] = {"RECV_B", true, false, true, 1, WEFT_ACTION_B, WEFT_ACTION_SEND_B},
    [WEFT_ACTION_SYNC] = {.name = "SYNC"},
};

_Static_assert(sizeof weft__kinds / sizeof *weft__kinds == WEFT_ACTION_KINDS, "each kind of action has a row");

static bool is_kind(weft_action_kind kind)
{
    return (unsigned)kind < WEFT_ACTION_KINDS;
}

const char *weft_action_string(weft_action_kind kind)
{
    return is_kind(kind) ? weft__kinds[kind].name : "?";
}

int weft_action_is_message(weft_action_kind kind)
{
    return is_kind(kind) && weft__kinds[kind].message;
}

uint32_t weft_action_channel(weft_action_kind kind)
{
    return is_kind(kind) ? weft__kinds[kind].channel : 0;
}

static void describe(const weft_action *a, char *text, size_t bytes)
{
    const weft__kind *kind = &weft__kinds[a->kind];
    if (a->kind == WEFT_ACTION_SYNC)
        snprintf(text, bytes, "SYNC of chunk %u", a->chunk);
    else if (kind->message)
        snprintf(text, bytes, "%s %u.%u %s stage %u", kind->name, a->microbatch, a->chunk, kind->send ? "to" : "from",
                 a->peer);
    else
        snprintf(text, bytes, "%s %u.%u", kind->name, a->microbatch, a->chunk);
}

weft__name weft__describe(const weft_action *action)
{
    weft__name out;
    describe(action, out.text, sizeof out.text);
    return out;
}

weft__name weft__locate(const weft_schedule *s, uint32_t stage, size_t position)
{
    weft__name out;
    size_t n = (size_t)snprintf(out.text, sizeof out.text, "stage %u action %zu (", stage, position);
    describe(&s->lists[stage].at[position], out.text + n, sizeof out.text - n - 1);
    strcat(out.text, ")");
    return out;
}

/* ---- of its microbatch ---- */

static bool exists(const weft__index *x, weft_action_kind kind, uint32_t stage, const weft_action *a)
{
    return weft__index_find(x, kind, (weft__part){stage, a->chunk}, a->microbatch) != 0;
}

bool weft__is_last(const weft__index *index, uint32_t stage, const weft_action *a)
{
    static const weft_action_kind after[] = {WEFT_ACTION_B, WEFT_ACTION_W};
    return weft__computes(a->kind) && (a->kind == WEFT_ACTION_W || !exists(index, after[a->kind], stage, a));
}

static unsigned present(const weft__index *x, weft_action_kind kind, uint32_t stage, const weft_action *a)
{
    return exists(x, kind, stage, a) ? 1u << kind : 0;
}

unsigned weft__buffers_begin(const weft__index *index, uint32_t stage, const weft_action *a)
{
    switch (a->kind) {
    case WEFT_ACTION_F:
        return present(index, WEFT_ACTION_SEND_F, stage, a);
    case WEFT_ACTION_B:
        return present(index, WEFT_ACTION_SEND_B, stage, a);
    case WEFT_ACTION_RECV_F:
    case WEFT_ACTION_RECV_B:
        return 1u << a->kind;
    default:
        return 0;
    }
}

unsigned weft__buffers_end(const weft__index *index, uint32_t stage, const weft_action *a)
{
    if (weft__kinds[a->kind].send)
        return 1u << a->kind;
    if (!weft__is_last(index, stage, a))
        return 0;
    return present(index, WEFT_ACTION_RECV_F, stage, a) | present(index, WEFT_ACTION_RECV_B, stage, a);
}
