/* SPDX-License-Identifier: Apache-2.0 */
/* Takes apart the text that says where ranks meet. */
#include "bootstrap/address.h"

#include <stdbool.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"

static const char tcp_scheme[] = "tcp://", file_scheme[] = "file://", iface_mark[] = "?iface=";

/* What is being taken apart, and what to call it when something is wrong. */
typedef struct reader {
    const char *from, *text, *at;
} reader;

static weft_result refuse(const reader *r, const char *why)
{
    return weft__fail(WEFT_E_INVALID, "%s is '%.300s': %s", r->from, r->text, why);
}

/* The next @p bytes, as text. */
static bool take(reader *r, size_t bytes, char *text, size_t room)
{
    if (bytes == 0 || bytes >= room)
        return false;
    memcpy(text, r->at, bytes);
    text[bytes] = 0;
    r->at += bytes;
    return true;
}

static weft_result read_host(reader *r, char *host, size_t room)
{
    if (*r->at != '[') {
        if (!take(r, strcspn(r->at, ",:[]/?"), host, room))
            return refuse(r, "a host is missing, or is too long");
        return WEFT_OK;
    }
    r->at++;
    if (!take(r, strcspn(r->at, ",[]/?"), host, room) || *r->at != ']' || !strchr(host, ':'))
        return refuse(r, "an IPv6 address stands in brackets, as in tcp://[fd00::2]:4000");
    r->at++;
    return WEFT_OK;
}

static weft_result read_port(reader *r, uint16_t *port)
{
    unsigned value = 0;
    int digits = 0;
    for (; *r->at >= '0' && *r->at <= '9' && digits < 6; r->at++, digits++)
        value = value * 10 + (unsigned)(*r->at - '0');
    if (value < 1 || value > 65535)
        return refuse(r, "a port is a number from 1 to 65535, as in tcp://host:4000");
    *port = (uint16_t)value;
    return WEFT_OK;
}

static bool read_comma(reader *r)
{
    if (*r->at != ',')
        return false;
    r->at++;
    return true;
}

static weft_result read_hosts_and_ports(reader *r, weft__address *a)
{
    do {
        if (a->hosts == WEFT__ADDRESS_HOSTS)
            return refuse(r, "more than 4 hosts");
        WEFT_TRY(read_host(r, a->host[a->hosts++], sizeof a->host[0]));
    } while (read_comma(r));
    if (*r->at++ != ':')
        return refuse(r, "the port is missing, as in tcp://host:4000");
    do {
        if (a->ports == WEFT__ADDRESS_PORTS)
            return refuse(r, "more than 16 ports");
        WEFT_TRY(read_port(r, &a->port[a->ports++]));
    } while (read_comma(r));
    return WEFT_OK;
}

/* Up to "?iface=", the last one if there are several, or to the end. */
static weft_result read_folder(reader *r, weft__address *a)
{
    size_t bytes = strlen(r->at);
    for (const char *mark = strstr(r->at, iface_mark); mark; mark = strstr(mark + 1, iface_mark))
        bytes = (size_t)(mark - r->at);
    if (*r->at != '/' || !take(r, bytes, a->path, sizeof a->path))
        return refuse(r, "a folder is an absolute path, as in file:///shared/job");
    return WEFT_OK;
}

static weft_result read_iface(reader *r, weft__address *a)
{
    if (!*r->at)
        return WEFT_OK;
    if (strncmp(r->at, iface_mark, sizeof iface_mark - 1) != 0)
        return refuse(r, "what stands behind the port makes no sense");
    r->at += sizeof iface_mark - 1;
    if (!take(r, strlen(r->at), a->iface, sizeof a->iface))
        return refuse(r, "names of interfaces are missing behind ?iface=");
    return WEFT_OK;
}

weft_result weft__address_parse(const char *from, const char *text, weft__address *address_out)
{
    weft__address a = {.kind = WEFT__ADDRESS_UNIX};
    reader r = {from, text, text};
    if (strlen(text) >= WEFT__ADDRESS_MAX)
        return refuse(&r, "longer than 511 bytes");
    if (strncmp(text, tcp_scheme, sizeof tcp_scheme - 1) == 0) {
        a.kind = WEFT__ADDRESS_TCP;
        r.at += sizeof tcp_scheme - 1;
        WEFT_TRY(read_hosts_and_ports(&r, &a));
        WEFT_TRY(read_iface(&r, &a));
    } else if (strncmp(text, file_scheme, sizeof file_scheme - 1) == 0) {
        a.kind = WEFT__ADDRESS_FOLDER;
        r.at += sizeof file_scheme - 1;
        WEFT_TRY(read_folder(&r, &a));
        WEFT_TRY(read_iface(&r, &a));
    } else if ((*text != '/' && *text != '@') ||
               !take(&r, strlen(text), a.path, sizeof((struct sockaddr_un *)0)->sun_path)) {
        return refuse(&r, "no name of a socket");
    }
    *address_out = a;
    return WEFT_OK;
}
