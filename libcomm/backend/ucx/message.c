/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way: out of a slot into UCX, and from UCX to whom they are for. */
#include <string.h>

#include "ucx.h"

static void sent(void *request, ucs_status_t status, void *data)
{
    (void)status; /* the way is broken, and its handler tells */
    ucp_request_free(request);
    weft__net_let_go(data);
}

void weft__ucx_send(void *state, int rank, weft__net_slot *slot)
{
    weft__ucx *ucx = state;
    weft__ucx_endpoint *endpoint = &ucx->endpoints[rank];
    unsigned char *bytes = slot->record + WEFT__NET_HEAD_BYTES;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .memory_type = UCS_MEMORY_TYPE_HOST,
                                       .cb.send = sent,
                                       .user_data = slot};
    if (slot->bytes && slot->payload != bytes)
        memcpy(bytes, slot->payload, slot->bytes);
    ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint->ep, 0, NULL, 0, slot->record, WEFT__NET_HEAD_BYTES + slot->bytes, &param);
    ucx->unflushed = true;
    weft__net_sent(slot);
    if (!UCS_PTR_IS_PTR(request))
        weft__net_let_go(slot);
    if (UCS_PTR_IS_ERR(request))
        weft__ucx_endpoint_break(endpoint, UCS_PTR_STATUS(request));
}

ucs_status_t weft__ucx_hear(void *state, const void *header, size_t header_bytes, void *data, size_t bytes,
                            const ucp_am_recv_param_t *param)
{
    weft__ucx *ucx = state;
    weft__net_head head;
    (void)header, (void)header_bytes;
    if (bytes < sizeof head || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
        return UCS_OK;
    memcpy(&head, data, sizeof head);
    if (head.bytes == bytes - sizeof head)
        weft__net_hear(ucx->net, &head, (const unsigned char *)data + sizeof head);
    return UCS_OK;
}
