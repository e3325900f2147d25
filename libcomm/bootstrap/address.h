/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks meet, as text:
 *
 *     /path   @name                        a unix socket on one host
 *     tcp://host[,host...]:port[,port...]  rank 0 listens at the first free port, the others try all in turn
 *     file:///folder                       rank 0 listens somewhere and says where in a file of that shared folder
 *
 * A host is a name, an IPv4 address, or an IPv6 address in brackets. Behind the last two may stand ?iface=LIST
 * (iface.h). */
#ifndef WEFT_BOOTSTRAP_ADDRESS_H
#define WEFT_BOOTSTRAP_ADDRESS_H
#include <stdint.h>
#include <weft/result.h>

#define WEFT__ADDRESS_MAX   512 /* bytes of text, with the zero */
#define WEFT__ADDRESS_HOSTS 4
#define WEFT__ADDRESS_PORTS 16

typedef enum weft__address_kind { WEFT__ADDRESS_UNIX, WEFT__ADDRESS_TCP, WEFT__ADDRESS_FOLDER } weft__address_kind;

typedef struct weft__address {
    weft__address_kind kind;
    char path[WEFT__ADDRESS_MAX]; /* of the socket, or of the folder */
    int hosts, ports;
    char host[WEFT__ADDRESS_HOSTS][256]; /* without brackets */
    uint16_t port[WEFT__ADDRESS_PORTS];
    char iface[WEFT__ADDRESS_MAX]; /* empty = any */
} weft__address;

/* E_INVALID says that @p from ("WEFT_RENDEZVOUS") is this text, and what is wrong with it. */
weft_result weft__address_parse(const char *from, const char *text, weft__address *address_out);

#endif
