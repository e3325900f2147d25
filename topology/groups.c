/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks along the axes of a mesh, and what they cross. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/groups.h>

#include "base/error.h"
#include "base/memory.h"

static weft_result check_sizes(const weft_mesh *mesh, const weft_cluster *cluster)
{
    if (!mesh)
        return weft__fail(WEFT_E_INVALID, "groups of no mesh");
    if (cluster && weft_cluster_size(cluster) != weft_mesh_places(mesh))
        return weft__fail(WEFT_E_INVALID, "a mesh of %d places over a cluster of %d ranks", weft_mesh_places(mesh),
                          weft_cluster_size(cluster));
    return WEFT_OK;
}

weft_result weft_groups_ranks(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes, int index,
                              int *ranks_out)
{
    WEFT_TRY(check_sizes(mesh, cluster));
    WEFT_TRY(weft_mesh_group(mesh, axes, index, ranks_out));
    int size = weft_mesh_size(mesh, axes);
    for (int i = 0; cluster && i < size; i++)
        ranks_out[i] = weft_cluster_rank(cluster, ranks_out[i]);
    return WEFT_OK;
}

weft_result weft_groups_of(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes, int rank, int *index_out,
                           int *member_out)
{
    WEFT_TRY(check_sizes(mesh, cluster));
    if (rank < 0 || rank >= weft_mesh_places(mesh))
        return weft__fail(WEFT_E_RANGE, "there is no rank %d among %d", rank, weft_mesh_places(mesh));
    int place = cluster ? weft_cluster_place(cluster, rank) : rank;
    return weft_mesh_group_of(mesh, axes, place, index_out, member_out);
}

/* Call @p visit with the ranks of each group along @p axes. */
static weft_result for_each_group(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes,
                                  void (*visit)(int index, const int *ranks, int size, void *cookie), void *cookie)
{
    WEFT_TRY(check_sizes(mesh, cluster));
    int size = weft_mesh_size(mesh, axes), groups = weft_mesh_groups(mesh, axes);
    if (size == 0)
        return weft_mesh_group(mesh, axes, 0, NULL); /* which says why */
    int *ranks = weft__alloc((size_t)size * sizeof *ranks);
    if (!ranks)
        return WEFT_E_NO_MEMORY;
    weft_result result = WEFT_OK;
    for (int index = 0; index < groups && result == WEFT_OK; index++) {
        result = weft_groups_ranks(mesh, cluster, axes, index, ranks);
        if (result == WEFT_OK)
            visit(index, ranks, size, cookie);
    }
    free(ranks);
    return result;
}

typedef struct text_out {
    char *text;
    size_t bytes, used; /* used: of the whole text, also what did not fit */
} text_out;

static void write_group(int index, const int *ranks, int size, void *cookie)
{
    text_out *out = cookie;
    for (int i = 0; i < size; i++) {
        char number[16];
        int n = snprintf(number, sizeof number, "%s%d", i ? "," : index ? ";" : "", ranks[i]);
        for (int k = 0; k < n; k++, out->used++)
            if (out->used + 1 < out->bytes)
                out->text[out->used] = number[k];
    }
}

weft_result weft_groups_text(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes, char *text,
                             size_t bytes, size_t *needed_out)
{
    if (bytes && !text)
        return weft__fail(WEFT_E_INVALID, "groups as text of %zu bytes, and no place for it", bytes);
    text_out out = {text, bytes, 0};
    WEFT_TRY(for_each_group(mesh, cluster, axes, write_group, &out));
    if (bytes)
        text[out.used < bytes ? out.used : bytes - 1] = 0;
    if (needed_out)
        *needed_out = out.used;
    return WEFT_OK;
}

typedef struct crossing_count {
    const weft_cluster *cluster;
    weft_crossing crossing;
} crossing_count;

static int share_island(const weft_cluster *cluster, const int *ranks, int size)
{
    const weft_location *first = weft_cluster_location(cluster, ranks[0]);
    for (int i = 0; i < size; i++) {
        const weft_location *l = weft_cluster_location(cluster, ranks[i]);
        if (l->island < 0 || l->island != first->island || l->host != first->host)
            return 0;
    }
    return 1;
}

static void add_crossing(int index, const int *ranks, int size, void *cookie)
{
    crossing_count *out = cookie;
    weft_crossing *c = &out->crossing;
    weft_level level = WEFT_LEVEL_NOTHING;
    if (out->cluster)
        level = weft_cluster_level(out->cluster, ranks, size);
    else if (size > 1)
        level = WEFT_LEVEL_UNKNOWN;
    c->groups++;
    c->at[level]++;
    c->off_island += !out->cluster || !share_island(out->cluster, ranks, size);
    if (index == 0 || level > c->worst) {
        c->worst = level;
        c->first_worst = index;
    }
}

weft_result weft_groups_crossing(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes,
                                 weft_crossing *crossing_out)
{
    if (!crossing_out)
        return weft__fail(WEFT_E_INVALID, "what groups cross is asked without a place for it");
    crossing_count out = {.cluster = cluster};
    WEFT_TRY(for_each_group(mesh, cluster, axes, add_crossing, &out));
    *crossing_out = out.crossing;
    return WEFT_OK;
}

typedef struct refusal {
    const weft_cluster *cluster;
    weft_level level;
    char text[200]; /* the ranks of the first group that crosses, and their hosts */
} refusal;

static void note_first(int index, const int *ranks, int size, void *cookie)
{
    (void)index;
    refusal *r = cookie;
    if (*r->text || weft_cluster_level(r->cluster, ranks, size) < r->level)
        return;
    size_t used = 0;
    for (int i = 0; i < size && used < sizeof r->text - 40; i++)
        used += (size_t)snprintf(r->text + used, sizeof r->text - used, "%srank %d on %.20s", i ? ", " : "", ranks[i],
                                 weft_cluster_host_name(r->cluster, weft_cluster_location(r->cluster, ranks[i])->host));
}

weft_result weft_groups_keep_within(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes,
                                    weft_level level)
{
    if (!cluster)
        return weft__fail(WEFT_E_INVALID, "what groups cross cannot be told without a cluster");
    weft_crossing crossing;
    WEFT_TRY(weft_groups_crossing(mesh, cluster, axes, &crossing));
    if (crossing.worst < level)
        return WEFT_OK;
    int crossed = 0;
    for (int l = (int)level; l < WEFT_LEVELS; l++)
        crossed += crossing.at[l];
    refusal first = {.cluster = cluster, .level = level};
    WEFT_TRY(for_each_group(mesh, cluster, axes, note_first, &first));
    char text[WEFT_AXES_TEXT_MAX + 1];
    return weft__fail(WEFT_E_STATE, "%d of %d %s groups %s %ss: %s", crossed, crossing.groups,
                      weft_axes_text(axes, text), crossed == 1 ? "crosses" : "cross", weft_level_string(level),
                      first.text);
}
