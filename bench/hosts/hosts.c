/* SPDX-License-Identifier: Apache-2.0 */
/* `weft hosts`: hosts out of one machine, and the ranks of a program on them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "hosts/bed.h"
#include "hosts/quantity.h"
#include "option.h"
#include "run/launcher.h"
#include "subcommands.h"

/* Nothing else listens on a host that is new. */
enum { WEFT_PORT = 29400, TORCH_PORT = 29500 };

typedef struct hosts_options {
    launch_config launch;
    int hosts, ranks_each, mtu;
    const char *rate, *delay, *loss, *congestion, *shell;
    bool ipv6, counters, torch;
} hosts_options;

#define FIELD(name) offsetof(hosts_options, name)

static const option table[] = {
    {"hosts", OPTION_INT, FIELD(hosts), 1, HOSTS_MOST, "N", "how many hosts (required)"},
    {"ranks-per-host", OPTION_INT, FIELD(ranks_each), 1, 256, "N", "how many ranks on each (1)"},
    {"rate", OPTION_TEXT, FIELD(rate), 0, 0, "RATE", "of each link, each way: 1gbit, 100mbit, 64kbit; (unlimited)"},
    {"delay", OPTION_TEXT, FIELD(delay), 0, 0, "TIME", "from host to host: 500us, 5ms; 0us = what it takes (0us)"},
    {"loss", OPTION_TEXT, FIELD(loss), 0, 0, "PART", "of packets that get lost: 0.1% (0%)"},
    {"mtu", OPTION_INT, FIELD(mtu), 1280, 9000, "BYTES", "the largest packet (1500)"},
    {"ipv6", OPTION_FLAG, FIELD(ipv6), 0, 0, NULL, "hosts have IPv6 and no IPv4"},
    {"congestion", OPTION_TEXT, FIELD(congestion), 0, 0, "NAME", "congestion control of TCP (the machine's)"},
    {"counters", OPTION_FLAG, FIELD(counters), 0, 0, NULL, "say at the end what has passed each host's interface"},
    {"torch-env", OPTION_FLAG, FIELD(torch), 0, 0, NULL, "also set what torchrun sets: RANK, MASTER_ADDR and so on"},
    {"shell", OPTION_TEXT, FIELD(shell), 0, 0, "HOST", "run PROGRAM once, on this host, and no ranks"},
    LAUNCH_OPTIONS(FIELD(launch)),
};

static const char usage[] =
    "usage: weft hosts --hosts N [options] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Makes hosts out of this machine, hostA, hostB and so on, starts ranks of PROGRAM on them as weft run does, and\n"
    "removes them. Hosts share files and cores; each has its own name, network (eth0, 10.0.0.1 and so on, or with\n"
    "--ipv6 fd00::1), processes, System V and POSIX shared memory. They hang on one switch, each on a link with a "
    "rate\n"
    "and a queue of 20 ms. Needs root or user namespaces (PROGRAM then thinks it is root), `ip` and `tc` of iproute2,\n"
    "for --delay and --loss also /dev/net/tun. Nothing is left behind, even if this command is killed.\n"
    "\n"
    "Exit code: as weft run; 77 if this machine does not permit or lacks what is needed.";

static int wrong(const char *name, const char *text, quantity kind)
{
    return complain(EXIT_USAGE, "--%s is '%s', not %s", name, text, quantity_name(kind));
}

static int read_links(const hosts_options *o, bed_plan *plan)
{
    bool unlimited = !o->rate || strcmp(o->rate, "unlimited") == 0;
    if (!unlimited && !quantity_read(QUANTITY_RATE, o->rate, &plan->rate))
        return wrong("rate", o->rate, QUANTITY_RATE);
    if (o->delay && !quantity_read(QUANTITY_TIME, o->delay, &plan->delay))
        return wrong("delay", o->delay, QUANTITY_TIME);
    if (o->loss && !quantity_read(QUANTITY_PART, o->loss, &plan->loss))
        return wrong("loss", o->loss, QUANTITY_PART);
    return EXIT_DONE;
}

/* "hostB" or "B"; -1 = there is none of the name. */
static int find_host(const char *text, int hosts)
{
    char name[16];
    for (int i = 0; i < hosts; i++) {
        host_name(i, name, sizeof name);
        if (strcmp(text, name) == 0 || strcmp(text, name + strlen("host")) == 0)
            return i;
    }
    return -1;
}

static void say_counters(const bed *b)
{
    const bed_plan *plan = b->plan;
    host_counters c;
    char name[16], rate[32] = "unlimited";
    if (plan->rate > 0)
        snprintf(rate, sizeof rate, "%g Mbit/s", plan->rate / 1e6);
    complain(0, "%d hosts, rate %s, delay %g us, loss %g%%, mtu %d, %s, congestion control %s", plan->hosts.count, rate,
             plan->delay * 1e6, plan->loss * 100, plan->mtu, plan->hosts.ipv6 ? "IPv6" : "IPv4", b->control);
    for (int i = 0; i < plan->hosts.count; i++) {
        host_name(i, name, sizeof name);
        if (host_count(&b->hosts[i], &c))
            complain(0, "%s sent %" PRIu64 " bytes, received %" PRIu64 " bytes", name, c.sent_bytes, c.received_bytes);
        else
            complain(0, "cannot read the counters of %s: %s", name, strerror(errno));
    }
}

static void set_torch_environment(const host_plan *plan, int ranks_each)
{
    char address[32], text[16];
    host_address(plan, 0, address, sizeof address);
    setenv("MASTER_ADDR", address, 1);
    snprintf(text, sizeof text, "%d", TORCH_PORT);
    setenv("MASTER_PORT", text, 1);
    snprintf(text, sizeof text, "%d", ranks_each);
    setenv("LOCAL_WORLD_SIZE", text, 1);
}

static int run(hosts_options *o, const bed *b, int shell)
{
    int pidfds[HOSTS_MOST];
    char rendezvous[64], address[32];
    const host_plan *plan = &b->plan->hosts;
    for (int i = 0; i < plan->count; i++)
        pidfds[i] = b->hosts[i].pidfd;
    host_address(plan, 0, address, sizeof address);
    snprintf(rendezvous, sizeof rendezvous, plan->ipv6 ? "tcp://[%s]:%d" : "tcp://%s:%d", address, WEFT_PORT);
    start_hosts hosts = {pidfds, o->ranks_each, rendezvous, o->torch};
    o->launch.ranks = plan->count * o->ranks_each;
    o->launch.hosts = &hosts;
    if (shell >= 0) { /* a program by itself is the one rank of its world */
        hosts.pidfds = &pidfds[shell];
        o->launch.ranks = 1;
        o->launch.threads = true;
    } else if (o->torch) {
        set_torch_environment(plan, o->ranks_each);
    }
    int code = launch(&o->launch);
    if (o->counters)
        say_counters(b);
    return code;
}

int command_hosts(int argc, char **argv)
{
    hosts_options o = {.launch = LAUNCH_DEFAULTS, .ranks_each = 1, .mtu = 1500};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &o, &rest);
    if (code != OPTIONS_GO)
        return code;
    bed_plan plan = {.hosts = {o.hosts, o.ipv6}, .mtu = o.mtu, .congestion = o.congestion};
    int shell = o.shell ? find_host(o.shell, o.hosts) : -1;
    if (o.hosts == 0)
        return complain(EXIT_USAGE, "--hosts is missing: how many hosts? (see weft hosts --help)");
    if (rest >= argc)
        return complain(EXIT_USAGE, "no program to run (see weft hosts --help)");
    if (o.shell && shell < 0)
        return complain(EXIT_USAGE, "--shell is '%s', not one of the %d hosts (hostA ...)", o.shell, o.hosts);
    code = read_links(&o, &plan);
    if (code != EXIT_DONE)
        return code;
    o.launch.command = argv + rest;
    bed b;
    code = bed_open(&b, &plan);
    if (code == EXIT_DONE)
        code = run(&o, &b, shell);
    bed_close(&b);
    return code;
}
