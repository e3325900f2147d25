/* SPDX-License-Identifier: Apache-2.0 */
/* UCX as a carrier, whatever the network: TCP, InfiniBand, shared memory.
 *
 * UCX never sees memory of the caller: records are copied into slots of the comm, and out of what UCX has received. So
 * operations of a failed comm can be given back at once, whatever UCX still does with the slots. */
#ifndef WEFT_UCX_UCX_H
#define WEFT_UCX_UCX_H
#include <stdbool.h>
#include <ucp/api/ucp.h>

#include "../net/net.h"

typedef struct weft__ucx weft__ucx;

/* The way to a rank, shared by the comms with it. */
typedef struct weft__ucx_endpoint {
    weft__ucx *ucx;
    int rank;
    ucp_ep_h ep;         /* NULL = not made yet */
    ucs_status_t status; /* not UCS_OK: it is broken */
} weft__ucx_endpoint;

struct weft__ucx {
    weft__net *net;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int fd;
    weft__ucx_endpoint *endpoints; /* [world size] */
    bool unflushed;                /* something was sent since the last flush: it may still lie in UCX */
    void *flush;                   /* the request of one that goes on */
};

/* worker.c */
weft_result weft__ucx_open(weft_world *world, void **net_out);
/* Has UCX, as UCX_TLS and UCX_NET_DEVICES let it, found a network that is not TCP? Any thread, behind an open. */
bool weft__ucx_has_fabric(void);
/* endpoint.c */
weft_result weft__ucx_reach(void *ucx, int rank, const unsigned char *address, size_t bytes);
weft_result weft__ucx_lost(void *ucx, int rank, const char **why_out);
void weft__ucx_endpoint_break(weft__ucx_endpoint *endpoint, ucs_status_t status);
/* Close all. */
void weft__ucx_endpoints_close(weft__ucx *ucx);
/* message.c */
void weft__ucx_send(void *ucx, int rank, weft__net_slot *slot);
ucs_status_t weft__ucx_hear(void *ucx, const void *header, size_t header_bytes, void *data, size_t bytes,
                            const ucp_am_recv_param_t *param);

#endif
