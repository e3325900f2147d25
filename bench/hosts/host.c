/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a host from inside: its name, its /proc, /sys, /dev/shm and /etc/hosts, and what its network is set to. */
#include "hosts/host.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "complain.h"
#include "hosts/file.h"
#include "hosts/helper.h"
#include "hosts/permit.h"

#define HOST_NAMESPACES (CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)

typedef struct making {
    int index;
    const host_plan *plan;
} making;

void host_name(int index, char *name, size_t bytes)
{
    snprintf(name, bytes, "host%c", 'A' + index);
}

void host_address(const host_plan *plan, int index, char *text, size_t bytes)
{
    snprintf(text, bytes, plan->ipv6 ? "fd00::%x" : "10.0.0.%d", index + 1);
}

/* In order. The fresh /sys, which shows the host's own interfaces, waits under the later /dev/shm: only two folders of
 * it are wanted, for the machine's has cgroups below it. */
static const struct {
    const char *from, *to, *type;
    unsigned long flags;
    const char *what;
} mounts[] = {
    {NULL, "/", NULL, MS_REC | MS_PRIVATE, "keep the mounts of a host to itself"},
    {"proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount the /proc of a host"},
    {"sysfs", "/dev/shm", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mount the /sys of a host"},
    {"/dev/shm/class/net", "/sys/class/net", NULL, MS_BIND, "mount the /sys/class/net of a host"},
    {"/dev/shm/devices/virtual/net", "/sys/devices/virtual/net", NULL, MS_BIND, "mount the /sys/devices of a host"},
    {"tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mount the /dev/shm of a host"},
};

static int mount_all(void)
{
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
        if (mount(mounts[i].from, mounts[i].to, mounts[i].type, mounts[i].flags, NULL) < 0)
            return permit_cannot(mounts[i].what);
    return EXIT_DONE;
}

/* Hosts find each other by name. The file has no name of its own once it is mounted. */
static int mount_names(const host_plan *plan)
{
    const char *path = "/dev/shm/hosts";
    FILE *file = fopen(path, "we");
    if (!file)
        return complain(EXIT_FAILED, "cannot write the /etc/hosts of a host: %s", strerror(errno));
    fprintf(file, "127.0.0.1 localhost\n::1 localhost\n");
    for (int i = 0; i < plan->count; i++) {
        char name[16], address[32];
        host_name(i, name, sizeof name);
        host_address(plan, i, address, sizeof address);
        fprintf(file, "%s %s\n", address, name);
    }
    if (fclose(file) != 0 || mount(path, "/etc/hosts", NULL, MS_BIND, NULL) < 0 || unlink(path) < 0)
        return permit_cannot("mount the /etc/hosts of a host");
    return EXIT_DONE;
}

/* Without IPv6 a host also does not send what nobody asked for, so that counters count what ranks send. */
static int set_network(const host_plan *plan)
{
    const char *off = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
    bool has_ipv6 = access(off, F_OK) == 0;
    if (plan->ipv6 && !has_ipv6)
        return complain(EXIT_NOT_PERMITTED, "this machine has no IPv6");
    if (!plan->ipv6 && has_ipv6 && !file_write(off, "1"))
        return permit_cannot("switch off the IPv6 of a host");
    return EXIT_DONE;
}

static int prepare(void *argument)
{
    const making *m = argument;
    char name[16];
    host_name(m->index, name, sizeof name);
    if (sethostname(name, strlen(name)) < 0)
        return permit_cannot("name a host");
    int code = mount_all();
    if (code == EXIT_DONE)
        code = mount_names(m->plan);
    return code == EXIT_DONE ? set_network(m->plan) : code;
}

/* Process 1 of a host takes in its orphans. With its end the kernel kills all that run on the host. */
static void serve(void *argument, int end)
{
    (void)argument;
    char byte;
    signal(SIGCHLD, SIG_IGN);
    while (read(end, &byte, 1) < 0 && errno == EINTR)
        ;
}

int host_start(host *h, int index, const host_plan *plan, const int alive[2])
{
    making m = {index, plan};
    const helper init = {prepare, serve, &m, HOST_NAMESPACES};
    return helper_start(&init, alive, &h->pid, &h->pidfd);
}

bool host_count(const host *h, host_counters *c)
{
    char path[64], line[512];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/net/dev", (int)h->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, " eth0: %" SCNu64 " %" SCNu64 " %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                       &c->received_bytes, &c->received_packets, &c->sent_bytes, &c->sent_packets) == 4;
    fclose(file);
    errno = ENODEV;
    return found;
}
