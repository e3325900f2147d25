/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what belongs together on several ranks: the same collective by its comm and number, the two ends of a message
 * by comm, ranks, channel and number. */
#include <stdlib.h>
#include <string.h>

#include "prof/parts.h"
#include <weft/p2p.h>

/* ---- collectives ---- */

typedef struct one {
    int comm;
    uint64_t number;
    prof_part part;
} one;

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_collective(const void *a, const void *b)
{
    const one *x = a, *y = b;
    int order = compare((uint64_t)x->comm, (uint64_t)y->comm);
    order = order ? order : compare(x->number, y->number);
    order = order ? order : compare((uint64_t)x->part.rank, (uint64_t)y->part.rank);
    return order ? order : compare(x->part.record, y->part.record);
}

/* Can the record be found on other ranks? Of a comm of which only the name is known it cannot. */
static bool can_match(const prof_run *run, const prof_record *record, weft_trace_kind kind)
{
    return record->kind == kind && record->comm >= 0 && run->comms[record->comm].size > 0 && record->number > 0;
}

static size_t count_of(const prof_run *run, weft_trace_kind kind)
{
    size_t count = 0;
    for (const prof_rank *r = run->ranks; r < run->ranks + run->count; r++)
        for (size_t i = 0; i < r->count; i++)
            count += can_match(run, &r->records[i], kind);
    return count;
}

static void group(prof_run *run, const one *all)
{
    for (size_t i = 0; i < run->part_count; i++) {
        if (i == 0 || all[i].comm != all[i - 1].comm || all[i].number != all[i - 1].number)
            run->groups[run->group_count++] = (prof_group){.comm = all[i].comm, .number = all[i].number, .first = i};
        run->groups[run->group_count - 1].count++;
        run->parts[i] = all[i].part;
        run->ranks[all[i].part.rank].records[all[i].part.record].group = (int)run->group_count - 1;
    }
}

static bool match_collectives(prof_run *run)
{
    size_t count = count_of(run, WEFT_TRACE_COLLECTIVE);
    one *all = calloc(count + 1, sizeof *all);
    run->parts = calloc(count + 1, sizeof *run->parts);
    run->groups = calloc(count + 1, sizeof *run->groups);
    bool done = all && run->parts && run->groups;
    for (int r = 0; done && r < run->count; r++)
        for (size_t i = 0; i < run->ranks[r].count; i++) {
            const prof_record *record = &run->ranks[r].records[i];
            if (can_match(run, record, WEFT_TRACE_COLLECTIVE))
                all[run->part_count++] = (one){record->comm, record->number, {r, i}};
        }
    if (done) {
        qsort(all, run->part_count, sizeof *all, by_collective);
        group(run, all);
    }
    free(all);
    return done;
}

/* ---- messages ---- */

typedef struct end {
    uint64_t key[5]; /* comm, who sends, who receives, channel, number */
    prof_part part;
} end;

static int by_message(const void *a, const void *b)
{
    const end *x = a, *y = b;
    for (size_t i = 0; i < 5; i++)
        if (x->key[i] != y->key[i])
            return compare(x->key[i], y->key[i]);
    return compare((uint64_t)x->part.rank, (uint64_t)y->part.rank);
}

static end end_of(const prof_run *run, int rank, size_t index)
{
    const prof_record *m = &run->ranks[rank].records[index];
    uint64_t here = (uint64_t)run->ranks[rank].rank, there = (uint64_t)m->late_rank;
    bool sends = m->operation == WEFT_SEND;
    return (end){{(uint64_t)m->comm, sends ? here : there, sends ? there : here, m->messages, m->number},
                 {rank, index}};
}

static void join(prof_run *run, prof_part a, prof_part b)
{
    prof_record *x = &run->ranks[a.rank].records[a.record], *y = &run->ranks[b.rank].records[b.record];
    if (x->operation == y->operation)
        return;
    x->peer = b.rank;
    x->peer_record = b.record;
    y->peer = a.rank;
    y->peer_record = a.record;
}

static bool match_messages(prof_run *run)
{
    size_t count = 0;
    end *all = calloc(count_of(run, WEFT_TRACE_MESSAGE) + 1, sizeof *all);
    for (int r = 0; all && r < run->count; r++)
        for (size_t i = 0; i < run->ranks[r].count; i++)
            if (can_match(run, &run->ranks[r].records[i], WEFT_TRACE_MESSAGE))
                all[count++] = end_of(run, r, i);
    if (all)
        qsort(all, count, sizeof *all, by_message);
    for (size_t i = 1; all && i < count; i++)
        if (memcmp(all[i].key, all[i - 1].key, sizeof all[i].key) == 0)
            join(run, all[i - 1].part, all[i].part);
    free(all);
    return all != NULL;
}

bool prof_match(prof_run *run)
{
    return match_collectives(run) && match_messages(run);
}
