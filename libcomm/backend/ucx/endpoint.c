/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to other ranks: made when the first comm with a rank is, and kept until the world is closed, for a rank that
 * closed one early would break it for a comm that the other is just making. */
#include <sched.h>

#include "ucx.h"

#define FLUSH_NS  1e9 /* longest time for what was sent to leave, and again for ways to close */
#define ANSWER_NS 2e8 /* and for answers of those who listen */

static void broken(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    weft__ucx_endpoint_break(argument, status);
}

/* The other, or its host, has said so; or nothing was heard of it. */
static weft_result result_of(ucs_status_t status)
{
    bool silence = status == UCS_ERR_TIMED_OUT || status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_UNREACHABLE;
    return silence ? WEFT_E_TIMEOUT : status == UCS_ERR_NO_MEMORY ? WEFT_E_NO_MEMORY : WEFT_E_PEER_LOST;
}

void weft__ucx_endpoint_break(weft__ucx_endpoint *endpoint, ucs_status_t status)
{
    if (endpoint->status != UCS_OK)
        return;
    endpoint->status = status;
    weft__net_rank_lost(endpoint->ucx->net, endpoint->rank, result_of(status), ucs_status_string(status));
}

weft_result weft__ucx_reach(void *state, int rank, const unsigned char *address, size_t bytes)
{
    (void)bytes;
    weft__ucx *ucx = state;
    weft__ucx_endpoint *endpoint = &ucx->endpoints[rank];
    if (endpoint->ep)
        return WEFT_OK;
    endpoint->ucx = ucx;
    endpoint->rank = rank;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = (const ucp_address_t *)address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = broken, .arg = endpoint}};
    ucs_status_t status = ucp_ep_create(ucx->worker, &params, &endpoint->ep);
    if (status == UCS_OK)
        return WEFT_OK;
    endpoint->ep = NULL;
    return weft_backend_error(status == UCS_ERR_NO_MEMORY ? WEFT_E_NO_MEMORY : WEFT_E_SYSTEM,
                              "ucx: rank %d cannot reach rank %d: %s (UCX_TLS and UCX_NET_DEVICES say by what means)",
                              weft_world_rank(ucx->net->world), rank, ucs_status_string(status));
}

weft_result weft__ucx_lost(void *state, int rank, const char **why_out)
{
    const weft__ucx_endpoint *endpoint = &((weft__ucx *)state)->endpoints[rank];
    ucs_status_t status = endpoint->ep ? endpoint->status : UCS_ERR_NOT_CONNECTED;
    if (status == UCS_OK)
        return WEFT_OK;
    *why_out = ucs_status_string(status);
    return result_of(status);
}

/* ------------------------------------------------------------------------------------------- farewell */

/* Who closes a TCP connection while the other is still sending resets it, and what the other has not read by then is
 * lost. So a world asks before it closes, and who moves works along answers at once. */

static void said(void *request, ucs_status_t status, void *data)
{
    (void)status, (void)data;
    ucp_request_free(request);
}

static void say(weft__ucx_endpoint *endpoint, weft__net_what what, weft__net_head *record)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .cb.send = said};
    if (!endpoint->ep || endpoint->status != UCS_OK)
        return;
    *record = (weft__net_head){.what = (uint8_t)what, .member = (uint32_t)weft_world_rank(endpoint->ucx->net->world)};
    ucs_status_ptr_t request = ucp_am_send_nbx(endpoint->ep, 0, NULL, 0, record, sizeof *record, &param);
    endpoint->ucx->unflushed = true;
    if (UCS_PTR_IS_ERR(request))
        weft__ucx_endpoint_break(endpoint, UCS_PTR_STATUS(request));
}

void weft__ucx_endpoint_hear(weft__ucx *ucx, const weft__net_head *head)
{
    if (head->member >= (uint32_t)weft_world_size(ucx->net->world))
        return;
    weft__ucx_endpoint *endpoint = &ucx->endpoints[head->member];
    if (head->what == WEFT__NET_ANSWER)
        endpoint->answered = true;
    else
        say(endpoint, WEFT__NET_ANSWER, &endpoint->answer);
}

static bool all_answered(const weft__ucx *ucx)
{
    for (int r = 0; r < weft_world_size(ucx->net->world); r++) {
        const weft__ucx_endpoint *endpoint = &ucx->endpoints[r];
        if (endpoint->ep && endpoint->status == UCS_OK && !endpoint->answered)
            return false;
    }
    return true;
}

static double now_ns(const weft__ucx *ucx)
{
    return weft_trace_ns(ucx->net->world, weft__net_ticks(ucx->net));
}

/* Until all have answered; those who do not are computing and want nothing, if what was sent has left. */
static void take_leave(weft__ucx *ucx)
{
    double began = now_ns(ucx);
    for (int r = 0; r < weft_world_size(ucx->net->world); r++)
        say(&ucx->endpoints[r], WEFT__NET_FAREWELL, &ucx->endpoints[r].farewell);
    for (double waited = 0; waited < FLUSH_NS && !all_answered(ucx); waited = now_ns(ucx) - began) {
        if (!ucp_worker_progress(ucx->worker))
            sched_yield();
        if (waited > ANSWER_NS && !weft__ucx_flushes(ucx))
            break;
    }
}

void weft__ucx_endpoints_close(weft__ucx *ucx)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    take_leave(ucx);
    double began = now_ns(ucx);
    for (int r = 0; r < weft_world_size(ucx->net->world); r++) {
        weft__ucx_endpoint *endpoint = &ucx->endpoints[r];
        if (!endpoint->ep)
            continue;
        endpoint->status = UCS_ERR_CANCELED; /* nobody is told */
        ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint->ep, &param);
        endpoint->ep = NULL;
        if (!UCS_PTR_IS_PTR(request))
            continue;
        while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns(ucx) - began < FLUSH_NS)
            (void)ucp_worker_progress(ucx->worker);
        ucp_request_free(request);
    }
}
