/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and the links between them, out of one machine: each host has an interface eth0 on a link of its own to one
 * switch. All of it ends with the process that made it, however that ends. */
#ifndef WEFT_BENCH_HOSTS_BED_H
#define WEFT_BENCH_HOSTS_BED_H
#include "hosts/host.h"

typedef struct bed_plan {
    host_plan hosts;
    int mtu;
    const char *congestion; /* control of TCP; NULL = the machine's */
    double rate;            /* of every link in each direction, bits a second; 0 = unlimited */
    double delay;           /* from host to host, seconds */
    double loss;            /* of packets, as a part of one */
} bed_plan;

typedef struct bed {
    const bed_plan *plan;
    host hosts[HOSTS_MOST];
    int made;         /* hosts so far */
    int alive[2];     /* the pipe whose end ends all helpers */
    pid_t switch_pid; /* of the switch that delays; 0 = none */
    char control[32]; /* the congestion control of TCP */
} bed;

/* EXIT_DONE, or after a complaint the code to exit with. This process leaves its network namespace, and if it is not
 * permitted to make others, its user namespace: there it is root. */
int bed_open(bed *b, const bed_plan *plan);
void bed_close(bed *b);

#endif
