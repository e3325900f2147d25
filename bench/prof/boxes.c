/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the boxes of a row, and joins them. */
#include "prof/boxes.h"

#include <stdlib.h>
#include <weft/collective.h>

#include "prof/lanes.h"

int timeline_box_most(const timeline_box *box)
{
    int most = 0;
    for (int i = 1; i < PROF_STATES; i++)
        most = box->of[i] > box->of[most] ? i : most;
    return most;
}

static int look_of(const prof_record *r)
{
    static const int looks[] = {
        [WEFT_ALL_REDUCE] = BOXES_REDUCE, [WEFT_REDUCE_SCATTER] = BOXES_REDUCE, [WEFT_REDUCE] = BOXES_REDUCE,
        [WEFT_ALL_GATHER] = BOXES_GATHER, [WEFT_BROADCAST] = BOXES_GATHER,      [WEFT_ALL_TO_ALL] = BOXES_OTHER,
        [WEFT_BARRIER] = BOXES_OTHER,
    };
    _Static_assert(sizeof looks / sizeof *looks == WEFT_COLLECTIVE_KINDS, "each collective has a row");
    if (r->kind == WEFT_TRACE_P2P)
        return BOXES_MESSAGE;
    return r->kind == WEFT_TRACE_COLLECTIVE && r->operation < WEFT_COLLECTIVE_KINDS ? looks[r->operation] : BOXES_OTHER;
}

/* ---- making ---- */

typedef struct window {
    int64_t begin, end;
} window;

static timeline_box *add(timeline_boxes *to, window w, int64_t begin, int64_t end, size_t index, int look)
{
    begin = begin > w.begin ? begin : w.begin;
    end = end < w.end ? end : w.end;
    if (begin > end || begin == w.end)
        return NULL;
    timeline_box *box = &to->at[to->count++];
    *box = (timeline_box){.begin = begin, .end = end, .late = begin, .first = index, .last = index, .count = 1};
    box->of[look] = end - begin;
    return box;
}

static void add_record(timeline_row *row, const prof_split *split, int rank, size_t index, window w)
{
    const prof_record *r = &split->run->ranks[rank].records[index];
    int64_t begin, end;
    if (!prof_under_way(split, rank, index, &begin, &end) || end < w.begin)
        return;
    if (r->kind == WEFT_TRACE_SPAN) {
        (void)add(&row->spans, w, begin, end, index, BOXES_OTHER);
        return;
    }
    timeline_box *box = add(&row->operations, w, begin, end, index, look_of(r));
    int64_t arrival = split->ranks[rank].operations[index].arrival;
    if (box && arrival != PROF_UNKNOWN && arrival > box->begin)
        box->late = arrival < box->end ? arrival : box->end;
}

static int by_begin(const void *a, const void *b)
{
    const timeline_box *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* What finds no lane below the most there may be goes into the last. */
static bool place(timeline_boxes *boxes, int most)
{
    lanes l = {0};
    qsort(boxes->at, boxes->count, sizeof *boxes->at, by_begin);
    for (size_t i = 0; i < boxes->count; i++) {
        timeline_box *box = &boxes->at[i];
        box->lane = lanes_take(&l, box->begin, box->end);
        if (box->lane < 0)
            break;
        box->lane = box->lane < most ? box->lane : most - 1;
        boxes->lanes = box->lane + 1 > boxes->lanes ? box->lane + 1 : boxes->lanes;
    }
    bool done = boxes->count == 0 || l.ends;
    lanes_close(&l);
    return done;
}

/* Put the stretches into boxes, or if that is NULL only count them. */
static size_t take_states(timeline_boxes *to, const prof_split *split, int rank, window w)
{
    prof_walk walk = prof_walk_begin(&split->ranks[rank], w.begin, w.end);
    prof_stretch s;
    size_t count = 0;
    for (; prof_walk_next(&walk, &s); count++)
        if (to)
            (void)add(to, w, s.begin, s.end, count, s.state);
    return count;
}

static size_t count_records(const prof_split *split, int rank, window w)
{
    size_t count = 0;
    int64_t begin, end;
    for (size_t i = 0; i < split->run->ranks[rank].count; i++)
        count += prof_under_way(split, rank, i, &begin, &end) && begin < w.end && end >= w.begin;
    return count;
}

static bool make_room(timeline_boxes *boxes, size_t count)
{
    boxes->at = malloc((count + 1) * sizeof *boxes->at);
    return boxes->at != NULL;
}

bool timeline_row_open(timeline_row *row, const prof_split *split, int rank, int64_t begin, int64_t end, int lanes_most)
{
    window w = {begin, end};
    size_t records = count_records(split, rank, w);
    *row = (timeline_row){.states.lanes = 1};
    if (!make_room(&row->states, take_states(NULL, split, rank, w)) || !make_room(&row->spans, records) ||
        !make_room(&row->operations, records))
        return false;
    (void)take_states(&row->states, split, rank, w);
    for (size_t i = 0; i < split->run->ranks[rank].count; i++)
        add_record(row, split, rank, i, w);
    return place(&row->spans, lanes_most) && place(&row->operations, lanes_most);
}

void timeline_row_close(timeline_row *row)
{
    free(row->states.at);
    free(row->spans.at);
    free(row->operations.at);
    *row = (timeline_row){0};
}

/* ---- joining ---- */

static void join_one(timeline_box *to, const timeline_box *box)
{
    to->late = to->begin; /* each has its own */
    to->end = box->end > to->end ? box->end : to->end;
    to->last = box->last;
    to->count += box->count;
    for (int i = 0; i < PROF_STATES; i++)
        to->of[i] += box->of[i];
}

static void join(timeline_boxes *boxes, int64_t within)
{
    size_t kept = 0;
    size_t *last = calloc((size_t)boxes->lanes + 1, sizeof *last); /* by lane: the last kept + 1 */
    for (size_t i = 0; last && i < boxes->count; i++) {
        timeline_box *box = &boxes->at[i], *before = &boxes->at[last[box->lane] ? last[box->lane] - 1 : 0];
        if (last[box->lane] && box->end - before->begin <= within) {
            join_one(before, box);
            continue;
        }
        boxes->at[kept] = *box;
        last[box->lane] = ++kept;
    }
    boxes->count = last ? kept : boxes->count;
    free(last);
}

void timeline_row_join(timeline_row *row, int64_t within)
{
    join(&row->states, within);
    join(&row->spans, within);
    join(&row->operations, within);
}

size_t timeline_row_count(const timeline_row *row)
{
    return row->states.count + row->spans.count + row->operations.count;
}
