/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the hosts of a bed, by lines for `ip` and `tc`: some for the middle, where the switch is, some for each
 * host. */
#include "hosts/cables.h"

#include <stdio.h>
#include <stdlib.h>

#include "complain.h"
#include "hosts/switch.h"
#include "hosts/tool.h"

/* What a cable that was idle may send at once: 1 ms of its rate, within these. */
#define BURST_S     1e-3
#define BURST_LEAST 32768
#define BURST_MOST  131072
#define QUEUE_MS    20
#define GSO_MOST    65536

typedef void writer(FILE *batch, const bed *b, int index);

static int run(const char *tool, const bed *b, int pidfd, writer *write_lines, int index)
{
    char *text = NULL;
    size_t bytes;
    FILE *batch = open_memstream(&text, &bytes);
    if (!batch)
        return complain(EXIT_FAILED, "no memory");
    write_lines(batch, b, index);
    int code = fclose(batch) == 0 ? tool_run(tool, pidfd, text) : complain(EXIT_FAILED, "no memory");
    free(text);
    return code;
}

static bool by_process(const bed_plan *plan)
{
    return plan->delay > 0 || plan->loss > 0;
}

static int burst_bytes(const bed_plan *plan)
{
    double bytes = plan->rate / 8 * BURST_S;
    return bytes < BURST_LEAST ? BURST_LEAST : bytes > BURST_MOST ? BURST_MOST : (int)bytes;
}

static void write_bridge(FILE *batch, const bed *b, int index)
{
    (void)index;
    fprintf(batch, "link add name switch type bridge forward_delay 0 mcast_snooping 0\n");
    fprintf(batch, "link set switch up\n");
    for (int i = 0; i < b->plan->hosts.count; i++) {
        fprintf(batch, "link add name port%d mtu %d type veth peer name eth0 netns %d\n", i, b->plan->mtu,
                (int)b->hosts[i].pid);
        fprintf(batch, "link set port%d master switch up\n", i);
    }
}

/* The kernel hands packets of one stream down in pieces that are cut into packets late. A piece that is larger than
 * the burst would not pass; one that is much smaller keeps the rate even over short times. */
static void write_host(FILE *batch, const bed *b, int index)
{
    const bed_plan *plan = b->plan;
    char address[32];
    host_address(&plan->hosts, index, address, sizeof address);
    fprintf(batch, "link set lo up\n");
    fprintf(batch, "link set eth0 mtu %d address 02:00:00:00:00:%02x\n", plan->mtu, index);
    if (plan->rate > 0 && !by_process(plan) && burst_bytes(plan) / 2 < GSO_MOST)
        fprintf(batch, "link set eth0 gso_max_size %d\n", burst_bytes(plan) / 2);
    fprintf(batch, "address add %s/%d dev eth0%s\n", address, plan->hosts.ipv6 ? 64 : 24,
            plan->hosts.ipv6 ? " nodad" : "");
    fprintf(batch, "link set eth0 up\n");
    if (plan->congestion) /* of a namespace only unprivileged kinds can be set, of a route any */
        fprintf(batch, "route replace %s dev eth0 proto kernel%s%s congctl %s\n",
                plan->hosts.ipv6 ? "fd00::/64" : "10.0.0.0/24", plan->hosts.ipv6 ? " metric 256" : " scope link src ",
                plan->hosts.ipv6 ? "" : address, plan->congestion);
}

static void put_rate(FILE *batch, const bed_plan *plan, const char *device)
{
    fprintf(batch, "qdisc add dev %s root tbf rate %.0fbit burst %d latency %dms\n", device, plan->rate,
            burst_bytes(plan), QUEUE_MS);
}

static void write_rate_of_host(FILE *batch, const bed *b, int index)
{
    (void)index;
    put_rate(batch, b->plan, "eth0");
}

static void write_rates_of_ports(FILE *batch, const bed *b, int index)
{
    char port[16];
    (void)index;
    for (int i = 0; i < b->plan->hosts.count; i++) {
        snprintf(port, sizeof port, "port%d", i);
        put_rate(batch, b->plan, port);
    }
}

static int start_switch(bed *b)
{
    const switch_plan plan = {b->plan->hosts.count, b->hosts, b->plan->rate, b->plan->delay, b->plan->loss};
    return switch_start(&plan, b->alive, &b->switch_pid);
}

int cables_lay(bed *b)
{
    const bed_plan *plan = b->plan;
    bool rated = plan->rate > 0 && !by_process(plan);
    int code = by_process(plan) ? start_switch(b) : run("ip", b, -1, write_bridge, 0);
    for (int i = 0; i < plan->hosts.count && code == EXIT_DONE; i++) {
        code = run("ip", b, b->hosts[i].pidfd, write_host, i);
        if (code == EXIT_DONE && rated)
            code = run("tc", b, b->hosts[i].pidfd, write_rate_of_host, i);
    }
    return code == EXIT_DONE && rated ? run("tc", b, -1, write_rates_of_ports, 0) : code;
}
