/* SPDX-License-Identifier: Apache-2.0 */
/* The collective at the head of a comm: its plan is handed to the lanes, and what comes is summed, copied and passed on
 * until all of it has ended. */
#include <stdio.h>
#include <string.h>

#include "ucx.h"

#define COPY_BYTES ((size_t)256 << 10) /* between two looks at the clock */
#define SUM_BYTES  4096                /* of what comes, summed at a time: they stay in the first cache */

static bool in_use(const weft__ucx_parcel *parcel)
{
    return parcel->op;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------------------------------------- comparing */

static bool fail_mismatch(weft__ucx_comm *uc, int member, const weft__ucx_request *theirs)
{
    char a[96], b[96], behind[48] = "";
    if (theirs->number != uc->last.number)
        snprintf(behind, sizeof behind, " (its operation %llu)", (unsigned long long)theirs->number);
    weft_backend_tell_asked(&theirs->asked, a, sizeof a);
    weft_backend_tell_asked(&uc->last.asked, b, sizeof b);
    weft_backend_fail(uc->comm, WEFT_E_MISMATCH, "comm %s, operation %llu: rank %d asks for %s%s, rank %d for %s",
                      uc->name, (unsigned long long)uc->last.number, uc->ranks[member], a, behind, uc->ranks[uc->rank],
                      b);
    uc->failed = true;
    return false;
}

static void note_seen(weft__ucx_comm *uc, int member, const weft__ucx_request *theirs)
{
    weft__ucx_peer *peer = &uc->peers[member];
    if (theirs->number <= peer->seen_number)
        return;
    peer->seen_number = theirs->number;
    peer->seen_kind = theirs->asked.kind;
    peer->seen_ticks = weft__ucx_ticks(uc->ucx);
}

bool weft__ucx_collective_fits(weft__ucx_comm *uc, int member, const weft__ucx_request *theirs,
                               const weft__ucx_parcel *parcel)
{
    note_seen(uc, member, theirs);
    if (!parcel) /* early, or nothing that was asked for here */
        return theirs->number > uc->last.number || fail_mismatch(uc, member, theirs);
    if (memcmp(theirs, &parcel->request, sizeof *theirs) != 0)
        return fail_mismatch(uc, member, theirs);
    weft_op *op = parcel->op;
    if (uc->peers[member].seen_ticks > op->last_arrival) {
        op->last_arrival = uc->peers[member].seen_ticks;
        op->late_rank = uc->ranks[member];
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- moving */

void weft__ucx_collective_ended(weft__ucx_comm *uc)
{
    uc->plan.left--;
}

static unsigned copy_some(weft__ucx_comm *uc)
{
    weft__ucx_plan *plan = &uc->plan;
    unsigned moved = 0;
    while (plan->copied < plan->copy_bytes) {
        size_t bytes = least(plan->copy_bytes - plan->copied, COPY_BYTES);
        memcpy(plan->copy_to + plan->copied, plan->copy_from + plan->copied, bytes);
        plan->copied += bytes;
        moved = WEFT_PROGRESS_MOVED;
        if (weft__ucx_turn_over(uc->ucx))
            break;
    }
    return moved;
}

/* Bytes that can have been summed: all have come, those of @p but not counted, and there is a place for the sum. */
static size_t summable(const weft__ucx_comm *uc, const weft_op *op, const weft__ucx_parcel *but)
{
    const weft__ucx_plan *plan = &uc->plan;
    size_t bytes = plan->sum_bytes;
    for (int i = 0; i < uc->count; i++) {
        if (in_use(&plan->in[i]) && &plan->in[i] != but)
            bytes = least(bytes, plan->in[i].done);
        if (plan->sum_after_out && in_use(&plan->out[i]))
            bytes = least(bytes, plan->out[i].done);
    }
    return plan->sum_ring ? least(bytes, plan->out[uc->count + op->what.root].done + plan->sum_ring) : bytes;
}

/* Sum what comes next. Of member @p fresh (-1 = none) it lies at @p from, of the others in their rings. */
static void sum_next(weft__ucx_comm *uc, const weft_op *op, size_t bytes, int fresh, const void *from)
{
    weft__ucx_plan *plan = &uc->plan;
    size_t at = plan->summed, in_ring = at % uc->stage_bytes;
    for (int i = 0; i < uc->count; i++)
        uc->sources[i] = i == fresh      ? from
                         : i == uc->rank ? plan->own + at
                                         : uc->stage + (size_t)i * uc->stage_bytes + in_ring;
    weft_backend_reduce(plan->sum + (plan->sum_ring ? at % plan->sum_ring : at), uc->sources, uc->count,
                        bytes / weft_dtype_bytes(op->what.dtype), op->what.dtype, op->what.reduction);
    plan->summed += bytes;
}

bool weft__ucx_collective_sums(weft__ucx_comm *uc, int member, const weft__ucx_parcel *parcel,
                               const unsigned char *bytes, size_t count)
{
    _Alignas(64) unsigned char block[SUM_BYTES];
    const weft__ucx_plan *plan = &uc->plan;
    weft_op *op = parcel->op;
    if (!plan->sums || parcel != &plan->in[member] || plan->summed != parcel->done ||
        summable(uc, op, parcel) < parcel->done + count)
        return false;
    for (size_t done = 0, n; done < count; done += n) {
        n = least(count - done, sizeof block);
        memcpy(block, bytes + done, n); /* it lies where UCX has put it, for elements at any address */
        sum_next(uc, op, n, member, block);
    }
    return true;
}

static unsigned sum_some(weft__ucx_comm *uc, const weft_op *op)
{
    unsigned moved = 0;
    size_t end = uc->plan.sums ? summable(uc, op, NULL) : 0;
    while (uc->plan.summed < end) {
        sum_next(uc, op, least(end - uc->plan.summed, WEFT__UCX_CHUNK_BYTES), -1, NULL);
        moved = WEFT_PROGRESS_MOVED;
        if (weft__ucx_turn_over(uc->ucx))
            break;
    }
    return moved;
}

static void set_ready(weft__ucx_parcel *parcel, size_t ready)
{
    if (in_use(parcel))
        parcel->ready = least(parcel->bytes, ready);
}

/* What has been summed, received or sent makes room, or is there to be passed on. */
static void pass_on(weft__ucx_comm *uc)
{
    weft__ucx_plan *plan = &uc->plan;
    for (int i = 0; i < uc->count; i++) {
        weft__ucx_parcel *next = &plan->out[uc->count + i];
        if (plan->sums) {
            set_ready(&plan->in[i], plan->summed + uc->stage_bytes);
            set_ready(next, plan->summed);
        } else if (plan->relay >= 0) {
            set_ready(next, plan->in[plan->relay].done);
        } else if (plan->exchange) {
            set_ready(&plan->in[i], plan->out[i].done);
        }
    }
}

static unsigned move_lanes(weft__ucx_comm *uc)
{
    unsigned moved = 0;
    for (int step = 1; step < uc->count && !uc->failed; step++)
        moved |= weft__lane_move(weft__ucx_lane_of(uc, (uc->rank + step) % uc->count, 0));
    return moved;
}

/* ------------------------------------------------------------------------------------------- beginning, ending */

/* Those that receive first tell how much they take along with what they send. */
static void begin(weft__ucx_comm *uc, weft_op *op)
{
    uc->begun = true;
    uc->last = (weft__ucx_request){.number = op->number, .asked = weft_backend_asked(&op->what)};
    op->last_arrival = weft__ucx_ticks(uc->ucx);
    op->late_rank = uc->ranks[uc->rank];
    weft__ucx_plan_make(uc, op);
    for (int way = 0; way < 2; way++)
        for (int i = 1; i < 2 * uc->count && !uc->failed; i++) {
            int member = (uc->rank + i) % uc->count, step = i / uc->count;
            weft__ucx_parcel *parcels = way ? uc->plan.out : uc->plan.in;
            weft__ucx_parcel *parcel = &parcels[step * uc->count + member];
            if (!in_use(parcel))
                continue;
            if (way)
                weft__lane_send(weft__ucx_lane_of(uc, member, 0), parcel);
            else
                weft__lane_expect(weft__ucx_lane_of(uc, member, 0), parcel);
        }
}

static bool is_done(const weft__ucx_plan *plan)
{
    return plan->left == 0 && plan->copied == plan->copy_bytes && plan->summed == plan->sum_bytes;
}

unsigned weft__ucx_collectives(weft__ucx_comm *uc)
{
    unsigned answer = 0;
    while (uc->head && !uc->failed) {
        weft_op *op = uc->head;
        if (!uc->begun)
            begin(uc, op);
        unsigned moved = copy_some(uc) | sum_some(uc, op);
        pass_on(uc);
        moved |= move_lanes(uc);
        answer |= moved;
        if (uc->failed || !is_done(&uc->plan)) {
            if (!moved || weft__ucx_turn_over(uc->ucx))
                break;
            continue;
        }
        uc->head = op->next;
        if (!uc->head)
            uc->tail = &uc->head;
        uc->begun = false;
        weft_backend_done(op, WEFT_OK);
        answer = WEFT_PROGRESS_MOVED;
    }
    return answer;
}

void weft__ucx_collective_start(weft__ucx_comm *uc, weft_op *op)
{
    op->next = NULL;
    *uc->tail = op;
    uc->tail = &op->next;
    if (uc->head == op)
        (void)weft__ucx_collectives(uc);
}
