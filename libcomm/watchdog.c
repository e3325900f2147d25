/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of operations: what has not ended in time fails its comm, with a message that names who has not arrived.
 * Death is never concluded from silence: silence only ends in a deadline. */
#include "watchdog.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/collectives.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/verdict.h"
#include "comm.h"
#include "control.h"

#define FAILED_SLEEP_MS 5 /* a failed comm gives its works back after a while, and nobody rings */
#define LOOK_EVERY_NS   50000000ull
#define COMPARE_NS      1000000000ull /* a collective of that age is compared with the others' */
#define NAME_AFTER_NS   30000000000ull

static uint64_t age_ns(const weft__work *work)
{
    return (uint64_t)((double)(weft__ticks() - work->ready) * work->comm->world->progress.ns_per_tick);
}

int weft__watchdog_sleep_outside_ms(const weft__work *work, int most_ms)
{
    return atomic_load(&work->comm->verdict) == WEFT_OK ? most_ms : FAILED_SLEEP_MS;
}

int weft__watchdog_sleep_ms(const weft__work *work, int most_ms)
{
    most_ms = weft__watchdog_sleep_outside_ms(work, most_ms);
    uint64_t age = age_ns(work), limit = work->comm->timeout_ns;
    uint64_t left_ms = age < limit ? (limit - age) / 1000000 + 1 : 1;
    return left_ms < (uint64_t)most_ms ? (int)left_ms : most_ms;
}

static void explain(const weft__work *work, char *text, size_t bytes)
{
    const weft_comm *comm = work->comm;
    if (work->after)
        snprintf(text, bytes, "it runs after an operation that has not ended");
    else if (!work->op.start)
        snprintf(text, bytes, "it waits for earlier operations of this comm");
    else
        comm->backend->explain(comm->backend_comm, &work->op, text, bytes);
}

static void look_at(weft_comm *comm, weft__work *work)
{
    uint64_t age = age_ns(work);
    bool late = age > comm->timeout_ns;
    bool name = age > NAME_AFTER_NS && weft__now_ns() - comm->named_ns > NAME_AFTER_NS;
    if (!late && !name)
        return;
    char what[160], why[192];
    weft__work_describe(work, what, sizeof what);
    explain(work, why, sizeof why);
    if (late) {
        weft_backend_fail(comm, WEFT_E_TIMEOUT, "%s did not end in %.1f s: %s", what, (double)age * 1e-9, why);
    } else {
        comm->named_ns = weft__now_ns();
        weft__log(WEFT_LOG_WARN, "%s has taken %.0f s so far: %s", what, (double)age * 1e-9, why);
    }
}

/* ------------------------------------------------------------------------------------------- comparing */

static uint64_t check_of(const weft__card_stuck *s)
{
    return weft__hash(WEFT__HASH_START, s, offsetof(weft__card_stuck, check));
}

/* Backends compare what meets. Members that ask for different things may never meet: then each waits for the other. */
static void compare(const weft_comm *comm, int rank, const weft__card_stuck *theirs)
{
    const weft__card_stuck *mine = &comm->terms.stuck;
    if (theirs->number != mine->number || theirs->check != check_of(theirs))
        return;
    weft_collective a = {.kind = (weft_collective_kind)theirs->kind,
                         .dtype = (weft_dtype)theirs->dtype,
                         .reduction = (weft_reduction)theirs->reduction,
                         .root = theirs->root,
                         .count = (size_t)theirs->count};
    weft_collective b = {.kind = (weft_collective_kind)mine->kind,
                         .dtype = (weft_dtype)mine->dtype,
                         .reduction = (weft_reduction)mine->reduction,
                         .root = mine->root,
                         .count = (size_t)mine->count};
    if (weft__is_collective(a.kind) && weft__collective_same(&a, &b))
        return;
    char a_text[96], b_text[96];
    weft__collective_describe(&a, a_text, sizeof a_text);
    weft__collective_describe(&b, b_text, sizeof b_text);
    weft_backend_fail((weft_comm *)(uintptr_t)comm, WEFT_E_MISMATCH,
                      "comm %s, operation %llu: rank %d asks for %s, rank %d for %s", comm->name,
                      (unsigned long long)mine->number, rank, a_text, comm->world->rank, b_text);
}

static void say_stuck(weft_comm *comm, const weft_op *op)
{
    const weft_collective *c = &op->what;
    weft__card_stuck *s = &comm->terms.stuck;
    *s = (weft__card_stuck){.number = op->number,
                            .count = c->count,
                            .kind = (int32_t)c->kind,
                            .dtype = (int32_t)c->dtype,
                            .reduction = (int32_t)c->reduction,
                            .root = c->root};
    s->check = check_of(s);
    weft__board_renew(comm->card, &comm->terms);
    if (comm->rank > 0)
        weft__control_tell_card(comm->world, comm->card, &comm->terms, comm->ranks, 1);
}

/* If any two differ, one of them differs from member 0: it looks at all, the others at it. */
static void look_for_difference(weft_comm *comm, const weft_op *oldest)
{
    weft_world *world = comm->world;
    if (!comm->card || !comm->connected)
        return;
    if (comm->terms.stuck.number != oldest->number)
        say_stuck(comm, oldest);
    for (int i = 0; i < (comm->rank == 0 ? comm->size : 1); i++) {
        weft__card_view card;
        if (i != comm->rank && weft__board_look(world->boards[comm->ranks[i]], comm->key, comm->use->count, &card) &&
            card.incarnation == comm->use->count && card.left == WEFT__CARD_STAYS)
            compare(comm, comm->ranks[i], &card.terms.stuck);
    }
}

/* ------------------------------------------------------------------------------------------- verdicts of others */

/* Does a member say on its card that the comm has failed, or that it could not connect? Then it has. */
static void fail_if_said(weft_comm *comm, int rank)
{
    weft__card_view card;
    char text[sizeof card.terms.verdict_text + 32];
    if (weft__board_look(comm->world->boards[rank], comm->key, comm->use->count, &card) &&
        card.incarnation == comm->use->count && weft__card_says_why(&card))
        weft_backend_fail(comm, (weft_result)card.terms.verdict, "%s",
                          weft__verdict_told(card.terms.verdict_text, rank, text, sizeof text));
}

/* Backends tell their own in their own ways, if they can: a library for GPUs tells nobody, a wire not those whom it
 * does not reach. So whatever a comm is carried by, each rank says why it failed on its card, and the others look
 * there: at those of ranks that have said something new, once for each comm. What such a rank did before still counts,
 * so that they look once all backends were moved along since it was noticed. */
static void notice_reasons(weft_world *world)
{
    for (int r = 0; world->said && r < world->size; r++) {
        uint32_t count = r == world->rank ? 0 : atomic_load(&world->boards[r]->reasons);
        if (count == world->said[r].count)
            continue;
        world->said[r] = (weft__said){count, ++world->reasons};
        world->reasons_round = world->progress.rounds;
        atomic_store(&world->progress.verdicts, 1);
    }
}

static void let_reasons_count(weft_world *world)
{
    if (world->progress.rounds != world->reasons_round)
        world->reasons_due = world->reasons;
    if (world->reasons_due != world->reasons)
        atomic_store(&world->progress.verdicts, 1); /* in the next round */
}

static void fail_if_told(weft_world *world, weft_comm *comm)
{
    uint64_t since = comm->reasons, due = world->reasons_due;
    if (since == due || !comm->connected || !comm->card)
        return;
    comm->reasons = due;
    for (int i = 0; i < comm->size && atomic_load(&comm->verdict) == WEFT_OK; i++) {
        uint64_t last = world->said[comm->ranks[i]].last;
        if (last > since) /* or a later one is not due yet, but what it said before is there, too */
            fail_if_said(comm, comm->ranks[i]);
    }
}

/* ------------------------------------------------------------------------------------------- looking */

void weft__watchdog_look(weft_world *world)
{
    weft__progress *p = &world->progress;
    uint64_t now = weft__now_ns();
    if (now - p->watched_ns < LOOK_EVERY_NS)
        return;
    p->watched_ns = now;
    notice_reasons(world);
    for (weft_comm *comm = world->comms; comm; comm = comm->next) {
        const weft_op *oldest = NULL;
        for (uint32_t i = 0; comm->slots && i < comm->slots->count; i++) {
            weft__work *work = weft__work_at(comm->slots, i);
            if (weft__work_is_free(work) || !atomic_load(&work->taken_up) || weft__work_ended(work) || comm->aborted)
                continue;
            look_at(comm, work);
            if (work->op.start && !work->op.is_p2p && age_ns(work) > COMPARE_NS &&
                (!oldest || work->op.number < oldest->number))
                oldest = &work->op;
        }
        if (oldest)
            look_for_difference(comm, oldest);
    }
}

static void fail_if_lost(weft_world *world, weft_comm *comm)
{
    for (int i = 0; world->lost && i < comm->size && atomic_load(&comm->verdict) == WEFT_OK; i++) {
        int rank = comm->ranks[i], how = atomic_load(&world->lost[rank]);
        if (how == WEFT__LOST_SILENT)
            weft_backend_fail(comm, WEFT_E_TIMEOUT, "nothing is heard of rank %d any more; comm %s is lost", rank,
                              comm->name);
        else if (how)
            weft_backend_fail(comm, WEFT_E_PEER_LOST, "rank %d has ended; comm %s is lost", rank, comm->name);
    }
}

void weft__watchdog_carry_out(weft_world *world)
{
    notice_reasons(world);
    let_reasons_count(world);
    for (weft_comm *comm = world->comms; comm; comm = comm->next) {
        fail_if_lost(world, comm);
        fail_if_told(world, comm);
        if (atomic_load(&comm->verdict) != WEFT_OK && !comm->aborted)
            weft__comm_carry_out_verdict(comm);
    }
}
