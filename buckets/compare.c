/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks compare what they must hold alike, before the first gradient moves: a difference names the first param. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/verdict.h"
#include "layout.h"
#include "params.h"
#include "set.h"

#define TEXT_BYTES 204 /* two of them fit into a message */
#define NAME_BYTES 80

/* Entries that are of no param. */
#define CONFIGURATION WEFT_LAYOUT_NONE
#define PLACES        (WEFT_LAYOUT_NONE - 1)
#define SUM           (WEFT_LAYOUT_NONE - 2)

/* One thing that must be alike: the configuration, some elements of a param, where all params of a lane lie,
 * or the name of a sum. */
typedef struct entry {
    uint64_t hash;
    uint32_t param;
    size_t start, count;
} entry;

/* All that must be alike over one comm. */
typedef struct subject {
    const weft_buckets *set;
    const weft_buckets_config *config;
    weft_comm *comm;
    const weft__bucket_lane *lane; /* for PLACES */
    const weft__sum_comm *sum;     /* for SUM */
    entry *entries;                /* NULL: there was no memory for them */
    size_t count;
} subject;

static void add(subject *s, uint32_t param, uint64_t hash, size_t start, size_t count)
{
    if (s->entries)
        s->entries[s->count++] = (entry){.hash = hash, .param = param, .start = start, .count = count};
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return weft__hash(hash, &number, sizeof number);
}

static void add_config(subject *s, bool layout_too)
{
    uint64_t hash = hash_number(WEFT__HASH_START, (uint64_t)s->config->reduction);
    if (layout_too) {
        hash = weft__hash(hash, s->set->name, strlen(s->set->name));
        hash = hash_number(hash, s->config->flags & WEFT__LAYOUT_FLAGS);
        hash = hash_number(hash, s->config->bucket_elements);
        hash = hash_number(hash, s->config->last_bucket_elements);
        hash = hash_number(hash, s->config->param_alignment);
        hash = hash_number(hash, s->config->bucket_alignment);
    }
    add(s, CONFIGURATION, hash, 0, 0);
}

/* Ranks of a lane hold the same params in the same places. One param too many changes the places of others, so these
 * come last. */
static void list_lane(subject *s, const weft__bucket_lane *lane)
{
    uint64_t places = WEFT__HASH_START;
    s->lane = lane;
    add_config(s, true);
    for (uint32_t i = 0; i < weft_params_count(s->set->params); i++) {
        const weft_layout_place *place = weft_layout_param_at(s->set->layout, i);
        if (place->bucket == WEFT_LAYOUT_NONE || s->set->buckets[place->bucket].lane != lane)
            continue;
        places = hash_number(hash_number(hash_number(places, place->bucket), place->start), place->end);
        add(s, i, weft__params_hash(s->set->params, i), 0, weft_params_elements(s->set->params, i));
    }
    add(s, PLACES, places, 0, 0);
}

static void add_owned(subject *s, const weft__bucket *bucket, uint32_t param)
{
    size_t start, end, first = weft_layout_param_at(s->set->layout, param)->start;
    weft__layout_owned(s->set->layout, param, weft_comm_rank(bucket->lane->shard), &start, &end);
    if (start == end)
        return;
    uint64_t hash = hash_number(WEFT__HASH_START, weft_params_elements(s->set->params, param));
    hash = hash_number(hash_number(hash, start - first), end - start);
    add(s, param, hash_number(hash, bucket->grad_dtype), start - first, end - start);
}

/* Ranks of a sum own the same elements of each param, in the same order; the names may differ. */
static void list_sum(subject *s, const weft__sum_comm *comm)
{
    const weft_buckets *set = s->set;
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        const weft__bucket *bucket = weft__launched(set, i);
        for (uint32_t k = 0; k < bucket->place->param_count; k++)
            for (size_t n = 0; n < set->sum_count; n++)
                if (set->sums[n].comm == comm && set->sums[n].param == bucket->place->params[k])
                    add_owned(s, bucket, set->sums[n].param);
    }
}

/* ------------------------------------------------------------------------------------------- in words */

WEFT_PRINTF(2, 3) static void append(char text[TEXT_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, list);
    va_end(list);
}

/* Long names tend to differ at one of their ends. */
static void append_name(char text[TEXT_BYTES], const char *name)
{
    size_t bytes = strlen(name);
    if (bytes <= NAME_BYTES)
        append(text, "'%s'", name);
    else
        append(text, "'%.20s...%s'", name, name + bytes - (NAME_BYTES - 23));
}

static void describe_config(const subject *s, char text[TEXT_BYTES])
{
    const weft_buckets_config *config = s->config;
    append_name(text, s->set->name);
    append(text, ", %s, %zu elements a bucket, %zu for the last, alignments %u and %u, flags 0x%x",
           weft_reduction_string(config->reduction), config->bucket_elements, config->last_bucket_elements,
           config->param_alignment, config->bucket_alignment, config->flags);
}

static void describe_param(const weft_param *param, char text[TEXT_BYTES])
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = {{WEFT_PARAM_TIED, "tied"},
                 {WEFT_PARAM_EXPERT, "expert"},
                 {WEFT_PARAM_NO_DECAY, "no decay"},
                 {WEFT_PARAM_COPY, "copy"}};
    append_name(text, param->name);
    append(text, " %s [", weft_dtype_string(param->dtype));
    for (int i = 0; i < param->dims; i++)
        append(text, "%s%zu", i ? "," : "", param->shape[i]);
    append(text, "], gradient %s", weft_dtype_string(param->grad_dtype));
    if (param->contributions != 1)
        append(text, ", %u contributions", param->contributions);
    if (param->lr_scale != 1)
        append(text, ", lr_scale %.9g", (double)param->lr_scale);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (param->flags & flags[i].flag)
            append(text, ", %s", flags[i].name);
}

/* What this rank has as entry @p index. */
static void describe(const subject *s, size_t index, char text[TEXT_BYTES])
{
    const entry *e = index < s->count ? &s->entries[index] : NULL;
    text[0] = 0;
    if (!e) {
        append(text, "nothing more");
    } else if (e->param == CONFIGURATION) {
        describe_config(s, text);
    } else if (e->param == PLACES) {
        append(text, "no more params, in buckets for %d ranks", weft_comm_size(s->lane->shard));
    } else if (e->param == SUM) {
        append_name(text, s->sum->name);
        append(text, " as the name of a sum (weft_buckets_sum.name)");
    } else {
        describe_param(weft_params_get(s->set->params, e->param), text);
        if (e->count != weft_params_elements(s->set->params, e->param))
            append(text, ", elements %zu to %zu", e->start, e->start + e->count);
    }
}

/* ------------------------------------------------------------------------------------------- comparing */

/* What every rank of the comm gives: @p bytes of each, in rank order; free it. Nobody waits for a rank that has no
 * memory for its part (@p mine is NULL) or for all. */
static weft_result collect(const subject *s, const void *mine, size_t bytes, void **all_out)
{
    *all_out = NULL;
    void *all = mine ? weft__alloc((size_t)weft_comm_size(s->comm) * bytes) : NULL;
    weft_result result = weft_comm_agree(s->comm, all ? WEFT_OK : WEFT_E_NO_MEMORY, NULL);
    if (result == WEFT_OK)
        result = weft_all_gather_run(s->comm, mine, all, bytes, WEFT_UINT8, WEFT_STREAM_HOST);
    if (result != WEFT_OK) {
        free(all);
        return result;
    }
    *all_out = all;
    return WEFT_OK;
}

/* The first entry that rank 0 and another do not share, and the first such rank. */
static void find_difference(const uint64_t *all, size_t count, int ranks, size_t *entry_out, int *rank_out)
{
    for (size_t i = 0; i < count; i++)
        for (int rank = 1; rank < ranks; rank++)
            if (all[(size_t)rank * count + i] != all[i]) {
                *entry_out = i;
                *rank_out = rank;
                return;
            }
    *entry_out = count;
    *rank_out = 0;
}

static weft_result tell_difference(const subject *s, size_t index, int other)
{
    char mine[TEXT_BYTES] = "";
    void *all;
    describe(s, index, mine);
    WEFT_TRY(collect(s, mine, sizeof mine, &all));
    const char *first = all, *second = first + (size_t)other * TEXT_BYTES;
    weft_result result =
        weft__fail(WEFT_E_MISMATCH, "rank %d, set '%s': ranks of comm '%s' differ: rank %d has %s, but rank %d has %s",
                   s->set->rank, s->set->name, weft_comm_name(s->comm), weft_comm_world_rank(s->comm, 0), first,
                   weft_comm_world_rank(s->comm, other), second);
    free(all);
    return result;
}

/* The ranks differ: find where. @p longest is the most entries that any has. */
static weft_result locate(const subject *s, size_t longest)
{
    size_t bytes = longest * sizeof(uint64_t), index;
    uint64_t *mine = weft__alloc(bytes);
    for (size_t i = 0; mine && i < s->count; i++)
        mine[i] = s->entries[i].hash;
    void *all;
    weft_result result = collect(s, mine, bytes, &all);
    free(mine);
    WEFT_TRY(result);
    int other;
    find_difference(all, longest, weft_comm_size(s->comm), &index, &other);
    free(all);
    return tell_difference(s, index, other);
}

static weft_result compare(const subject *s)
{
    typedef struct summary {
        uint64_t count, hash;
    } summary;
    summary mine = {s->count, WEFT__HASH_START};
    for (size_t i = 0; i < s->count; i++)
        mine.hash = hash_number(mine.hash, s->entries[i].hash);
    void *all;
    WEFT_TRY(collect(s, s->entries ? &mine : NULL, sizeof mine, &all));
    const summary *summaries = all;
    size_t longest = 0;
    bool alike = true;
    for (int i = 0; i < weft_comm_size(s->comm); i++) {
        alike = alike && memcmp(&summaries[i], &mine, sizeof mine) == 0;
        longest = summaries[i].count > longest ? (size_t)summaries[i].count : longest;
    }
    free(all);
    return alike ? WEFT_OK : locate(s, longest);
}

/* Of the ranks that sum a param at most one may count it in the norm. */
static weft_result check_counted(const subject *s)
{
    unsigned char *mine = weft__alloc(s->count);
    for (size_t i = 0; mine && i < s->count; i++)
        mine[i] = !(weft_params_get(s->set->params, s->entries[i].param)->flags & WEFT_PARAM_COPY);
    void *all;
    weft_result result = collect(s, mine, s->count, &all);
    free(mine);
    WEFT_TRY(result);
    const unsigned char *counted = all;
    for (size_t i = 0; i < s->count && result == WEFT_OK; i++) {
        int ranks = 0;
        for (int rank = 0; rank < weft_comm_size(s->comm); rank++)
            ranks += counted[(size_t)rank * s->count + i];
        if (ranks > 1)
            result = weft__refuse(s->set, &s->set->buckets[s->set->marks[s->entries[i].param].bucket],
                                  s->entries[i].param, WEFT_E_INVALID,
                                  "%d ranks of comm '%s' count it in the norm: all but one set WEFT_PARAM_COPY", ranks,
                                  weft_comm_name(s->comm));
    }
    free(all);
    return result;
}

static weft_result compare_lane(subject *s, const weft__bucket_lane *lane, weft_comm *comm)
{
    if (!comm)
        return WEFT_OK;
    s->comm = comm, s->count = 0;
    list_lane(s, lane);
    return compare(s);
}

static weft_result compare_norm(subject *s)
{
    s->comm = s->set->norm, s->count = 0;
    add_config(s, false);
    return compare(s);
}

static weft_result compare_sums(subject *s, const weft__sum_comm *comm)
{
    s->comm = comm->given, s->sum = comm, s->count = 0;
    add(s, SUM, weft__hash(WEFT__HASH_START, comm->name, strlen(comm->name)), 0, 0);
    WEFT_TRY(compare(s));
    s->count = 0;
    list_sum(s, comm);
    WEFT_TRY(compare(s));
    return check_counted(s);
}

/* All comms in one order on every rank, also behind a difference: ranks that found none there come to the next. */
static void compare_all(subject *s, weft__verdict *first)
{
    const weft_buckets *set = s->set;
    for (size_t i = 0; i < 2; i++) {
        weft__verdict_add(first, compare_lane(s, &set->lanes[i], set->lanes[i].shard));
        weft__verdict_add(first, compare_lane(s, &set->lanes[i], set->lanes[i].replica));
    }
    weft__verdict_add(first, compare_norm(s));
    for (size_t i = 0; i < set->sum_comm_count; i++)
        weft__verdict_add(first, compare_sums(s, &set->sum_comms[i]));
}

weft_result weft__compare(const weft_buckets *set, const weft_buckets_config *config)
{
    size_t most = weft_params_count(set->params) > set->sum_count ? weft_params_count(set->params) : set->sum_count;
    weft__verdict first = {0};
    subject s = {.set = set, .config = config, .entries = weft__alloc((most + 2) * sizeof(entry))};
    compare_all(&s, &first);
    free(s.entries);
    return weft__verdict_result(&first);
}
