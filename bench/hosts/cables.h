/* SPDX-License-Identifier: Apache-2.0 */
/* The cables between the hosts of a bed and their switch. A rate is kept by the kernel (veth pairs, a bridge, tbf);
 * delay and loss, for which not every kernel has a qdisc, by a process that is the switch. */
#ifndef WEFT_BENCH_HOSTS_CABLES_H
#define WEFT_BENCH_HOSTS_CABLES_H
#include "hosts/bed.h"

/* EXIT_DONE, or after a complaint the code to exit with. */
int cables_lay(bed *b);

#endif
