/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces a list allows, and in which order: on made-up hosts. */
#include <stdlib.h>

#include "base/error.h"
#include "bootstrap/iface.h"
#include "harness/test.h"

TEST(a_list_names_prefixes_whole_names_or_what_to_avoid)
{
    static const struct {
        const char *list, *name;
        bool allowed;
    } cases[] = {
        {"", "lo", true},
        {"eth", "eth0", true},
        {"eth", "ib0", false},
        {"eth0", "eth01", true},
        {"=eth0", "eth0", true},
        {"=eth0", "eth01", false},
        {"=eth0,ib0", "ib0", true},
        {"eth,ib", "ib1", true},
        {"^docker,lo", "lo", false},
        {"^docker,lo", "docker0", false},
        {"^docker,lo", "eth0", true},
        {"^=eth1", "eth10", true},
        {"^=eth1", "eth1", false},
        {"=^eth1", "eth1", true},
        {"eth,", "ib0", false},
        {",", "eth0", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(weft__iface_allowed(cases[i].list, cases[i].name) == cases[i].allowed, "'%s' and %s", cases[i].list,
                  cases[i].name);
}

/* "lo docker0 eth0 ..." to what is left of it. */
static const char *choose(const char *list, const char *names)
{
    static char text[16 * (IF_NAMESIZE + 1)];
    weft__iface ifaces[16] = {0};
    int count = 0, n = 0;
    for (const char *at = names; sscanf(at, "%15s%n", ifaces[count].name, &n) == 1; at += n, count++)
        CHECK(weft__endpoint_numeric(strcmp(ifaces[count].name, "lo") == 0 ? "127.0.0.1" : "10.0.0.1", 0,
                                     &ifaces[count].address));
    count = weft__iface_choose(list, ifaces, count);
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, ifaces[i].name);
    }
    return text;
}

TEST(virtual_switches_and_loopback_come_last)
{
    static const char host[] = "lo docker0 eth0 veth12 ib0 virbr0";
    CHECK_STR(choose("", host), "eth0 ib0 docker0 veth12 virbr0 lo");
    CHECK_STR(choose("^docker0", host), "eth0 ib0 veth12 virbr0 lo"); /* lo is no better for it */
    CHECK_STR(choose("^docker,lo,v", host), "eth0 ib0");
    CHECK_STR(choose("ib,eth", host), "ib0 eth0"); /* as the list says */
    CHECK_STR(choose("lo", host), "lo");
    CHECK_STR(choose("=eth", host), "");
    CHECK_STR(choose("", "lo"), "lo");
}

TEST(a_list_that_allows_nothing_is_an_error_that_tells_what_there_is)
{
    weft__iface ifaces[WEFT__IFACES_MAX];
    int count;
    CHECK_RESULT(weft__iface_find("=no-such-iface", ifaces, &count), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "?iface= '=no-such-iface' allows");
    CHECK_HAS(weft_last_error(), "there are: lo");
    const char *first = strstr(weft_last_error(), "lo"); /* it has an address of each kind, maybe behind all others' */
    for (const char *next = first + 2; (next = strstr(next, ", lo")); next += 4)
        CHECK_MSG(next[4] && next[4] != ',', "lo is named twice: %s", weft_last_error());
    setenv("WEFT_IFACE", "=no-such-iface", 1);
    CHECK_RESULT(weft__iface_find("=no-such-iface", ifaces, &count), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "WEFT_IFACE '=no-such-iface' allows");
    CHECK_RESULT(weft__iface_find("=nor-such", ifaces, &count), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "?iface= '=nor-such' allows");
    CHECK_OK(weft__iface_find("=lo", ifaces, &count));
    CHECK(weft__endpoint_loopback(&ifaces[0].address));
}
