/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way: from a slot into UCX, and from UCX to the comm and lane they are for. */
#include <stdio.h>
#include <string.h>

#include "ucx.h"

/* ------------------------------------------------------------------------------------------- sending */

static void sent(void *request, ucs_status_t status, void *data)
{
    weft__ucx_slot *slot = data;
    (void)status; /* the way is broken, and its handler tells */
    ucp_request_free(request);
    slot->busy = false;
    slot->uc->held--;
}

void weft__ucx_send(weft__ucx_comm *uc, int member, weft__ucx_slot *slot, size_t bytes)
{
    weft__ucx_endpoint *endpoint = weft__ucx_endpoint_of(uc, member);
    weft__ucx_head *head = (weft__ucx_head *)slot->record;
    head->comm = uc->peers[member].comm;
    head->member = (uint32_t)uc->rank;
    if (!endpoint->ep || endpoint->status != UCS_OK)
        return; /* who misses an answer fails */
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .flags = UCP_AM_SEND_FLAG_EAGER,
                                       .memory_type = UCS_MEMORY_TYPE_HOST,
                                       .cb.send = sent,
                                       .user_data = slot};
    ucs_status_ptr_t request = ucp_am_send_nbx(endpoint->ep, 0, NULL, 0, slot->record, bytes, &param);
    uc->ucx->unflushed = true;
    if (UCS_PTR_IS_ERR(request)) {
        weft__ucx_endpoint_break(endpoint, UCS_PTR_STATUS(request));
    } else if (request) {
        slot->busy = true;
        uc->held++;
        weft__ucx_activate(uc);
    }
}

void weft__ucx_tell(weft__ucx_comm *uc, int member, weft__ucx_what what, weft_result result, const char *text)
{
    weft__ucx_peer *peer = &uc->peers[member];
    if (peer->told_count == WEFT__UCX_TOLD)
        return;
    weft__ucx_slot *slot = &peer->told[peer->told_count++];
    weft__ucx_head *head = (weft__ucx_head *)slot->record;
    int bytes = snprintf((char *)(head + 1), WEFT__UCX_TEXT_BYTES, "%s", text) + 1;
    *head = (weft__ucx_head){.what = (uint8_t)what,
                             .bytes = (uint32_t)(bytes < WEFT__UCX_TEXT_BYTES ? bytes : WEFT__UCX_TEXT_BYTES),
                             .request.number = (uint64_t)(int64_t)result};
    weft__ucx_send(uc, member, slot, sizeof *head + head->bytes);
}

/* ------------------------------------------------------------------------------------------- receiving */

static void hear_verdict(weft__ucx_comm *uc, const weft__ucx_head *head, const char *bytes)
{
    char text[WEFT__UCX_TEXT_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)head->bytes, bytes);
    bool told = strstr(text, " [told by rank ");
    int result = (int)(int64_t)head->request.number;
    if (told)
        weft_backend_fail(uc->comm, (weft_result)result, "%s", text);
    else
        weft_backend_fail(uc->comm, (weft_result)result, "%s [told by rank %d]", text, uc->ranks[head->member]);
}

static void take(weft__ucx_comm *uc, const weft__ucx_head *head, const unsigned char *bytes)
{
    int member = (int)head->member;
    weft__ucx_lane *lane = weft__ucx_lane_of(uc, member, head->stream);
    switch ((weft__ucx_what)head->what) {
    case WEFT__UCX_HELLO: /* it has opened the way, and that is all */
        break;
    case WEFT__UCX_DATA:
    case WEFT__UCX_CREDIT:
        if (head->limit > lane->limit)
            lane->limit = head->limit;
        if (head->what == WEFT__UCX_DATA)
            weft__lane_arrive(lane, head, bytes);
        break;
    case WEFT__UCX_LEAVE:
        uc->peers[member].left = true;
        weft__ucx_look_for_failure(uc, member);
        break;
    case WEFT__UCX_VERDICT:
        hear_verdict(uc, head, (const char *)bytes);
        break;
    case WEFT__UCX_FAREWELL: /* not for a comm */
    case WEFT__UCX_ANSWER:
        break;
    }
}

/* A record for a comm that is gone is late, and so is one for a comm that has failed. */
ucs_status_t weft__ucx_hear(void *ucx, const void *header, size_t header_bytes, void *data, size_t bytes,
                            const ucp_am_recv_param_t *param)
{
    weft__ucx_head head;
    (void)header, (void)header_bytes;
    if (bytes < sizeof head || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
        return UCS_OK;
    memcpy(&head, data, sizeof head);
    if (head.what >= WEFT__UCX_FAREWELL) {
        weft__ucx_endpoint_hear(ucx, &head);
        return UCS_OK;
    }
    weft__ucx_comm *uc = ((weft__ucx *)ucx)->comms[head.comm % WEFT__UCX_COMMS];
    if (!uc || uc->number != head.comm || uc->failed || head.member >= (uint32_t)uc->count ||
        head.stream >= uc->streams || head.bytes != bytes - sizeof head ||
        head.request.asked.kind >= WEFT_COLLECTIVE_KINDS)
        return UCS_OK;
    take(uc, &head, (const unsigned char *)data + sizeof head);
    return UCS_OK;
}
