/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of cases: a covering array of pairs made greedily, or the whole matrix. */
#include "perf/conform/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/element.h"

enum { VALUES = 64, TRIES = 40 }; /* most values of a property; rows to choose from */

const size_t conform_counts[5] = {0, 1, 7, 4097, 1048577};

static const int axis_values[CONFORM_AXES] = {
    [CONFORM_KIND] = WEFT_COLLECTIVE_KINDS,
    [CONFORM_DTYPE] = WEFT_DTYPES,
    [CONFORM_REDUCTION] = WEFT_REDUCTIONS,
    [CONFORM_PLACE] = 2,
    [CONFORM_MEMORY] = 2,
    [CONFORM_SHIFT] = 2,
    [CONFORM_ROOT] = 3,
    [CONFORM_HOW] = 3,
};

typedef struct space {
    int values[CONFORM_AXES];
    uint64_t random;
    bool open[CONFORM_AXES][VALUES][CONFORM_AXES][VALUES]; /* pairs that have not met */
    conform_case *cases;
    size_t count, room;
} space;

/* ------------------------------------------------------------------------------------------- what makes sense */

const conform_shape conform_shapes[] = {
    [WEFT_ALL_REDUCE] = {.moves = true, .reduces = true},
    [WEFT_REDUCE_SCATTER] = {.moves = true, .reduces = true, .sends_each = true},
    [WEFT_ALL_GATHER] = {.moves = true, .receives_each = true},
    [WEFT_BROADCAST] = {.moves = true, .root_sends = true},
    [WEFT_REDUCE] = {.moves = true, .reduces = true, .root_receives = true},
    [WEFT_ALL_TO_ALL] = {.moves = true, .sends_each = true, .receives_each = true},
    [WEFT_BARRIER] = {.moves = false},
};
_Static_assert(sizeof conform_shapes / sizeof *conform_shapes == WEFT_COLLECTIVE_KINDS, "each kind has a row");

/* Does a property mean something to a collective? */
static bool matters(int kind, int axis)
{
    const conform_shape *shape = &conform_shapes[kind];
    if (axis == CONFORM_REDUCTION)
        return shape->reduces;
    if (axis == CONFORM_ROOT)
        return shape->root_sends || shape->root_receives;
    return shape->moves || axis == CONFORM_RANKS || axis == CONFORM_KIND || axis == CONFORM_HOW;
}

/* A case that can be asked for, with 0 wherever a property has no meaning. */
static bool makes_sense(const conform_case *it)
{
    int kind = it->of[CONFORM_KIND];
    for (int a = 0; a < CONFORM_AXES; a++)
        if (it->of[a] && !matters(kind, a))
            return false;
    return !(conform_shapes[kind].reduces && perf_element_is_whole((weft_dtype)it->of[CONFORM_DTYPE]) &&
             it->of[CONFORM_REDUCTION] == WEFT_AVERAGE);
}

static void drop_meaningless(conform_case *it)
{
    for (int a = 0; a < CONFORM_AXES; a++)
        if (!matters(it->of[CONFORM_KIND], a))
            it->of[a] = 0;
}

static bool add(space *s, const conform_case *it)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        conform_case *cases = realloc(s->cases, room * sizeof *cases);
        if (!cases)
            return false;
        s->cases = cases, s->room = room;
    }
    s->cases[s->count++] = *it;
    return true;
}

/* ------------------------------------------------------------------------------------------- pairs */

static int random_below(space *s, int limit)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((s->random >> 33) % (uint64_t)limit);
}

/* The pairs of a case that no case before had; @p meet: now they have. */
static int pairs_of(space *s, const conform_case *it, bool meet)
{
    int count = 0, kind = it->of[CONFORM_KIND];
    for (int a = 0; a < CONFORM_AXES; a++)
        for (int b = a + 1; b < CONFORM_AXES; b++) {
            bool *open = &s->open[a][it->of[a]][b][it->of[b]];
            count += *open && matters(kind, a) && matters(kind, b);
            if (meet && matters(kind, a) && matters(kind, b))
                *open = false;
        }
    return count;
}

/* The best of a few rows in which two properties are given; false: there is none. */
static bool row_with(space *s, int a, int value_a, int b, int value_b, conform_case *row)
{
    int best = 0;
    for (int try = 0; try < TRIES || (!best && try < 20 * TRIES); try++) {
        conform_case it = {{0}};
        for (int axis = 0; axis < CONFORM_AXES; axis++)
            it.of[axis] = (unsigned char)random_below(s, s->values[axis]);
        it.of[a] = (unsigned char)value_a, it.of[b] = (unsigned char)value_b;
        bool given = matters(it.of[CONFORM_KIND], a) && matters(it.of[CONFORM_KIND], b);
        drop_meaningless(&it);
        if (!given || !makes_sense(&it))
            continue;
        int pairs = pairs_of(s, &it, false);
        if (pairs > best)
            best = pairs, *row = it;
    }
    return best > 0;
}

static bool cover_pair(space *s, int a, int value_a, int b, int value_b)
{
    conform_case row;
    if (!s->open[a][value_a][b][value_b] || !row_with(s, a, value_a, b, value_b, &row))
        return true; /* it has met, or it cannot */
    (void)pairs_of(s, &row, true);
    return add(s, &row);
}

static bool cover_axes(space *s, int a, int b)
{
    for (int i = 0; i < s->values[a]; i++)
        for (int j = 0; j < s->values[b]; j++)
            if (!cover_pair(s, a, i, b, j))
                return false;
    return true;
}

static bool cover_pairs(space *s)
{
    bool well = true;
    memset(s->open, 1, sizeof s->open);
    for (int a = 0; a < CONFORM_AXES; a++)
        for (int b = a + 1; b < CONFORM_AXES; b++)
            well = well && cover_axes(s, a, b);
    return well;
}

/* Sums of many ranks, in which their order shows: not left to chance. */
static bool add_sums(space *s)
{
    bool well = true;
    for (int i = 0; i < WEFT_COLLECTIVE_KINDS * WEFT_DTYPES && well; i++) {
        int kind = i % WEFT_COLLECTIVE_KINDS, dtype = i / WEFT_COLLECTIVE_KINDS;
        conform_case it = {{0}};
        it.of[CONFORM_RANKS] = (unsigned char)(s->values[CONFORM_RANKS] - 1);
        it.of[CONFORM_KIND] = (unsigned char)kind;
        it.of[CONFORM_DTYPE] = (unsigned char)dtype;
        it.of[CONFORM_COUNT] = (unsigned char)(s->values[CONFORM_COUNT] < 4 ? s->values[CONFORM_COUNT] - 1 : 3);
        if (conform_shapes[kind].reduces && !perf_element_is_whole((weft_dtype)dtype))
            well = add(s, &it);
    }
    return well;
}

/* ------------------------------------------------------------------------------------------- everything */

/* The next of all combinations of the first axes; false: that was the last. */
static bool count_on(const space *s, conform_case *it)
{
    for (int a = CONFORM_MATRIX_AXES - 1; a >= 0; a--) {
        if (++it->of[a] < s->values[a])
            return true;
        it->of[a] = 0;
    }
    return false;
}

static bool cover_all(space *s)
{
    conform_case it = {{0}};
    do {
        conform_case row = it;
        for (int a = CONFORM_MATRIX_AXES; a < CONFORM_AXES; a++)
            row.of[a] = (unsigned char)random_below(s, s->values[a]);
        for (int a = CONFORM_MATRIX_AXES; a < CONFORM_AXES; a++)
            row.of[a] = matters(row.of[CONFORM_KIND], a) ? row.of[a] : 0;
        if (makes_sense(&row) && !add(s, &row))
            return false;
    } while (count_on(s, &it));
    return true;
}

/* ------------------------------------------------------------------------------------------- the plan */

static int by_ranks(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(conform_case)); /* ranks come first */
}

conform_case *conform_plan(const conform_settings *settings, int ranks, size_t *count_out)
{
    space *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    memcpy(s->values, axis_values, sizeof s->values);
    s->values[CONFORM_RANKS] = ranks < VALUES ? ranks : VALUES;
    while (s->values[CONFORM_COUNT] < 5 &&
           (!settings->largest || conform_counts[s->values[CONFORM_COUNT]] <= settings->largest))
        s->values[CONFORM_COUNT]++;
    bool well = settings->full ? cover_all(s) : cover_pairs(s) && add_sums(s);
    conform_case *cases = well ? s->cases : NULL;
    if (!well)
        free(s->cases);
    else
        qsort(cases, s->count, sizeof *cases, by_ranks);
    *count_out = s->count;
    free(s);
    return cases;
}

int conform_root(const conform_case *it)
{
    return it->of[CONFORM_ROOT] * it->of[CONFORM_RANKS] / 2;
}

void conform_describe(const conform_case *it, char *text, size_t bytes)
{
    static const char *const how[] = {"run", "started", "started behind another"};
    int kind = it->of[CONFORM_KIND];
    size_t used = (size_t)snprintf(text, bytes, "%s", weft_collective_string((weft_collective_kind)kind));
    if (conform_shapes[kind].moves)
        used += (size_t)snprintf(text + used, bytes - used, " of %zu %s", conform_counts[it->of[CONFORM_COUNT]],
                                 weft_dtype_string((weft_dtype)it->of[CONFORM_DTYPE]));
    if (conform_shapes[kind].reduces)
        used += (size_t)snprintf(text + used, bytes - used, ", %s",
                                 weft_reduction_string((weft_reduction)it->of[CONFORM_REDUCTION]));
    if (matters(kind, CONFORM_ROOT))
        used += (size_t)snprintf(text + used, bytes - used, ", root %d", conform_root(it));
    if (conform_shapes[kind].moves)
        used += (size_t)snprintf(text + used, bytes - used, ", %s, %s, from element %d",
                                 it->of[CONFORM_PLACE] ? "in place" : "out of place",
                                 it->of[CONFORM_MEMORY] ? "memory of weft" : "memory of malloc", it->of[CONFORM_SHIFT]);
    snprintf(text + used, bytes - used, ", %s, %d ranks", how[it->of[CONFORM_HOW]], it->of[CONFORM_RANKS] + 1);
}
