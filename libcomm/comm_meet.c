/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of making a comm: its members look for each other's cards, compare them, and connect. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ranks.h"
#include "base/verdict.h"
#include "comm.h"
#include "control.h"

/* ------------------------------------------------------------------------------------------- looking at cards */

static weft_result compare_terms(const weft_comm *comm, const weft__card_terms *theirs, int their_rank)
{
    const weft__card_terms *mine = &comm->terms;
    const char *name = comm->name;
    int self = comm->world->rank;
    if (strcmp(theirs->backend, mine->backend) != 0)
        return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d has backend %s, rank %d %s", name, their_rank,
                          theirs->backend, self, mine->backend);
    const struct {
        const char *what;
        uint32_t theirs, mine;
    } numbers[] = {
        {"version", theirs->weft_version, mine->weft_version},
        {"works", theirs->works, mine->works},
        {"p2p_channels", theirs->p2p_channels, mine->p2p_channels},
        {"timeout_ms", theirs->timeout_ms, mine->timeout_ms},
        {"flags", theirs->flags, mine->flags},
        {"least_ctas", theirs->least_ctas, mine->least_ctas},
        {"most_ctas", theirs->most_ctas, mine->most_ctas},
        {"card_bytes", theirs->backend_card_bytes, mine->backend_card_bytes},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].theirs != numbers[i].mine)
            return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d has %s %u, rank %d %u", name, their_rank,
                              numbers[i].what, numbers[i].theirs, self, numbers[i].mine);
    return WEFT_OK;
}

/* A member that has not made the comm may have ended, or given up all it did: since this comm was begun, or for good.
 */
static weft_result look_for_end(const weft_comm *comm, int rank, bool ended)
{
    const weft_world *world = comm->world;
    const weft__board *board = world->boards[rank];
    char text[sizeof board->aborted_text + 32];
    weft_result aborted = (weft_result)atomic_load(&board->aborted);
    if (aborted != WEFT_OK && (ended || board->aborted_ns > comm->began_ns))
        return weft__fail(aborted, "%s", weft__verdict_told(board->aborted_text, rank, text, sizeof text));
    if (ended && atomic_load(&world->lost[rank]) == WEFT__LOST_SILENT)
        return weft__fail(WEFT_E_TIMEOUT, "comm %s: nothing is heard of rank %d any more", comm->name, rank);
    if (ended)
        return weft__fail(WEFT_E_PEER_LOST, "comm %s: rank %d has ended", comm->name, rank);
    return WEFT_OK;
}

/* A member that has not come may make another comm of that name: with this rank, which makes this one. */
static weft_result look_for_rival(const weft_comm *comm, int rank)
{
    weft_world *world = comm->world;
    const weft__board *board = world->boards[rank];
    weft__card_key key;
    weft__card_view other;
    if (!weft__board_find_rival(board, comm->key, world->rank, comm->began_ns, &key, &other))
        return WEFT_OK;
    const weft__name_use *use = weft__name_use_of(world, comm->name, key.ranks);
    if (use && use->count >= other.incarnation)
        return WEFT_OK; /* one that this rank has had with it: the other is late in destroying it */
    return weft__fail(WEFT_E_MISMATCH, "comm %s: rank %d lists ranks %s, rank %d lists %s", comm->name, rank,
                      other.terms.ranks, world->rank, comm->terms.ranks);
}

/* Attempts have failed that this rank knows nothing of: it takes the number of those that have come. */
static void catch_up(weft_comm *comm, uint32_t incarnation)
{
    comm->use->count = incarnation;
    atomic_store(&comm->card->incarnation, incarnation);
    weft__control_tell_card(comm->world, comm->card, &comm->terms, comm->ranks, comm->size);
    memset(comm->seen, 0, (size_t)comm->size * sizeof *comm->seen);
}

/* What a card says of this comm, taken over. */
static weft_result take_card(weft_comm *comm, int member, const weft__card_view *card)
{
    int rank = comm->ranks[member];
    const weft__card_terms *terms = &card->terms;
    char text[sizeof terms->verdict_text + 32];
    bool far = !comm->world->segments[rank]; /* on this machine, its failure is found in what the backend shares */
    if (card->left == WEFT__CARD_GAVE_UP || (far && card->left == WEFT__CARD_FAILED))
        return weft__fail((weft_result)terms->verdict, "%s",
                          weft__verdict_told(terms->verdict_text, rank, text, sizeof text));
    WEFT_TRY(compare_terms(comm, terms, rank));
    memcpy(comm->cards + (size_t)member * comm->facts.card_bytes, terms->backend_card, comm->facts.card_bytes);
    comm->seen[member] = true;
    return WEFT_OK;
}

/* WEFT_PENDING: it has not come, or another number is to be tried. */
static weft_result look_at(weft_comm *comm, int member)
{
    weft_world *world = comm->world;
    int rank = comm->ranks[member];
    const weft__board *board = world->boards[rank];
    /* Asked before its cards are looked at: it may come, go and end in between. */
    bool ended = atomic_load(&board->state) != WEFT__RANK_OPEN || atomic_load(&world->lost[rank]);
    uint32_t mine = comm->use->count;
    weft__card_view card;
    if (!weft__board_look(board, comm->key, mine, &card))
        card.incarnation = 0, card.left = WEFT__CARD_STAYS;
    if (card.left == WEFT__CARD_STAYS)
        WEFT_TRY(look_for_end(comm, rank, ended));
    if (card.incarnation > mine && card.left == WEFT__CARD_STAYS) {
        catch_up(comm, card.incarnation);
        return WEFT_PENDING;
    }
    if (card.incarnation >= mine)
        return take_card(comm, member, &card);
    if (!weft__control_hears(world, rank))
        return weft__fail(WEFT_E_PEER_LOST,
                          "comm %s: rank %d is on another machine, and rank 0, which passes on what it says, has ended",
                          comm->name, rank);
    WEFT_TRY(look_for_rival(comm, rank));
    return WEFT_PENDING;
}

/* All of them; who was seen may have ended or given up since. WEFT_PENDING: some are missing. */
static weft_result look_for_cards(weft_comm *comm)
{
    weft_result all = WEFT_OK;
    for (int i = 0; i < comm->size; i++) {
        weft_result one = look_at(comm, i);
        WEFT_TRY(one);
        all = one == WEFT_PENDING ? WEFT_PENDING : all;
    }
    return all;
}

/* ------------------------------------------------------------------------------------------- the second half */

static weft_result name_absent(const weft_comm *comm)
{
    char text[128] = "";
    for (int i = 0; i < comm->size; i++)
        if (!comm->seen[i])
            weft__ranks_add(text, sizeof text, comm->ranks[i]);
    return weft__fail(WEFT_E_TIMEOUT, "comm %s: not all members came to make it; missing: %s", comm->name, text);
}

static weft_result rest(const weft_comm *comm, long *pause_ns)
{
    nanosleep(&(struct timespec){.tv_nsec = *pause_ns}, NULL);
    *pause_ns = *pause_ns < 1000000 ? *pause_ns * 2 : *pause_ns;
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    return verdict == WEFT_OK ? WEFT_OK : weft__fail_quietly(verdict, comm->verdict_text);
}

static weft_result meet(weft_comm *comm, uint64_t deadline_ns)
{
    long pause_ns = 20000;
    weft_result result;
    while ((result = look_for_cards(comm)) == WEFT_PENDING) {
        if (weft__now_ns() > deadline_ns)
            return name_absent(comm);
        WEFT_TRY(rest(comm, &pause_ns));
    }
    return result;
}

/* In the seat, so that a verdict finds it connected or not. */
static weft_result try_to_connect(weft_comm *comm)
{
    weft__progress_enter(comm->world);
    weft_result result = (weft_result)atomic_load(&comm->verdict);
    if (result != WEFT_OK)
        result = weft__fail_quietly(result, comm->verdict_text);
    else
        result = weft__wire_call(comm->instance)->comm_connect(comm->backend_comm, comm->cards);
    comm->connected = result == WEFT_OK;
    if (comm->connected && comm->card) /* a member may have said that it has failed meanwhile */
        atomic_store(&comm->world->progress.verdicts, 1);
    weft__progress_leave(comm->world);
    return result == WEFT_E_UNSUPPORTED ? weft__comm_cannot_make(comm) : result;
}

/* A library for GPUs connects members in calls that wait for each other, and says nothing of who has not come: a
 * member may have been here, and not come to connect. */
static void say_that_it_connects(weft_comm *comm)
{
    if (!comm->gpu || !comm->card)
        return;
    comm->terms.comes_to_connect = 1;
    weft__board_renew(comm->card, &comm->terms);
    weft__control_tell_card(comm->world, comm->card, &comm->terms, comm->ranks, comm->size);
}

static weft_result name_unconnected(const weft_comm *comm)
{
    char text[128] = "";
    weft__card_view card;
    for (int i = 0; comm->gpu && comm->card && i < comm->size; i++)
        if (i != comm->rank &&
            weft__board_look(comm->world->boards[comm->ranks[i]], comm->key, comm->use->count, &card) &&
            !card.terms.comes_to_connect)
            weft__ranks_add(text, sizeof text, comm->ranks[i]);
    return weft__fail(WEFT_E_TIMEOUT, "comm %s: backend %s did not connect its %d members%s%s", comm->name,
                      comm->backend->name, comm->size, *text ? "; not come to connect: " : "", text);
}

static weft_result connect_members(weft_comm *comm, uint64_t deadline_ns)
{
    long pause_ns = 20000;
    weft_result result;
    say_that_it_connects(comm);
    while ((result = try_to_connect(comm)) == WEFT_PENDING) {
        if (weft__now_ns() > deadline_ns)
            return name_unconnected(comm);
        WEFT_TRY(rest(comm, &pause_ns));
        WEFT_TRY(comm->size > 1 ? look_for_cards(comm) : WEFT_OK); /* one may have given up */
    }
    return result;
}

weft_result weft_comm_create_finish(weft_comm *comm)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "no comm to make");
    WEFT_TRY(weft__world_alive(comm->world));
    if (comm->connected)
        return weft__fail(WEFT_E_STATE, "comm %s is made already", comm->name);
    uint64_t deadline_ns = weft__now_ns() + (uint64_t)comm->world->config.rendezvous_timeout_ms * 1000000u;
    weft_result result = comm->size > 1 ? meet(comm, deadline_ns) : WEFT_OK;
    if (result == WEFT_OK)
        result = connect_members(comm, deadline_ns);
    return weft__verdict_add(&comm->unmade, result);
}

weft_result weft_comm_create(weft_world *world, const char *name, const int *ranks, int count,
                             const weft_comm_config *config, weft_comm **comm_out)
{
    WEFT_TRY(weft_comm_create_start(world, name, ranks, count, config, comm_out));
    weft_result result = weft_comm_create_finish(*comm_out);
    if (result != WEFT_OK) {
        weft_comm_destroy(*comm_out);
        *comm_out = NULL;
    }
    return result;
}
