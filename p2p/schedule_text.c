/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as text and as CSV, out and in. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

/* ---- out ---- */

typedef struct sink {
    char *text;
    size_t bytes, used;
} sink;

static void put(sink *out, const char *format, ...) WEFT_PRINTF(2, 3);
static void put(sink *out, const char *format, ...)
{
    size_t left = out->used < out->bytes ? out->bytes - out->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(left ? out->text + out->used : NULL, left, format, arguments);
    va_end(arguments);
    out->used += n > 0 ? (size_t)n : 0;
}

/* Is the message at @p i in one batch with the one before it? */
static bool follows(const weft__actions *list, size_t i)
{
    return i < list->count && !weft__begins_batch(list, i);
}

static void put_text(sink *out, const weft__actions *list, uint32_t stage)
{
    put(out, "stage %" PRIu32 ":", stage);
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        const weft__kind *kind = &weft__kinds[a->kind];
        put(out, " %s%s", a->batch && !follows(list, i) ? "[" : "", kind->name);
        if (a->kind != WEFT_ACTION_SYNC)
            put(out, "%" PRIu32, a->microbatch);
        put(out, ".%" PRIu32, a->chunk);
        if (kind->message)
            put(out, "%c%" PRIu32, kind->send ? '>' : '<', a->peer);
        if (a->buffer != WEFT_BUFFER_NONE)
            put(out, "#%" PRIu32, a->buffer);
        if (a->batch && !follows(list, i + 1))
            put(out, "]");
    }
    put(out, "\n");
}

static void put_csv(sink *out, const weft__actions *list, uint32_t stage)
{
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        put(out, "%" PRIu32 ",%s,", stage, weft__kinds[a->kind].name);
        if (a->kind != WEFT_ACTION_SYNC)
            put(out, "%" PRIu32, a->microbatch);
        put(out, ",%" PRIu32 ",", a->chunk);
        if (weft__kinds[a->kind].message)
            put(out, "%" PRIu32 ",%" PRIu32 ",", a->peer, a->batch);
        else
            put(out, ",,");
        if (a->buffer != WEFT_BUFFER_NONE)
            put(out, "%" PRIu32, a->buffer);
        put(out, "\n");
    }
}

size_t weft_schedule_write(const weft_schedule *schedule, weft_schedule_format format, char *text, size_t bytes)
{
    sink out = {.text = text, .bytes = text ? bytes : 0};
    if (format == WEFT_SCHEDULE_CSV)
        put(&out, "stage,action,microbatch,chunk,peer,batch,buffer\n");
    else
        put(&out, "# %" PRIu32 " stages, %" PRIu32 " chunks a stage, %" PRIu32 " microbatches\n", schedule->stages,
            schedule->chunks, schedule->microbatches);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        (format == WEFT_SCHEDULE_CSV ? put_csv : put_text)(&out, &schedule->lists[stage], stage);
    return out.used;
}

/* ---- in ---- */

typedef struct row {
    size_t line;
    uint32_t stage;
    weft_action action;
} row;

typedef struct reader {
    const char *at, *end; /* what is left of the line, without spaces around it */
    size_t line;
    row *rows;
    size_t count, room;
} reader;

static weft_result wrong(const reader *r, const char *what)
{
    int n = r->end - r->at > 40 ? 40 : (int)(r->end - r->at);
    return weft__fail(WEFT_E_INVALID, "schedule line %zu: %s at '%.*s'", r->line, what, n, r->at);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_spaces(reader *r)
{
    while (r->at < r->end && is_space(*r->at))
        r->at++;
}

/* Does the line go on with this character? If so, pass it. */
static bool take(reader *r, char c)
{
    bool there = r->at < r->end && *r->at == c;
    r->at += there;
    return there;
}

static bool at_digit(const reader *r)
{
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static weft_result take_number(reader *r, uint32_t *out)
{
    reader start = *r;
    uint64_t number = 0;
    if (!at_digit(r))
        return wrong(r, "no number");
    for (; at_digit(r); r->at++) {
        number = 10 * number + (uint64_t)(*r->at - '0');
        if (number >= UINT32_MAX)
            return wrong(&start, "a number that is too large");
    }
    *out = (uint32_t)number;
    return WEFT_OK;
}

static weft_result take_kind(reader *r, weft_action_kind *out)
{
    const char *end = r->at;
    while (end < r->end && ((*end >= 'A' && *end <= 'Z') || *end == '_'))
        end++;
    size_t length = (size_t)(end - r->at);
    for (int kind = 0; kind < WEFT_ACTION_KINDS; kind++)
        if (strlen(weft__kinds[kind].name) == length && memcmp(weft__kinds[kind].name, r->at, length) == 0) {
            *out = (weft_action_kind)kind;
            r->at = end;
            return WEFT_OK;
        }
    return wrong(r, "no action (F, B, W, SEND_F, RECV_F, SEND_B, RECV_B, SYNC)");
}

static weft_result add_row(reader *r, uint32_t stage, const weft_action *action)
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        row *grown = room <= SIZE_MAX / sizeof *grown ? weft__alloc(room * sizeof *grown) : NULL;
        if (!grown)
            return WEFT_E_NO_MEMORY;
        if (r->count)
            memcpy(grown, r->rows, r->count * sizeof *grown);
        free(r->rows);
        r->rows = grown;
        r->room = room;
    }
    r->rows[r->count++] = (row){r->line, stage, *action};
    return WEFT_OK;
}

static const weft_action no_action = {.peer = WEFT_PEER_NONE, .buffer = WEFT_BUFFER_NONE};

static weft_result take_action(reader *r, weft_action *a)
{
    WEFT_TRY(take_kind(r, &a->kind));
    if (a->kind != WEFT_ACTION_SYNC)
        WEFT_TRY(take_number(r, &a->microbatch));
    if (!take(r, '.'))
        return wrong(r, "no '.' before the chunk");
    WEFT_TRY(take_number(r, &a->chunk));
    if (take(r, weft__kinds[a->kind].send ? '>' : '<'))
        WEFT_TRY(take_number(r, &a->peer));
    if (take(r, '#'))
        WEFT_TRY(take_number(r, &a->buffer));
    return WEFT_OK;
}

/* "stage 0: F0.0 [SEND_F0.0>1#0 RECV_B0.0<1#0] B0.0 SYNC.0" */
static weft_result read_text_line(reader *r)
{
    static const char word[] = "stage";
    uint32_t stage = 0, batches = 0;
    bool inside = false;
    if (r->end - r->at < (ptrdiff_t)strlen(word) || memcmp(r->at, word, strlen(word)) != 0)
        return wrong(r, "no 'stage N:'");
    r->at += strlen(word);
    skip_spaces(r);
    WEFT_TRY(take_number(r, &stage));
    if (!take(r, ':'))
        return wrong(r, "no ':' behind the stage");
    for (skip_spaces(r); r->at < r->end; skip_spaces(r)) {
        weft_action a = no_action;
        if (!inside && take(r, '[')) {
            inside = true;
            batches++;
            skip_spaces(r);
        }
        WEFT_TRY(take_action(r, &a));
        if (inside && !weft__kinds[a.kind].message)
            return wrong(r, "something other than a message in a batch");
        a.batch = inside ? batches : 0;
        WEFT_TRY(add_row(r, stage, &a));
        skip_spaces(r);
        if (inside && take(r, ']'))
            inside = false;
    }
    return inside ? wrong(r, "no ']'") : WEFT_OK;
}

/* The columns of CSV. */
enum { STAGE, ACTION, MICROBATCH, CHUNK, PEER, BATCH, BUFFER, COLUMNS };
static const char *const column_names[COLUMNS] = {"stage", "action", "microbatch", "chunk", "peer", "batch", "buffer"};

typedef struct columns {
    int of[16]; /* which column stands where */
    int count;
} columns;

static weft_result read_header(reader *r, columns *c)
{
    unsigned seen = 0;
    for (bool more = true; more; more = take(r, ',')) {
        skip_spaces(r);
        const char *end = r->at;
        while (end < r->end && *end != ',' && !is_space(*end))
            end++;
        int column = 0;
        while (column < COLUMNS && (strlen(column_names[column]) != (size_t)(end - r->at) ||
                                    memcmp(column_names[column], r->at, (size_t)(end - r->at)) != 0))
            column++;
        if (column == COLUMNS || seen >> column & 1)
            return wrong(r, "no column (stage,action,microbatch,chunk,peer,batch,buffer), or one that was there");
        seen |= 1u << column;
        c->of[c->count++] = column;
        r->at = end;
        skip_spaces(r);
    }
    if (r->at < r->end)
        return wrong(r, "no ','");
    for (int column = STAGE; column <= MICROBATCH; column++)
        if (!(seen >> column & 1))
            return weft__fail(WEFT_E_INVALID, "schedule line %zu: the columns lack '%s'", r->line,
                              column_names[column]);
    return WEFT_OK;
}

static weft_result read_csv_line(reader *r, const columns *c)
{
    const char *line = r->at;
    weft_action a = no_action;
    uint32_t stage = UINT32_MAX, microbatch = UINT32_MAX;
    uint32_t *const values[COLUMNS] = {[STAGE] = &stage, [MICROBATCH] = &microbatch, [CHUNK] = &a.chunk,
                                       [PEER] = &a.peer, [BATCH] = &a.batch,         [BUFFER] = &a.buffer};
    bool has_kind = false;
    for (int i = 0; i < c->count; i++) {
        if (i > 0 && !take(r, ','))
            break; /* the rest is empty */
        skip_spaces(r);
        if (c->of[i] == ACTION) {
            WEFT_TRY(take_kind(r, &a.kind));
            has_kind = true;
        } else if (r->at < r->end && *r->at != ',') {
            WEFT_TRY(take_number(r, values[c->of[i]]));
        }
        skip_spaces(r);
    }
    if (r->at < r->end)
        return wrong(r, "more than the columns");
    if (!has_kind || stage == UINT32_MAX || (microbatch == UINT32_MAX && a.kind != WEFT_ACTION_SYNC))
        return weft__fail(WEFT_E_INVALID, "schedule line %zu: stage, action or microbatch is missing in '%.*s'",
                          r->line, (int)(r->end - line), line);
    a.microbatch = a.kind == WEFT_ACTION_SYNC ? 0 : microbatch;
    return add_row(r, stage, &a);
}

/* All lines into rows. */
static weft_result read_rows(reader *r, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    columns c = {.count = 0};
    bool is_csv = false, begun = false;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* what spreadsheets put before the first line */
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        r->at = text;
        r->end = stop ? stop : end;
        r->line++;
        text = stop ? stop + 1 : end;
        skip_spaces(r);
        while (r->end > r->at && is_space(r->end[-1]))
            r->end--;
        if (r->at == r->end || *r->at == '#')
            continue;
        if (!begun && memchr(r->at, ',', (size_t)(r->end - r->at))) {
            is_csv = true;
            WEFT_TRY(read_header(r, &c));
        } else {
            WEFT_TRY(is_csv ? read_csv_line(r, &c) : read_text_line(r));
        }
        begun = true;
    }
    return r->count ? WEFT_OK : weft__fail(WEFT_E_INVALID, "the schedule has no actions");
}

static weft_result build(const reader *r, weft_schedule **out)
{
    uint32_t stages = 0, chunks = 0, microbatches = 0;
    for (const row *w = r->rows; w < r->rows + r->count; w++) {
        stages = w->stage >= stages ? w->stage + 1 : stages;
        chunks = w->action.chunk >= chunks ? w->action.chunk + 1 : chunks;
        microbatches = w->action.microbatch >= microbatches ? w->action.microbatch + 1 : microbatches;
    }
    WEFT_TRY(weft__schedule_new(stages, chunks, microbatches, out));
    for (const row *w = r->rows; w < r->rows + r->count; w++) {
        const weft_action *a = &w->action;
        bool message = weft__kinds[a->kind].message;
        uint32_t peer = a->peer == WEFT_PEER_NONE ? weft_schedule_peer(*out, a->kind, w->stage, a->chunk) : a->peer;
        if (message && peer >= stages)
            return weft__fail(WEFT_E_INVALID,
                              "schedule line %zu: %s of chunk %u on stage %u has no stage at its other end", w->line,
                              weft_action_string(a->kind), a->chunk, w->stage);
        WEFT_TRY(weft_schedule_append(*out, w->stage, a));
    }
    return WEFT_OK;
}

weft_result weft_schedule_read(const char *text, size_t bytes, weft_schedule **schedule_out)
{
    if (!text || !schedule_out)
        return weft__fail(WEFT_E_INVALID, "a schedule is read from text and needs somewhere to be returned to");
    *schedule_out = NULL;
    reader r = {0};
    weft_result result = read_rows(&r, text, bytes);
    if (result == WEFT_OK)
        result = build(&r, schedule_out);
    free(r.rows);
    if (result < 0) {
        weft_schedule_destroy(*schedule_out);
        *schedule_out = NULL;
    }
    return result;
}
