/* SPDX-License-Identifier: Apache-2.0 */
/* The collective at the head of a comm: its plan is handed to the lanes, and what comes is summed, copied and passed on
 * until all of it has ended. */
#include <stdio.h>
#include <string.h>

#include "net.h"

#define COPY_BYTES ((size_t)64 << 10) /* between two looks at the wire */

static bool in_use(const weft__net_parcel *parcel)
{
    return parcel->op;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------------------------------------- comparing */

static bool fail_mismatch(weft__net_comm *nc, int member, const weft__net_request *theirs)
{
    char a[96], b[96], behind[48] = "";
    if (theirs->number != nc->last.number)
        snprintf(behind, sizeof behind, " (its operation %llu)", (unsigned long long)theirs->number);
    weft_backend_tell_asked(&theirs->asked, a, sizeof a);
    weft_backend_tell_asked(&nc->last.asked, b, sizeof b);
    weft_backend_fail(nc->comm, WEFT_E_MISMATCH, "comm %s, operation %llu: rank %d asks for %s%s, rank %d for %s",
                      nc->name, (unsigned long long)nc->last.number, nc->ranks[member], a, behind, nc->ranks[nc->rank],
                      b);
    nc->failed = true;
    return false;
}

static void note_seen(weft__net_comm *nc, int member, const weft__net_request *theirs)
{
    weft__net_peer *peer = &nc->peers[member];
    if (theirs->number <= peer->seen_number)
        return;
    peer->seen_number = theirs->number;
    peer->seen_kind = theirs->asked.kind;
    peer->seen_ticks = weft__net_ticks(nc->net);
}

bool weft__net_collective_fits(weft__net_comm *nc, int member, const weft__net_request *theirs,
                               const weft__net_parcel *parcel)
{
    note_seen(nc, member, theirs);
    if (!parcel) /* early, or nothing that was asked for here */
        return theirs->number > nc->last.number || fail_mismatch(nc, member, theirs);
    if (memcmp(theirs, &parcel->request, sizeof *theirs) != 0)
        return fail_mismatch(nc, member, theirs);
    weft_op *op = parcel->op;
    if (nc->peers[member].seen_ticks > op->last_arrival) {
        op->last_arrival = nc->peers[member].seen_ticks;
        op->late_rank = nc->ranks[member];
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- moving */

void weft__net_collective_ended(weft__net_comm *nc)
{
    nc->plan.left--;
}

/* A piece of our own part, while nothing comes or can be sent, or behind all of that. */
static unsigned copy_some(weft__net_comm *nc)
{
    weft__net_plan *plan = &nc->plan;
    size_t bytes = least(plan->copy_bytes - plan->copied, COPY_BYTES);
    if (!bytes)
        return 0;
    memcpy(plan->copy_to + plan->copied, plan->copy_from + plan->copied, bytes);
    plan->copied += bytes;
    return WEFT_PROGRESS_MOVED;
}

/* Bytes that can have been summed: all have come, and there is a place for the sum. */
static size_t summable(const weft__net_comm *nc, const weft_op *op)
{
    const weft__net_plan *plan = &nc->plan;
    size_t bytes = plan->sum_bytes;
    for (int i = 0; i < nc->count; i++) {
        if (in_use(&plan->in[i]))
            bytes = least(bytes, plan->in[i].done);
        if (plan->sum_after_out && in_use(&plan->out[i]))
            bytes = least(bytes, plan->out[i].done);
    }
    return plan->sum_ring ? least(bytes, plan->out[nc->count + op->what.root].done + plan->sum_ring) : bytes;
}

static void sum_chunk(weft__net_comm *nc, const weft_op *op, size_t bytes)
{
    weft__net_plan *plan = &nc->plan;
    size_t at = plan->summed, in_ring = at % nc->stage_bytes;
    for (int i = 0; i < nc->count; i++)
        nc->sources[i] = i == nc->rank ? plan->own + at : nc->stage + (size_t)i * nc->stage_bytes + in_ring;
    weft_backend_reduce(plan->sum + (plan->sum_ring ? at % plan->sum_ring : at), nc->sources, nc->count,
                        bytes / weft_dtype_bytes(op->what.dtype), op->what.dtype, op->what.reduction);
    plan->summed += bytes;
}

static unsigned sum_some(weft__net_comm *nc, const weft_op *op)
{
    unsigned moved = 0;
    size_t chunk = weft__net_chunk_bytes(nc->net);
    size_t end = nc->plan.sums ? summable(nc, op) : 0;
    while (nc->plan.summed < end) {
        sum_chunk(nc, op, least(end - nc->plan.summed, chunk));
        moved = WEFT_PROGRESS_MOVED;
        if (weft__net_turn_over(nc->net))
            break;
    }
    return moved;
}

static void set_ready(weft__net_parcel *parcel, size_t ready)
{
    if (in_use(parcel))
        parcel->ready = least(parcel->bytes, ready);
}

/* What has been summed, received or sent makes room, or is there to be passed on. */
static void pass_on(weft__net_comm *nc)
{
    weft__net_plan *plan = &nc->plan;
    for (int i = 0; i < nc->count; i++) {
        weft__net_parcel *next = &plan->out[nc->count + i];
        if (plan->sums) {
            set_ready(&plan->in[i], plan->summed + nc->stage_bytes);
            set_ready(next, plan->summed);
        } else if (plan->relay >= 0) {
            set_ready(next, plan->in[plan->relay].done);
        } else if (plan->exchange) {
            set_ready(&plan->in[i], plan->out[i].done);
        }
    }
}

static unsigned move_lanes(weft__net_comm *nc)
{
    unsigned moved = 0;
    for (int step = 1; step < nc->count && !nc->failed; step++)
        moved |= weft__net_lane_move(weft__net_lane_of(nc, (nc->rank + step) % nc->count, 0));
    return moved;
}

/* ------------------------------------------------------------------------------------------- beginning, ending */

/* Members may be ahead by both steps: what follows is ready with what is exchanged first where there is nothing to sum
 * or to relay. So all is asked for before anything is taken. */
static void expect_all(weft__net_comm *nc)
{
    for (int i = 1; i < 2 * nc->count; i++) {
        int member = (nc->rank + i) % nc->count, step = i / nc->count;
        weft__net_parcel *parcel = &nc->plan.in[step * nc->count + member];
        if (in_use(parcel))
            weft__net_lane_expect(weft__net_lane_of(nc, member, 0), parcel);
    }
    for (int i = 1; i < nc->count && !nc->failed; i++)
        weft__net_lane_take(weft__net_lane_of(nc, (nc->rank + i) % nc->count, 0));
}

static void send_all(weft__net_comm *nc)
{
    for (int i = 1; i < 2 * nc->count && !nc->failed; i++) {
        int member = (nc->rank + i) % nc->count, step = i / nc->count;
        weft__net_parcel *parcel = &nc->plan.out[step * nc->count + member];
        if (in_use(parcel))
            weft__net_lane_send(weft__net_lane_of(nc, member, 0), parcel);
    }
}

/* Those that receive first tell how much they take along with what they send. */
static void begin(weft__net_comm *nc, weft_op *op)
{
    nc->begun = true;
    nc->last = (weft__net_request){.number = op->number, .asked = weft_backend_asked(&op->what)};
    op->last_arrival = weft__net_ticks(nc->net);
    op->late_rank = nc->ranks[nc->rank];
    weft__net_plan_make(nc, op);
    expect_all(nc);
    send_all(nc);
}

static bool is_done(const weft__net_plan *plan)
{
    return plan->left == 0 && plan->copied == plan->copy_bytes && plan->summed == plan->sum_bytes;
}

unsigned weft__net_collectives(weft__net_comm *nc)
{
    unsigned answer = 0;
    while (nc->head && !nc->failed) {
        weft_op *op = nc->head;
        if (!nc->begun)
            begin(nc, op);
        unsigned moved = sum_some(nc, op);
        pass_on(nc);
        moved |= move_lanes(nc);
        if (nc->plan.left == 0 || !(moved || nc->net->heard || nc->failed))
            moved |= copy_some(nc);
        answer |= moved;
        if (nc->failed || !is_done(&nc->plan)) {
            if (!moved || weft__net_turn_over(nc->net))
                break;
            continue;
        }
        nc->head = op->next;
        if (!nc->head)
            nc->tail = &nc->head;
        nc->begun = false;
        weft_backend_done(op, WEFT_OK);
        answer = WEFT_PROGRESS_MOVED;
    }
    return answer;
}

void weft__net_collective_start(weft__net_comm *nc, weft_op *op)
{
    op->next = NULL;
    *nc->tail = op;
    nc->tail = &op->next;
    if (nc->head == op)
        (void)weft__net_collectives(nc);
}
