/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `ip` and `tc` of iproute2, which know how to set up networks. */
#ifndef WEFT_BENCH_HOSTS_TOOL_H
#define WEFT_BENCH_HOSTS_TOOL_H

/* Run the lines of @p batch with @p tool, "ip" or "tc", in the network of process @p pidfd; -1 = of this one.
 * EXIT_DONE, or after a complaint with the tool's own words the code to exit with. */
int tool_run(const char *tool, int pidfd, const char *batch);

#endif
