/* SPDX-License-Identifier: Apache-2.0 */
/* The module: the table of the backend, the turns that comms take, and UCX's log. */
#include <stdio.h>
#include <stdlib.h>
#include <ucs/debug/log_def.h>

#include "ucx.h"

/* ------------------------------------------------------------------------------------------- turns */

void weft__ucx_activate(weft__ucx_comm *uc)
{
    if (uc->active)
        return;
    uc->active = true;
    uc->next = uc->ucx->active;
    uc->ucx->active = uc;
}

static unsigned move_lanes(weft__ucx_comm *uc)
{
    unsigned moved = 0;
    weft__ucx_lane *lane = uc->busy_lanes, *next;
    uc->busy_lanes = NULL;
    for (; lane; lane = next) {
        next = lane->next_busy;
        lane->busy = false;
        moved |= weft__lane_move(lane);
    }
    return moved;
}

static bool is_idle(const weft__ucx_comm *uc)
{
    return !uc->head && !uc->busy_lanes && !uc->p2p_left;
}

static unsigned take_turn(weft__ucx_comm *uc)
{
    if (uc->failed)
        return 0;
    unsigned moved = uc->head ? weft__ucx_collectives(uc) : 0;
    return uc->busy_lanes ? moved | move_lanes(uc) : moved;
}

static unsigned take_turns(weft__ucx *ucx)
{
    unsigned answer = 0;
    for (weft__ucx_comm **link = &ucx->active; *link;) {
        weft__ucx_comm *uc = *link;
        answer |= take_turn(uc);
        if (is_idle(uc) && !uc->held) {
            uc->active = false;
            *link = uc->next;
        } else {
            link = &uc->next;
        }
    }
    return answer;
}

/* Comms that were destroyed while UCX held slots of theirs. */
static void free_gone(weft__ucx *ucx)
{
    for (weft__ucx_comm **link = &ucx->gone; *link;) {
        weft__ucx_comm *uc = *link;
        if (uc->held) {
            link = &uc->next;
            continue;
        }
        *link = uc->next;
        weft__ucx_comm_free(uc);
    }
}

unsigned weft__ucx_progress(void *state, uint64_t slice_ticks)
{
    weft__ucx *ucx = state;
    ucx->slice_ticks = slice_ticks;
    ucx->turn_end = weft__ucx_ticks(ucx) + slice_ticks;
    unsigned answer = ucp_worker_progress(ucx->worker) ? WEFT_PROGRESS_MOVED : 0;
    answer |= take_turns(ucx);
    if (ucx->gone)
        free_gone(ucx);
    if (ucx->active || ucx->gone || weft__ucx_flushes(ucx))
        answer |= WEFT_PROGRESS_ATTENTION;
    return answer;
}

static weft_result start(void *comm, weft_op *op)
{
    weft__ucx_comm *uc = comm;
    uc->ucx->turn_end = weft__ucx_ticks(uc->ucx) + uc->ucx->slice_ticks;
    weft__ucx_activate(uc);
    if (op->is_p2p)
        weft__ucx_p2p_start(uc, op);
    else
        weft__ucx_collective_start(uc, op);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the table */

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_ORDERED;
    facts->queues = WEFT_QUEUES_DIRECTION;
    facts->score = question->count > 1 ? WEFT_SCORE_WIRE : WEFT_SCORE_NONE;
    facts->op_bytes = sizeof(weft__ucx_batch);
    facts->message_bytes = sizeof(weft__ucx_parcel);
    facts->card_bytes = WEFT__UCX_CARD_BYTES;
    return WEFT_OK;
}

static const weft_backend table = {
    .abi_major = WEFT_BACKEND_ABI,
    .size = sizeof(weft_backend),
    .name = "ucx",
    .query = query,
    .open = weft__ucx_open,
    .close = weft__ucx_close,
    .comm_create = weft__ucx_comm_create,
    .comm_connect = weft__ucx_comm_connect,
    .comm_abort = weft__ucx_comm_abort,
    .comm_leave = weft__ucx_comm_leave,
    .comm_destroy = weft__ucx_comm_destroy,
    .start = start,
    .progress = weft__ucx_progress,
    .explain = weft__ucx_explain,
    .fd = weft__ucx_fd,
    .arm = weft__ucx_arm,
};

/* ------------------------------------------------------------------------------------------- UCX's log */

/* UCX writes to stdout, which is the program's. What it calls an error is mostly a rank that has ended, which weft
 * tells by itself. What it says while it is being loaded, if asked for, comes before this. */
static ucs_log_func_rc_t take_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message, va_list arguments)
{
    char text[512];
    (void)file, (void)line, (void)function, (void)component;
    vsnprintf(text, sizeof text, message, arguments);
    weft_backend_log(level <= UCS_LOG_LEVEL_FATAL  ? WEFT_LOG_ERROR
                     : level <= UCS_LOG_LEVEL_WARN ? WEFT_LOG_INFO
                                                   : WEFT_LOG_DEBUG,
                     "ucx: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;

const weft_backend *WEFT_BACKEND_MODULE(void)
{
    if (!getenv("UCX_LOG_FILE"))
        ucs_log_push_handler(take_log);
    return &table;
}
