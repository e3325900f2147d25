/* SPDX-License-Identifier: Apache-2.0 */
/* Moves frames between the TAP devices of the hosts. A frame takes the sender's link for its bits, travels for the
 * delay, and takes the receiver's link for its bits. The kernel hands over long pieces of a stream as one frame
 * (virtio's header says so), which counts as the packets it would become; where packets get lost it may not. */
#include "hosts/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "hosts/helper.h"
#include "hosts/permit.h"
#include "hosts/queue.h"

enum { FRAME_BYTES = 70000, ETHERNET_BYTES = 14, AT_ONCE = 16, QUEUE_BYTES = 64 << 20 };
#define NEVER      INT64_MAX
#define BACKLOG_NS 20000000 /* more than a sender's link can take in this time waits in the host's own queue */
#define RETRY_NS   50000    /* for a host that takes no frame at the moment */

typedef struct port {
    int fd;
    int64_t sends_until_ns, receives_until_ns; /* the two directions of its link are taken for so long */
    queue arriving;
} port;

typedef struct the_switch {
    const switch_plan *plan;
    port ports[HOSTS_MOST];
    uint64_t random;
} the_switch;

/* ---- ports ---- */

static int open_tap(const switch_plan *plan, int index, int *fd)
{
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int header = sizeof(struct virtio_net_hdr);
    unsigned long offloads = plan->loss > 0 ? TUN_F_CSUM : TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (setns(plan->hosts[index].pidfd, CLONE_NEWNET) < 0)
        return permit_cannot("enter the network of a host");
    *fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return permit_cannot("open /dev/net/tun, which delay and loss need");
    if (ioctl(*fd, TUNSETIFF, &request) < 0 || ioctl(*fd, TUNSETVNETHDRSZ, &header) < 0 ||
        ioctl(*fd, TUNSETOFFLOAD, offloads) < 0)
        return permit_cannot("make a TAP device, which delay and loss need");
    return EXIT_DONE;
}

static int prepare(void *argument)
{
    the_switch *s = argument;
    for (int i = 0; i < s->plan->ports; i++) {
        int code = open_tap(s->plan, i, &s->ports[i].fd);
        if (code != EXIT_DONE)
            return code;
        if (!queue_open(&s->ports[i].arriving, QUEUE_BYTES))
            return complain(EXIT_FAILED, "no memory for the queue of a link");
    }
    return EXIT_DONE;
}

/* ---- a frame ---- */

/* As packets: each has the headers in front of its part of the data. */
static double bits_of(const char *data, size_t bytes)
{
    struct virtio_net_hdr header;
    memcpy(&header, data, sizeof header);
    size_t length = bytes - sizeof header;
    if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE || header.gso_size == 0 || length <= header.hdr_len)
        return 8.0 * (double)length;
    size_t packets = (length - header.hdr_len + header.gso_size - 1) / header.gso_size;
    return 8.0 * (double)(length + (packets - 1) * header.hdr_len);
}

/* splitmix64: the same packets are lost in every run, if they come in the same order. */
static bool is_lost(the_switch *s)
{
    uint64_t x = s->random += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return ldexp((double)((x ^ (x >> 31)) >> 11), -53) < s->plan->loss;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void take(the_switch *s, int from, const char *data, size_t bytes, int64_t now)
{
    const switch_plan *plan = s->plan;
    const unsigned char *mac = (const unsigned char *)data + sizeof(struct virtio_net_hdr);
    bool to_all = mac[0] & 1;
    int64_t on_link_ns = plan->rate > 0 ? (int64_t)(bits_of(data, bytes) / plan->rate * 1e9) : 0;
    port *source = &s->ports[from];
    source->sends_until_ns = later(source->sends_until_ns, now) + on_link_ns;
    int64_t arrives_ns = source->sends_until_ns + (int64_t)(plan->delay * 1e9);
    for (int to = 0; to < plan->ports; to++) {
        port *p = &s->ports[to];
        if (to == from || (!to_all && mac[5] != to) || (plan->loss > 0 && is_lost(s)))
            continue;
        int64_t due_ns = later(arrives_ns, p->receives_until_ns + on_link_ns);
        if (queue_put(&p->arriving, due_ns, data, bytes))
            p->receives_until_ns = due_ns;
    }
}

/* ---- the loop ---- */

/* Returns when the next is due. */
static int64_t deliver(port *p, int64_t now)
{
    for (const frame *f; (f = queue_first(&p->arriving)); queue_drop(&p->arriving)) {
        if (f->due_ns > now)
            return f->due_ns;
        if (write(p->fd, f + 1, f->bytes) < 0 && (errno == EAGAIN || errno == EINTR))
            return now + RETRY_NS;
    }
    return NEVER;
}

static bool is_behind(const port *p, int64_t now)
{
    return p->sends_until_ns > now + BACKLOG_NS;
}

static void receive(the_switch *s, int from)
{
    static char data[FRAME_BYTES];
    for (int i = 0; i < AT_ONCE && !is_behind(&s->ports[from], clock_ns()); i++) {
        ssize_t n = read(s->ports[from].fd, data, sizeof data);
        if (n < (ssize_t)(sizeof(struct virtio_net_hdr) + ETHERNET_BYTES))
            return;
        take(s, from, data, (size_t)n, clock_ns());
    }
}

static void wait_until(struct pollfd *polls, int count, int64_t next)
{
    int64_t left = later(next - clock_ns(), 0);
    struct timespec t = {left / 1000000000, left % 1000000000};
    if (ppoll(polls, (nfds_t)count, next == NEVER ? NULL : &t, NULL) < 0)
        for (int i = 0; i < count; i++)
            polls[i].revents = 0;
}

static void serve(void *argument, int end)
{
    the_switch *s = argument;
    int ports = s->plan->ports;
    struct pollfd polls[HOSTS_MOST + 1];
    polls[ports] = (struct pollfd){.fd = end, .events = POLLIN};
    prctl(PR_SET_TIMERSLACK, 1);
    /* A wire does not wait for ranks that keep every core busy. It is no error if that is not permitted. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10});
    while (!polls[ports].revents) {
        int64_t now = clock_ns(), next = NEVER;
        for (int i = 0; i < ports; i++) {
            port *p = &s->ports[i];
            int64_t due = deliver(p, now), reads = is_behind(p, now) ? p->sends_until_ns - BACKLOG_NS : NEVER;
            polls[i] = (struct pollfd){.fd = reads == NEVER ? p->fd : -1, .events = POLLIN};
            next = due < next ? due : next;
            next = reads < next ? reads : next;
        }
        wait_until(polls, ports + 1, next);
        for (int i = 0; i < ports; i++)
            if (polls[i].revents)
                receive(s, i);
    }
}

int switch_start(const switch_plan *plan, const int alive[2], pid_t *pid)
{
    static the_switch s;
    s = (the_switch){.plan = plan};
    int pidfd;
    const helper process = {prepare, serve, &s, 0};
    int code = helper_start(&process, alive, pid, &pidfd);
    if (code == EXIT_DONE)
        close(pidfd);
    return code;
}
