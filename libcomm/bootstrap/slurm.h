/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's short ways to write lists; pure. */
#ifndef WEFT_BOOTSTRAP_SLURM_H
#define WEFT_BOOTSTRAP_SLURM_H
#include <stdbool.h>
#include <stddef.h>

/* The first host of a list such as "rack[0-1]node[001-003,7],x". False: it makes no sense, or @p room is too little. */
bool weft__slurm_first_host(const char *list, char *host, size_t room);
/* How many tasks the node with this number has, of a list such as "2(x3),1". -1: it makes no sense, or has no such
 * node. */
int weft__slurm_tasks(const char *list, int node);

#endif
