/* SPDX-License-Identifier: Apache-2.0 */
/* One host: namespaces that share nothing with other hosts but files and the machine, and the process that holds them.
 * None of them has a name, so with that process all of it is gone. */
#ifndef WEFT_BENCH_HOSTS_HOST_H
#define WEFT_BENCH_HOSTS_HOST_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HOSTS_MOST = 26 }; /* the names end with a letter */

typedef struct host {
    pid_t pid; /* process 1 of the host, as the machine counts */
    int pidfd; /* of it: leads into the namespaces */
} host;

/* What all hosts have in common. */
typedef struct host_plan {
    int count;
    bool ipv6;
} host_plan;

typedef struct host_counters {
    uint64_t sent_bytes, sent_packets, received_bytes, received_packets;
} host_counters;

/* "hostA". */
void host_name(int index, char *name, size_t bytes);
/* Its address on the link, the same in every bed. */
void host_address(const host_plan *plan, int index, char *text, size_t bytes);
/* EXIT_DONE, or after a complaint the code to exit with. */
int host_start(host *h, int index, const host_plan *plan, const int alive[2]);
/* What has passed its interface eth0. False: errno says why. */
bool host_count(const host *h, host_counters *counters);

#endif
