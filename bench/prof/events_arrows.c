/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows: from where an operation was started over the operation to where it was finished; from a message's sender to
 * its receiver; from the rank that came last to an operation to those that waited. An arrow is drawn where each of its
 * points lies within a slice, which viewers want, and its points do not go back in time. */
#include <stdlib.h>
#include <weft/p2p.h>

#include "prof/events.h"

enum { LATE_SHARE = 10 }; /* percent of an operation that was waiting for the last rank, for an arrow */

typedef struct point {
    int rank, thread; /* thread 0: none */
    int64_t at;
} point;

static void put_point(events *e, char phase, const char *name, const char *category, const point *p)
{
    events_open(e, phase, name, p->rank, p->thread, p->at);
    json_put_text(&e->json, "cat", category);
    json_put_whole(&e->json, "id", (int64_t)e->arrows);
    if (phase == 'f')
        json_put_text(&e->json, "bp", "e"); /* ends in the slice around it, not in the next */
    events_close(e);
}

/* Through the points that there are, of @p count. */
static void put_arrow(events *e, const char *name, const char *category, const point *points, int count)
{
    const point *there[3];
    int found = 0;
    for (int i = 0; i < count; i++)
        if (points[i].thread && (!found || points[i].at >= there[found - 1]->at))
            there[found++] = &points[i];
    if (found < 2)
        return;
    e->arrows++;
    for (int i = 0; i < found; i++)
        put_point(e, i == 0 ? 's' : i < found - 1 ? 't' : 'f', name, category, there[i]);
}

/* ---- from start to finish ---- */

/* A moment of the trainer's computing, if it is one. */
static point in_computing(const events *e, int rank, int64_t at)
{
    bool there = at != PROF_UNKNOWN && intervals_within(&e->ranks[rank].computing, at, at + 1) == 1;
    return (point){rank, there ? EVENTS_COMPUTING : 0, at};
}

/* A moment of an operation, if it is under way then. */
static point in_operation(const events *e, int rank, size_t record, int64_t at)
{
    int64_t begin, end;
    bool there = prof_under_way(e->split, rank, record, &begin, &end) && at >= begin && at < end;
    return (point){rank, there ? e->ranks[rank].places[record].operation : 0, at};
}

static int64_t begin_of(const events *e, int rank, size_t record)
{
    int64_t begin, end;
    return prof_under_way(e->split, rank, record, &begin, &end) ? begin : PROF_UNKNOWN;
}

static void from_start_to_finish(events *e, int rank, size_t record)
{
    const prof_record *r = &e->run->ranks[rank].records[record];
    int64_t begin = begin_of(e, rank, record);
    point points[] = {in_computing(e, rank, r->ready), in_operation(e, rank, record, begin),
                      in_computing(e, rank, r->wait)};
    if (e->ranks[rank].places[record].wait) /* who waits before it was taken up is pointed at when it is */
        points[2] = (point){rank, e->ranks[rank].places[record].wait, r->wait > begin ? r->wait : begin};
    if (points[1].thread)
        put_arrow(e, prof_record_name(r), "operation", points, 3);
}

/* ---- between ranks ---- */

/* The batch that a message is of. */
static size_t batch_of(const prof_rank *rank, size_t message)
{
    while (message > 0 && rank->records[message].kind == WEFT_TRACE_MESSAGE)
        message--;
    return message;
}

static void from_sender_to_receiver(events *e, int rank, size_t message)
{
    const prof_record *r = &e->run->ranks[rank].records[message];
    if (r->operation != WEFT_SEND || r->peer < 0)
        return;
    size_t from = batch_of(&e->run->ranks[rank], message), to = batch_of(&e->run->ranks[r->peer], r->peer_record);
    int64_t sent = begin_of(e, rank, from), received = begin_of(e, r->peer, to);
    point points[] = {in_operation(e, rank, from, sent),
                      in_operation(e, r->peer, to, received > sent ? received : sent)};
    put_arrow(e, "message", "message", points, 2);
}

/* From where the rank that came last took it up, to those that had waited for that. */
static void from_late_to_waiting(events *e, const prof_group *group)
{
    const prof_part *parts = &e->run->parts[group->first], *last = NULL;
    int late = e->split->ranks[parts->rank].operations[parts->record].late;
    for (const prof_part *p = parts; p < parts + group->count; p++)
        last = p->rank == late ? p : last;
    if (!last)
        return;
    point from = in_operation(e, last->rank, last->record, begin_of(e, last->rank, last->record));
    for (const prof_part *p = parts; p < parts + group->count; p++) {
        const prof_operation *o = &e->split->ranks[p->rank].operations[p->record];
        point points[] = {from, in_operation(e, p->rank, p->record, from.at)};
        if (p != last && o->skew * 100 >= (o->end - o->begin) * LATE_SHARE)
            put_arrow(e, "came last", "late", points, 2);
    }
}

void events_arrows(events *e)
{
    for (int rank = 0; rank < e->run->count; rank++)
        for (size_t i = 0; i < e->run->ranks[rank].count; i++) {
            const prof_record *r = &e->run->ranks[rank].records[i];
            if (prof_is_operation(r))
                from_start_to_finish(e, rank, i);
            else if (r->kind == WEFT_TRACE_MESSAGE)
                from_sender_to_receiver(e, rank, i);
        }
    for (size_t i = 0; i < e->run->group_count; i++)
        if (e->run->groups[i].count > 1)
            from_late_to_waiting(e, &e->run->groups[i]);
}
