/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `weft`, each in a folder of its own. argv[0] is the subcommand's name; the answer is the
 * exit code. */
#ifndef WEFT_BENCH_SUBCOMMANDS_H
#define WEFT_BENCH_SUBCOMMANDS_H

int command_gpt(int argc, char **argv);
int command_hosts(int argc, char **argv);
int command_info(int argc, char **argv);
int command_perf(int argc, char **argv);
int command_prof(int argc, char **argv);
int command_run(int argc, char **argv);
int command_topo(int argc, char **argv);
int command_schedule(int argc, char **argv);

#endif
