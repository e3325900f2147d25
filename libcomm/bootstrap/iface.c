/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses among the interfaces of this host. */
#include "bootstrap/iface.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"

/* The place in the list of the first word that fits @p name; -1 = none does. */
static int place_in(const char *list, const char *name)
{
    bool whole = false;
    for (; *list == '^' || *list == '='; list++)
        whole |= *list == '=';
    for (int place = 0; *list; place++) {
        size_t bytes = strcspn(list, ",");
        bool fits = bytes > 0 && strncmp(list, name, bytes) == 0 && (!whole || !name[bytes]);
        if (fits)
            return place;
        list += bytes + (list[bytes] == ',');
    }
    return -1;
}

bool weft__iface_allowed(const char *list, const char *name)
{
    return !*list || (place_in(list, name) >= 0) == (*list != '^');
}

/* Smaller is better. */
static int order_of(const char *list, const weft__iface *iface)
{
    static const char *const virtual[] = {"docker", "virbr", "veth", "br-"};
    if (*list && *list != '^')
        return place_in(list, iface->name);
    if (weft__endpoint_loopback(&iface->address) || strcmp(iface->name, "lo") == 0)
        return 2;
    for (size_t i = 0; i < sizeof virtual / sizeof *virtual; i++)
        if (strncmp(iface->name, virtual[i], strlen(virtual[i])) == 0)
            return 1;
    return 0;
}

int weft__iface_choose(const char *list, weft__iface *ifaces, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!weft__iface_allowed(list, ifaces[i].name))
            continue;
        weft__iface one = ifaces[i];
        int at = kept++;
        for (; at > 0 && order_of(list, &ifaces[at - 1]) > order_of(list, &one); at--)
            ifaces[at] = ifaces[at - 1];
        ifaces[at] = one;
    }
    return kept;
}

static bool is_usable(const struct ifaddrs *i)
{
    if (!i->ifa_addr || (i->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
        return false;
    if (i->ifa_addr->sa_family == AF_INET)
        return true;
    return i->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
}

static weft_result list_all(weft__iface *ifaces, int *count)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return weft__fail_errno("cannot list the network interfaces");
    for (struct ifaddrs *i = all; i && *count < WEFT__IFACES_MAX; i = i->ifa_next) {
        if (!is_usable(i))
            continue;
        weft__iface *next = &ifaces[(*count)++];
        socklen_t length = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        *next = (weft__iface){.address.length = length};
        memcpy(&next->address.where, i->ifa_addr, length);
        snprintf(next->name, sizeof next->name, "%s", i->ifa_name);
    }
    freeifaddrs(all);
    return WEFT_OK;
}

/* An interface has an entry for each of its addresses. */
static bool is_first_of_its_name(const weft__iface *ifaces, int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(ifaces[j].name, ifaces[i].name) == 0)
            return false;
    return true;
}

/* The list stands in an address, where WEFT_IFACE may have been put. */
static weft_result fail_none(const char *list, const weft__iface *ifaces, int count)
{
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof names - IF_NAMESIZE - 2; i++)
        if (is_first_of_its_name(ifaces, i))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", ifaces[i].name);
    weft__env env;
    (void)weft__env_read(&env);
    const char *source = env.iface && strcmp(env.iface, list) == 0 ? "WEFT_IFACE" : "?iface=";
    return weft__fail(WEFT_E_NOT_FOUND, "%s '%s' allows no interface that is up; there are: %s", source, list, names);
}

weft_result weft__iface_find(const char *list, weft__iface ifaces[WEFT__IFACES_MAX], int *count_out)
{
    weft__iface all[WEFT__IFACES_MAX];
    int count = 0;
    WEFT_TRY(list_all(all, &count));
    memcpy(ifaces, all, sizeof all);
    *count_out = weft__iface_choose(list, ifaces, count);
    return *count_out ? WEFT_OK : fail_none(list, all, count);
}

void weft__iface_name(const weft__endpoint *address, char name[IF_NAMESIZE])
{
    weft__iface all[WEFT__IFACES_MAX];
    int count = 0;
    name[0] = 0;
    if (address->length == 0 || list_all(all, &count) != WEFT_OK)
        return;
    for (int i = 0; i < count && !name[0]; i++)
        if (weft__endpoint_equal_host(&all[i].address, address))
            memcpy(name, all[i].name, IF_NAMESIZE);
}
