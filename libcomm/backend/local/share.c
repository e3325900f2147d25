/* SPDX-License-Identifier: Apache-2.0 */
/* Work that others may take over. A rank that has arrived may compute while others wait for it; all they need lies
 * where they can reach it, so who is done with its own work does theirs, a part at a time. A part is done the same way
 * whoever does it, so results are the same to the bit. The owner claims parts from the begin of each move, others from
 * its end. Nobody lets go before all parts are done: until then somebody may read and write anywhere. */
#include "backend/local/local.h"

#define LEAST   ((size_t)2 << 20)
#define FEW     4     /* parts that an owner who is at them is left to do alone */
#define LOST_NS 30000 /* without a claim: a few times what a part takes */
#define AWAY_NS 3000  /* longer than from turn to turn */

static weft__share *share_of(const weft__local_comm *lc, int member)
{
    return weft__page_share(&lc->layout, lc->pages[member], lc->head->number);
}

/* ------------------------------------------------------------------------------------------- claims */

static uint32_t parts_of(const weft__move *move)
{
    return (uint32_t)((move->bytes + WEFT__PART - 1) / WEFT__PART);
}

static uint32_t from_begin(uint64_t claims)
{
    return (uint32_t)claims;
}

static uint32_t from_end(uint64_t claims)
{
    return (uint32_t)(claims >> 32);
}

static bool is_all_claimed(uint64_t claims, const weft__move *move)
{
    return (uint64_t)from_begin(claims) + from_end(claims) >= parts_of(move);
}

static void open_part(weft__move *move, uint32_t part)
{
    move->done = part * WEFT__PART;
    move->end = move->bytes - move->done < WEFT__PART ? move->bytes : move->done + WEFT__PART;
}

bool weft__share_has_left(const weft__local_comm *lc, const weft__move *move)
{
    if (move->done < move->end || !lc->plan.shared)
        return move->done < move->end;
    return !is_all_claimed(atomic_load(&share_of(lc, lc->rank)->claims[move - lc->plan.move]), move);
}

bool weft__share_claim(weft__local_comm *lc, weft__move *move)
{
    if (!lc->plan.shared)
        return false;
    _Atomic uint64_t *word = &share_of(lc, lc->rank)->claims[move - lc->plan.move];
    uint64_t claims = atomic_load(word);
    do {
        if (is_all_claimed(claims, move))
            return false;
    } while (!atomic_compare_exchange_weak(word, &claims, claims + 1));
    open_part(move, from_begin(claims));
    lc->plan.claimed++;
    return true;
}

static bool claim_last(_Atomic uint64_t *word, weft__move *move)
{
    uint64_t claims = atomic_load(word);
    do {
        if (is_all_claimed(claims, move))
            return false;
    } while (!atomic_compare_exchange_weak(word, &claims, claims + ((uint64_t)1 << 32)));
    open_part(move, parts_of(move) - 1 - from_end(claims));
    return true;
}

/* ------------------------------------------------------------------------------------------- the owner */

/* Less is done before anybody could come to it. */
static bool is_worth_it(const weft__local_comm *lc, const weft_op *op)
{
    const weft_collective *c = &op->what;
    size_t bytes = c->count * weft__dtype_bytes(c->dtype);
    return weft__local_kinds[c->kind].shared && !lc->plan.in_slot &&
           bytes * weft__most_parts(&weft__collectives[c->kind], lc->count) >= LEAST;
}

void weft__share_offer(weft__local_comm *lc, const weft_op *op)
{
    const weft_collective *c = &op->what;
    const weft__collective_row *row = &weft__collectives[c->kind];
    weft__share *share = weft__page_share(&lc->layout, lc->page, op->number);
    size_t part = c->count * weft__dtype_bytes(c->dtype);
    if (!is_worth_it(lc, op))
        return;
    bool ends_meet = weft__local_stride(op) == part;
    bool exchange = row->send == WEFT__PART_PER_RANK && row->recv == row->send && c->send == c->recv;
    bool offered = ends_meet && !exchange &&
                   weft__local_offset(lc, c->send, part * weft__parts(row->send, lc->count)) != WEFT__NOWHERE;
    share->recv = WEFT__NOWHERE;
    if (offered && weft__concerns(row->receivers, lc->rank, c->root))
        share->recv = weft__local_offset(lc, c->recv, part * weft__parts(row->recv, lc->count));
    else if (offered)
        share->recv = 0; /* there is none */
    atomic_store_explicit(&share->done, 0, memory_order_relaxed);
    atomic_store_explicit(&share->attended, 0, memory_order_relaxed);
    for (int i = 0; i < lc->count; i++)
        atomic_store_explicit(&share->claims[i], 0, memory_order_relaxed);
}

/* Can others do what the member has to do? The same on all ranks, once all have arrived. */
static bool is_shared(const weft__local_comm *lc, const weft_op *op, const weft__share *share)
{
    return share->recv != WEFT__NOWHERE && (!weft__local_kinds[op->what.kind].by_slices || lc->plan.fused);
}

void weft__share_cut(weft__local_comm *lc, const weft_op *op)
{
    weft__plan *plan = &lc->plan;
    lc->help.looked = false;
    plan->claimed = 0;
    plan->shared = is_worth_it(lc, op) && is_shared(lc, op, weft__page_share(&lc->layout, lc->page, op->number));
    for (int i = 0; plan->shared && i < plan->moves; i++)
        plan->move[i].end = 0;
}

void weft__share_attend(weft__local_comm *lc, bool attended)
{
    if (lc->plan.shared)
        atomic_store_explicit(&share_of(lc, lc->rank)->attended, attended, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------------- all members */

/* What member @p member has to do, to the plan of help. */
static void plan_of(weft__local_comm *lc, const weft_op *op, int member)
{
    weft__side side = {.rank = member};
    const weft__request *asked = weft__page_request(lc->pages[member], op->number);
    if (asked->send != WEFT__NOWHERE)
        side.send = lc->bases[member] + asked->send;
    side.recv = lc->bases[member] + share_of(lc, member)->recv;
    weft__plan_of_member(lc, op, &side, lc->plan.fused, &lc->help.plan);
}

/* Once all have arrived, so that it is known who shares how much. */
static void look_around(weft__local_comm *lc, const weft_op *op)
{
    weft__help *help = &lc->help;
    for (int i = 0; i < lc->count; i++) {
        help->parts[i] = 0;
        help->pace[i].ticks = 0;
        help->shared[i] = is_shared(lc, op, share_of(lc, i));
        if (help->shared[i])
            plan_of(lc, op, i);
        for (int m = 0; help->shared[i] && m < help->plan.moves; m++)
            help->parts[i] += parts_of(&help->plan.move[m]);
    }
    help->looked = true;
}

bool weft__share_is_done(const weft__local_comm *lc, int member)
{
    return lc->help.looked && lc->help.shared[member] &&
           atomic_load(&share_of(lc, member)->done) >= lc->help.parts[member];
}

static bool all_is_done(const weft__local_comm *lc)
{
    for (int i = 0; i < lc->count; i++)
        if (lc->help.shared[i] && !weft__share_is_done(lc, i))
            return false;
    return true;
}

/* Parts of a member's are done. Those who wait, wait for all. */
static void add_done(weft__local_comm *lc, int member, uint32_t parts)
{
    atomic_fetch_add(&share_of(lc, member)->done, parts);
    if (all_is_done(lc))
        weft__local_wake_all(lc);
}

void weft__share_tell(weft__local_comm *lc, weft_op *op)
{
    if (!is_worth_it(lc, op))
        return;
    look_around(lc, op);
    if (!lc->plan.shared)
        return;
    if (!op->first && lc->plan.moves) /* others have moved all of it, from then on */
        op->first = op->last_arrival;
    add_done(lc, lc->rank, lc->plan.claimed);
}

/* ------------------------------------------------------------------------------------------- help */

/* Is the owner to be left alone with it? While it gets on, little is left better in the cache of who has begun. Between
 * two turns it is away for a moment; it may also have lost its processor while it was at it. */
static bool is_best_left(weft__local_comm *lc, int member, const weft__share *share)
{
    weft__pace *pace = &lc->help.pace[member];
    uint64_t now = weft__ticks();
    uint32_t own = 0, helped = 0, attended = atomic_load_explicit(&share->attended, memory_order_relaxed);
    for (int m = 0; m < lc->count; m++) {
        uint64_t claims = atomic_load_explicit(&share->claims[m], memory_order_relaxed);
        own += from_begin(claims);
        helped += from_end(claims);
    }
    if (own != pace->claimed || !pace->ticks)
        *pace = (weft__pace){now, own};
    double idle_ns = (double)(now - pace->ticks) * lc->local->world->progress.ns_per_tick;
    if (attended)
        return lc->help.parts[member] - own - helped <= FEW && idle_ns < LOST_NS;
    return idle_ns < AWAY_NS;
}

/* The last part that can be had of what the member has to do. */
static weft__move *claim_of(weft__local_comm *lc, const weft_op *op, int member)
{
    weft__share *share = share_of(lc, member);
    if (!lc->help.shared[member] || weft__share_is_done(lc, member) || is_best_left(lc, member, share))
        return NULL;
    plan_of(lc, op, member);
    for (int m = lc->help.plan.moves - 1; m >= 0; m--) {
        weft__move *move = &lc->help.plan.move[m];
        if (weft__move_is_direct(lc, op, move) && claim_last(&share->claims[m], move))
            return move;
    }
    return NULL;
}

/* One part of a member's. False: there is none. */
static bool help_member(weft__local_comm *lc, weft_op *op, int member)
{
    weft__move *move = claim_of(lc, op, member);
    if (!move)
        return false;
    if (weft__local_all_still_good(lc, op) && weft__move_helped(lc, op, move) && weft__local_all_still_good(lc, op))
        add_done(lc, member, 1);
    return true;
}

unsigned weft__share_help(weft__local_comm *lc, weft_op *op, bool *over)
{
    unsigned answer = 0;
    *over = !lc->help.looked || all_is_done(lc);
    for (int step = 1; !*over && step < lc->count; step++) {
        int member = (lc->rank + step) % lc->count;
        while (!weft__local_has_verdict(lc) && !lc->local->turn_over && help_member(lc, op, member)) {
            answer = WEFT_PROGRESS_MOVED;
            (void)weft__local_turn_over(lc->local);
        }
    }
    return answer;
}

/* ------------------------------------------------------------------------------------------- failure */

/* Take all that nobody has claimed: how much have others? */
static uint32_t close_share(weft__local_comm *lc, weft__share *share)
{
    uint32_t others = 0;
    for (int m = 0; m < lc->plan.moves; m++) {
        uint64_t claims = atomic_load(&share->claims[m]);
        while (!is_all_claimed(claims, &lc->plan.move[m]))
            if (atomic_compare_exchange_weak(&share->claims[m], &claims, claims + 1))
                claims++;
        others += from_end(claims);
    }
    return others;
}

bool weft__share_is_written(weft__local_comm *lc)
{
    if (!lc->plan.shared)
        return false;
    weft__share *share = share_of(lc, lc->rank);
    uint32_t told = lc->phase > WEFT__SECOND_MOVE ? lc->plan.claimed : 0;
    return close_share(lc, share) > atomic_load(&share->done) - told;
}
