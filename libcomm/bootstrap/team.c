/* SPDX-License-Identifier: Apache-2.0 */
/* Threads meet in the memory of their team: each puts in what it has, and the last to come lets all go on. */
#include "bootstrap/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/meeting.h"

struct weft_team {
    int ranks;
    int next_rank;
    pthread_mutex_t lock;
    pthread_cond_t round_over;
    weft__segment *segments;
    /* The present round of exchange. */
    unsigned char *table;
    size_t table_bytes;
    int came;
    bool *here;
    uint64_t round;
    /* A round that failed fails all that follow. */
    weft_result failed;
    char failure[256];
};

typedef struct team_meeting {
    weft__meeting meeting;
    weft_team *team;
} team_meeting;

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
    if (!team->segments || !team->here) {
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
    free(team);
}

static weft_result fail_round(weft_team *team, weft_result result)
{
    if (!team->failed) {
        team->failed = result;
        snprintf(team->failure, sizeof team->failure, "%s", weft_last_error());
        pthread_cond_broadcast(&team->round_over);
    }
    return result;
}

static weft_result name_missing(weft_team *team)
{
    char text[128] = "";
    size_t used = 0;
    for (int r = 0; r < team->ranks && used < sizeof text - 16; r++)
        if (!team->here[r])
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", used ? ", " : "", r);
    return fail_round(team,
                      weft__fail(WEFT_E_TIMEOUT, "%d of %d ranks came; missing: %s", team->came, team->ranks, text));
}

/* Put in this rank's part; the first of a round makes the table. */
static weft_result put_in(weft_team *team, int rank, const void *mine, size_t bytes)
{
    if (team->failed)
        return weft__fail_quietly(team->failed, team->failure);
    if (team->came == 0) {
        unsigned char *table = realloc(team->table, bytes * (size_t)team->ranks);
        if (!table)
            return fail_round(team, weft__fail(WEFT_E_NO_MEMORY, "no memory for what %d ranks tell", team->ranks));
        team->table = table;
        team->table_bytes = bytes;
        memset(team->here, 0, (size_t)team->ranks * sizeof *team->here);
    }
    if (bytes != team->table_bytes || team->here[rank])
        return fail_round(team, weft__fail(WEFT_E_MISMATCH, "two threads say that they are rank %d", rank));
    memcpy(team->table + (size_t)rank * bytes, mine, bytes);
    team->here[rank] = true;
    team->came++;
    return WEFT_OK;
}

static weft_result wait_for_round(weft_team *team, uint64_t round, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    while (team->round == round && !team->failed)
        if (pthread_cond_timedwait(&team->round_over, &team->lock, &until) == ETIMEDOUT && team->round == round)
            return name_missing(team);
    return team->round != round ? WEFT_OK : weft__fail_quietly(team->failed, team->failure);
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

static weft_result exchange(weft__meeting *meeting, const void *mine, size_t bytes, void *all)
{
    weft_team *team = ((team_meeting *)meeting)->team;
    pthread_mutex_lock(&team->lock);
    weft_result result = put_in(team, meeting->rank, mine, bytes);
    if (result == WEFT_OK)
        result = barrier(team, meeting->deadline_ns);
    if (result == WEFT_OK) {
        memcpy(all, team->table, bytes * (size_t)team->ranks);
        team->came++;
        result = barrier(team, meeting->deadline_ns);
    }
    pthread_mutex_unlock(&team->lock);
    return result;
}

static weft_result share(weft__meeting *meeting, weft__segment *mine, const size_t *reserves, weft__segment **segments,
                         weft__segment **owned_out)
{
    (void)mine, (void)reserves;
    weft_team *team = ((team_meeting *)meeting)->team;
    weft_result result = weft__meeting_agree(meeting, WEFT_OK); /* all segments are made */
    for (int r = 0; r < team->ranks; r++)
        segments[r] = &team->segments[r];
    *owned_out = NULL;
    return result;
}

static void end(weft__meeting *meeting)
{
    free(meeting);
}

static const weft__meeting_table calls = {exchange, share, end};

weft_result weft__team_meet(weft_team *team, int rank, uint32_t timeout_ms, weft__meeting **meeting_out)
{
    team_meeting *m = weft__alloc(sizeof *m);
    if (!m)
        return WEFT_E_NO_MEMORY;
    m->meeting = (weft__meeting){&calls, rank, team->ranks, weft__now_ns() + (uint64_t)timeout_ms * 1000000u};
    m->team = team;
    *meeting_out = &m->meeting;
    return WEFT_OK;
}
