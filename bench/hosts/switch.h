/* SPDX-License-Identifier: Apache-2.0 */
/* An Ethernet switch as a process, whose links have a rate, a delay and losses. */
#ifndef WEFT_BENCH_HOSTS_SWITCH_H
#define WEFT_BENCH_HOSTS_SWITCH_H
#include "hosts/host.h"

typedef struct switch_plan {
    int ports;
    const host *hosts; /* one a port */
    double rate;       /* of each link in each direction, bits a second; 0 = unlimited */
    double delay;      /* seconds */
    double loss;       /* of packets, as a part of one */
} switch_plan;

/* Give every host an interface eth0, whose MAC address must end with the host's number, and switch between them.
 * EXIT_DONE, or after a complaint the code to exit with. */
int switch_start(const switch_plan *plan, const int alive[2], pid_t *pid);

#endif
