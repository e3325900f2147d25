/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to other ranks: made when the first comm with a rank is, and kept until the world is closed, for a rank that
 * closed one early would break it for a comm that the other is just making. */
#include "ucx.h"

#define CLOSE_NS 1e9 /* longest time for ways to close */

static void broken(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    weft__ucx_endpoint_break(argument, status);
}

/* The other, or its host, has said so; or nothing was heard of it. UCX speaks of an "endpoint timeout" also where a
 * connection has ended. */
static weft_result result_of(ucs_status_t status)
{
    bool silence = status == UCS_ERR_TIMED_OUT || status == UCS_ERR_UNREACHABLE;
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

/* ------------------------------------------------------------------------------------------- closing */

static double now_ns(const weft__ucx *ucx)
{
    return weft_trace_ns(ucx->net->world, weft__net_ticks(ucx->net));
}

void weft__ucx_endpoints_close(weft__ucx *ucx)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
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
        while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns(ucx) - began < CLOSE_NS)
            (void)ucp_worker_progress(ucx->worker);
        ucp_request_free(request);
    }
}
