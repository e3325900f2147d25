/* SPDX-License-Identifier: Apache-2.0 */
/* Threads meet in the memory of their team: each puts in what it has, and the last to come lets all go on. */
#include "bootstrap/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ranks.h"
#include "bootstrap/meeting.h"

typedef struct team_meeting {
    weft__meeting meeting;
    weft_team *team;
} team_meeting;

struct weft_team {
    int ranks;
    int next_rank;
    pthread_mutex_t lock;
    pthread_cond_t round_over;
    weft__segment *segments;
    team_meeting *meetings; /* [rank]: made beforehand, so that a rank without memory can say so */
    /* The present round: of exchange, or of agreeing. */
    unsigned char *table;
    size_t bytes;
    int came;
    bool *here;
    uint64_t round;
    weft__verdict worst; /* of the lowest rank that has failed */
    int worst_rank;
    weft__verdict broken; /* a round that broke off breaks all that follow */
};

int weft__team_size(const weft_team *team)
{
    return team->ranks;
}

int weft__team_next_rank(weft_team *team)
{
    pthread_mutex_lock(&team->lock);
    int rank = team->next_rank < team->ranks ? team->next_rank++ : -1;
    pthread_mutex_unlock(&team->lock);
    return rank;
}

weft__segment *weft__team_segment(weft_team *team, int rank)
{
    return &team->segments[rank];
}

weft_result weft_team_create(int ranks, weft_team **team_out)
{
    if (!team_out)
        return weft__fail(WEFT_E_INVALID, "a team without a place for it");
    *team_out = NULL;
    if (ranks < 1 || ranks > 4096)
        return weft__fail(WEFT_E_INVALID, "a team of %d ranks", ranks);
    weft_team *team = weft__alloc(sizeof *team);
    if (!team)
        return WEFT_E_NO_MEMORY;
    team->ranks = ranks;
    pthread_mutex_init(&team->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&team->round_over, &attributes);
    pthread_condattr_destroy(&attributes);
    team->segments = weft__alloc((size_t)ranks * sizeof *team->segments);
    team->here = weft__alloc((size_t)ranks * sizeof *team->here);
    team->meetings = weft__alloc((size_t)ranks * sizeof *team->meetings);
    if (!team->segments || !team->here || !team->meetings) {
        weft_team_destroy(team);
        return WEFT_E_NO_MEMORY;
    }
    *team_out = team;
    return WEFT_OK;
}

void weft_team_destroy(weft_team *team)
{
    if (!team)
        return;
    for (int r = 0; team->segments && r < team->ranks; r++)
        weft__segment_unmap(&team->segments[r]);
    pthread_cond_destroy(&team->round_over);
    pthread_mutex_destroy(&team->lock);
    free(team->table);
    free(team->segments);
    free(team->here);
    free(team->meetings);
    free(team);
}

/* ------------------------------------------------------------------------------------------- rounds */

static weft_result break_off(weft_team *team, weft_result result)
{
    if (team->broken.result == WEFT_OK) {
        weft__verdict_add(&team->broken, result);
        pthread_cond_broadcast(&team->round_over);
    }
    return weft__verdict_result(&team->broken);
}

static weft_result name_missing(weft_team *team)
{
    char text[128] = "";
    for (int r = 0; r < team->ranks; r++)
        if (!team->here[r])
            weft__ranks_add(text, sizeof text, r);
    return break_off(team,
                     weft__fail(WEFT_E_TIMEOUT, "%d of %d ranks came; missing: %s", team->came, team->ranks, text));
}

/* Take part in a round in which each rank gives @p bytes; the first to come makes it. */
static weft_result join(weft_team *team, int rank, size_t bytes)
{
    if (team->broken.result != WEFT_OK)
        return weft__verdict_result(&team->broken);
    if (team->came == 0) {
        team->bytes = bytes;
        team->worst = (weft__verdict){0};
        memset(team->here, 0, (size_t)team->ranks * sizeof *team->here);
    }
    if (bytes != team->bytes || team->here[rank])
        return break_off(team, weft__fail(WEFT_E_MISMATCH, "two threads say that they are rank %d", rank));
    team->here[rank] = true;
    team->came++;
    return WEFT_OK;
}

static weft_result wait_for_round(weft_team *team, uint64_t round, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    while (team->round == round && team->broken.result == WEFT_OK)
        if (pthread_cond_timedwait(&team->round_over, &team->lock, &until) == ETIMEDOUT && team->round == round)
            return name_missing(team);
    return team->round != round ? WEFT_OK : weft__verdict_result(&team->broken);
}

/* A round ends when all have put in; it begins anew only when all have read: two halves of the same barrier. */
static weft_result barrier(weft_team *team, uint64_t deadline_ns)
{
    uint64_t round = team->round;
    if (team->came == team->ranks) {
        team->came = 0;
        team->round++;
        pthread_cond_broadcast(&team->round_over);
        return WEFT_OK;
    }
    return wait_for_round(team, round, deadline_ns);
}

static weft_result leave(weft_team *team, uint64_t deadline_ns)
{
    team->came++;
    return barrier(team, deadline_ns);
}

/* The first of a round makes the table. */
static weft_result put_in(weft_team *team, int rank, const void *mine, size_t bytes)
{
    WEFT_TRY(join(team, rank, bytes));
    if (team->came == 1) {
        free(team->table);
        team->table = weft__alloc(bytes * (size_t)team->ranks);
    }
    if (!team->table)
        return break_off(team, WEFT_E_NO_MEMORY);
    memcpy(team->table + (size_t)rank * bytes, mine, bytes);
    return WEFT_OK;
}

static weft_result exchange(weft__meeting *meeting, const void *mine, size_t bytes, void *all)
{
    weft_team *team = ((team_meeting *)meeting)->team;
    pthread_mutex_lock(&team->lock);
    weft_result result = put_in(team, meeting->rank, mine, bytes);
    if (result == WEFT_OK)
        result = barrier(team, meeting->deadline_ns);
    if (result == WEFT_OK) {
        memcpy(all, team->table, bytes * (size_t)team->ranks);
        result = leave(team, meeting->deadline_ns);
    }
    pthread_mutex_unlock(&team->lock);
    return result;
}

static void put_verdict(weft_team *team, int rank, const weft__verdict *verdict)
{
    if (verdict->result == WEFT_OK || (team->worst.result != WEFT_OK && team->worst_rank < rank))
        return;
    team->worst = *verdict;
    team->worst_rank = rank;
}

static weft_result agree(weft__meeting *meeting, weft__verdict *verdict)
{
    weft_team *team = ((team_meeting *)meeting)->team;
    pthread_mutex_lock(&team->lock);
    weft_result result = join(team, meeting->rank, sizeof *verdict);
    if (result == WEFT_OK) {
        put_verdict(team, meeting->rank, verdict);
        result = barrier(team, meeting->deadline_ns);
    }
    if (result == WEFT_OK) {
        *verdict = team->worst;
        result = leave(team, meeting->deadline_ns);
    }
    pthread_mutex_unlock(&team->lock);
    return result == WEFT_OK ? weft__verdict_result(verdict) : result;
}

void weft__team_break(weft_team *team, int rank, weft_result result)
{
    weft__verdict verdict = {0};
    weft__verdict_add(&verdict, result);
    if (rank >= 0)
        weft__verdict_sign(&verdict, rank);
    pthread_mutex_lock(&team->lock);
    (void)break_off(team, weft__verdict_result(&verdict));
    pthread_mutex_unlock(&team->lock);
}

static weft_result share(weft__meeting *meeting, weft__segment *mine, const size_t *reserves, weft__segment **segments,
                         weft__segment **owned_out)
{
    (void)mine, (void)reserves;
    weft_team *team = ((team_meeting *)meeting)->team;
    for (int r = 0; r < team->ranks; r++)
        segments[r] = &team->segments[r];
    *owned_out = NULL;
    return WEFT_OK; /* all segments were made before the ranks agreed to share them */
}

static int *take_links(weft__meeting *meeting)
{
    (void)meeting;
    return NULL;
}

static void end(weft__meeting *meeting)
{
    (void)meeting;
}

static const weft__meeting_table calls = {exchange, agree, share, take_links, end};

weft__meeting *weft__team_meet(weft_team *team, int rank, uint32_t timeout_ms)
{
    team_meeting *m = &team->meetings[rank];
    m->meeting = (weft__meeting){.calls = &calls,
                                 .can_share = true,
                                 .rank = rank,
                                 .size = team->ranks,
                                 .deadline_ns = weft__now_ns() + (uint64_t)timeout_ms * 1000000u};
    m->team = team;
    return &m->meeting;
}
