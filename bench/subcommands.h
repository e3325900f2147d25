/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `weft`, each in a file or folder of its own. argv[0] is the subcommand's name. */
#ifndef WEFT_BENCH_SUBCOMMANDS_H
#define WEFT_BENCH_SUBCOMMANDS_H

#define SUBCOMMANDS SUBCOMMAND(schedule, "pipeline schedules: when each stage computes what; checks your own")

#define SUBCOMMAND(name, help) int command_##name(int argc, char **argv);
SUBCOMMANDS
#undef SUBCOMMAND

#endif
