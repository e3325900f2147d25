/* SPDX-License-Identifier: Apache-2.0 */
/* The place of every rank inside its host and among hosts, and what sets of ranks cross. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/cluster.h>

#include "base/error.h"
#include "base/memory.h"

struct weft_cluster {
    int size, hosts;
    weft_location *locations; /* by rank; hosts counted in the order of their lowest rank */
    int *rank_of_place, *place_of_rank;
    int *first_rank; /* by host: its lowest */
    char (*host_names)[WEFT_HOST_NAME_MAX + 1];
};

const char *weft_level_string(weft_level level)
{
    static const char *const names[WEFT_LEVELS] = {"nothing",     "cache",   "NUMA node", "package",
                                                   "link island", "unknown", "host"};
    return (int)level >= 0 && (int)level < WEFT_LEVELS ? names[level] : "?";
}

static weft_cluster *allocate(int size)
{
    weft_cluster *c = weft__alloc(sizeof *c);
    if (!c)
        return NULL;
    size_t n = (size_t)size;
    c->size = size;
    c->locations = weft__alloc(n * sizeof *c->locations);
    c->rank_of_place = weft__alloc(n * sizeof *c->rank_of_place);
    c->place_of_rank = weft__alloc(n * sizeof *c->place_of_rank);
    c->first_rank = weft__alloc(n * sizeof *c->first_rank);
    c->host_names = weft__alloc(n * sizeof *c->host_names);
    if (c->locations && c->rank_of_place && c->place_of_rank && c->first_rank && c->host_names)
        return c;
    weft_cluster_destroy(c);
    return NULL;
}

void weft_cluster_destroy(weft_cluster *cluster)
{
    if (!cluster)
        return;
    free(cluster->locations);
    free(cluster->rank_of_place);
    free(cluster->place_of_rank);
    free(cluster->first_rank);
    free(cluster->host_names);
    free(cluster);
}

/* Count hosts from 0 in the order of their lowest rank. */
static void number_hosts(weft_cluster *c, const weft_location *given)
{
    for (int r = 0; r < c->size; r++) {
        int host = 0;
        while (host < c->hosts && given[c->first_rank[host]].host != given[r].host)
            host++;
        if (host == c->hosts)
            c->first_rank[c->hosts++] = r;
        c->locations[r].host = host;
    }
    for (int host = 0; host < c->hosts; host++) {
        const char *name = c->locations[c->first_rank[host]].host_name;
        if (*name)
            snprintf(c->host_names[host], sizeof *c->host_names, "%.*s", WEFT_HOST_NAME_MAX, name);
        else
            snprintf(c->host_names[host], sizeof *c->host_names, "host%d", host);
    }
}

/* A UUID names one GPU of the world, a PCI id one of its host. */
static int same_gpu(const weft_location *a, const weft_location *b)
{
    return *a->gpu_id && strcmp(a->gpu_id, b->gpu_id) == 0 && (a->host == b->host || !strchr(a->gpu_id, ':'));
}

static int compare_gpus(const void *a, const void *b)
{
    const weft_location *const *la = a, *const *lb = b;
    int order = strcmp((*la)->gpu_id, (*lb)->gpu_id);
    if (order == 0 && strchr((*la)->gpu_id, ':'))
        order = (*la)->host - (*lb)->host;
    return order ? order : (*la > *lb) - (*la < *lb);
}

static weft_result check_gpus(const weft_cluster *c)
{
    const weft_location **sorted = weft__alloc((size_t)c->size * sizeof *sorted);
    if (!sorted)
        return WEFT_E_NO_MEMORY;
    for (int r = 0; r < c->size; r++)
        sorted[r] = &c->locations[r];
    qsort(sorted, (size_t)c->size, sizeof *sorted, compare_gpus);
    weft_result result = WEFT_OK;
    for (int i = 1; i < c->size && result == WEFT_OK; i++)
        if (same_gpu(sorted[i - 1], sorted[i]))
            result =
                weft__fail(WEFT_E_INVALID, "rank %td and rank %td both use %s%s", sorted[i - 1] - c->locations,
                           sorted[i] - c->locations, strchr(sorted[i]->gpu_id, ':') ? "GPU " : "", sorted[i]->gpu_id);
    free(sorted);
    return result;
}

/* Add @p more to @p all; 0 if they had something in common, or @p more is empty. */
static int add_disjoint(weft_pus *all, const weft_pus *more)
{
    uint64_t common = 0, any = 0;
    for (size_t i = 0; i < sizeof all->words / sizeof *all->words; i++) {
        common |= all->words[i] & more->words[i];
        any |= more->words[i];
        all->words[i] |= more->words[i];
    }
    return common == 0 && any != 0;
}

/* Do the ranks of a host follow the order of its machine? If each has a GPU (its own, as was checked), or none has
 * and they are bound to disjoint PUs. */
static int follows_machine(const weft_cluster *c, const int *ranks, int count)
{
    int gpus = 0, known = 1, disjoint = 1;
    weft_pus all = {{0}};
    for (int i = 0; i < count; i++) {
        const weft_location *l = &c->locations[ranks[i]];
        gpus += *l->gpu_id != 0;
        known &= l->position >= 0;
        disjoint = disjoint && add_disjoint(&all, &l->pus);
    }
    return known && (gpus == count || (gpus == 0 && disjoint));
}

/* By position, in place; ranks are in the order of their numbers before, and equal positions stay in it. */
static void sort_by_position(const weft_cluster *c, int *ranks, int count)
{
    for (int i = 1; i < count; i++) {
        int rank = ranks[i], at = i;
        for (; at > 0 && c->locations[ranks[at - 1]].position > c->locations[rank].position; at--)
            ranks[at] = ranks[at - 1];
        ranks[at] = rank;
    }
}

static void place_ranks(weft_cluster *c)
{
    int place = 0;
    for (int host = 0; host < c->hosts; host++) {
        int first = place;
        for (int r = c->first_rank[host]; r < c->size; r++)
            if (c->locations[r].host == host)
                c->rank_of_place[place++] = r;
        if (follows_machine(c, c->rank_of_place + first, place - first))
            sort_by_position(c, c->rank_of_place + first, place - first);
    }
    for (int p = 0; p < c->size; p++)
        c->place_of_rank[c->rank_of_place[p]] = p;
}

weft_result weft_cluster_create(const weft_location *ranks, int count, weft_cluster **cluster_out)
{
    if (!cluster_out)
        return weft__fail(WEFT_E_INVALID, "a cluster is made without a place for it");
    *cluster_out = NULL;
    if (!ranks || count < 1)
        return weft__fail(WEFT_E_INVALID, "a cluster of %d ranks%s", count, ranks ? "" : ", nowhere described");
    weft_cluster *c = allocate(count);
    if (!c)
        return WEFT_E_NO_MEMORY;
    memcpy(c->locations, ranks, (size_t)count * sizeof *ranks);
    for (int r = 0; r < count; r++)
        c->locations[r].host_name[WEFT_HOST_NAME_MAX] = c->locations[r].gpu_id[WEFT_GPU_ID_MAX] = 0;
    number_hosts(c, ranks);
    weft_result result = check_gpus(c);
    if (result < 0) {
        weft_cluster_destroy(c);
        return result;
    }
    place_ranks(c);
    *cluster_out = c;
    return WEFT_OK;
}

int weft_cluster_size(const weft_cluster *cluster)
{
    return cluster->size;
}

int weft_cluster_rank(const weft_cluster *cluster, int place)
{
    return place >= 0 && place < cluster->size ? cluster->rank_of_place[place] : WEFT_NONE;
}

int weft_cluster_place(const weft_cluster *cluster, int rank)
{
    return rank >= 0 && rank < cluster->size ? cluster->place_of_rank[rank] : WEFT_NONE;
}

const weft_location *weft_cluster_location(const weft_cluster *cluster, int rank)
{
    return rank >= 0 && rank < cluster->size ? &cluster->locations[rank] : NULL;
}

int weft_cluster_hosts(const weft_cluster *cluster)
{
    return cluster->hosts;
}

const char *weft_cluster_host_name(const weft_cluster *cluster, int host)
{
    return host >= 0 && host < cluster->hosts ? cluster->host_names[host] : NULL;
}

/* What a set of ranks has in common at one level. */
typedef enum agreement { ONE, SEVERAL, UNSEEN } agreement;

static agreement agree(const weft_cluster *c, const int *ranks, int count, size_t field)
{
    agreement found = ONE;
    int32_t first = WEFT_UNKNOWN;
    for (int i = 0; i < count; i++) {
        int32_t number;
        memcpy(&number, (const char *)&c->locations[ranks[i]] + field, sizeof number);
        if (number == WEFT_UNKNOWN)
            found = UNSEEN;
        else if (number == WEFT_SPREAD || (first != WEFT_UNKNOWN && number != first))
            return SEVERAL;
        else
            first = number;
    }
    return found;
}

weft_level weft_cluster_level(const weft_cluster *cluster, const int *ranks, int count)
{
    static const struct {
        weft_level level;
        size_t field;
    } inside[] = {
        {WEFT_LEVEL_ISLAND, offsetof(weft_location, island)},
        {WEFT_LEVEL_PACKAGE, offsetof(weft_location, package)},
        {WEFT_LEVEL_NUMA, offsetof(weft_location, numa)},
        {WEFT_LEVEL_CACHE, offsetof(weft_location, cache)},
    };
    if (count < 2)
        return WEFT_LEVEL_NOTHING;
    if (agree(cluster, ranks, count, offsetof(weft_location, host)) != ONE)
        return WEFT_LEVEL_HOST;
    int unseen = 0, linked = cluster->locations[ranks[0]].island >= 0;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        agreement a = agree(cluster, ranks, count, inside[i].field);
        if (a == SEVERAL)
            return unseen ? WEFT_LEVEL_UNKNOWN : inside[i].level;
        unseen |= a == UNSEEN && !linked; /* ranks that have links to each other need not know the rest */
    }
    return unseen ? WEFT_LEVEL_UNKNOWN : WEFT_LEVEL_NOTHING;
}
