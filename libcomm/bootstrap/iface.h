/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces, and which of them to use. A list such as "eth,ib0" names prefixes; "=eth0" names whole names;
 * "^docker,lo" and "^=eth1" name those to stay away from. */
#ifndef WEFT_BOOTSTRAP_IFACE_H
#define WEFT_BOOTSTRAP_IFACE_H
#include <net/if.h>

#include "bootstrap/endpoint.h"

#define WEFT__IFACES_MAX 64

/* One address of an interface, port 0. */
typedef struct weft__iface {
    char name[IF_NAMESIZE];
    weft__endpoint address;
} weft__iface;

/* May this interface be used by @p list? An empty list allows all. */
bool weft__iface_allowed(const char *list, const char *name);
/* Leave those that @p list allows, best first: in the order of a list that names them, else as they come; of virtual
 * switches (docker, virbr, veth, br-) and loopback only what is left at the end. Returns how many. */
int weft__iface_choose(const char *list, weft__iface *ifaces, int count);
/* The addresses of this host's running interfaces, chosen by @p list; link-local ones are left out. E_NOT_FOUND: the
 * list allows none; the message says what there is. */
weft_result weft__iface_find(const char *list, weft__iface ifaces[WEFT__IFACES_MAX], int *count_out);
/* The name of the interface that has this address; "" if none has. */
void weft__iface_name(const weft__endpoint *address, char name[IF_NAMESIZE]);

#endif
