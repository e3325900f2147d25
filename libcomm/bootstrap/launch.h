/* SPDX-License-Identifier: Apache-2.0 */
/* Who am I: the rank of this process, how many there are and where they meet, as its launcher tells it. */
#ifndef WEFT_BOOTSTRAP_LAUNCH_H
#define WEFT_BOOTSTRAP_LAUNCH_H
#include <stdint.h>
#include <weft/world.h>

#include "base/env.h"
#include "bootstrap/address.h"

typedef struct weft__launch {
    int rank, size;
    int local_rank, local_size;         /* among the ranks of this host; rank -1: nobody tells */
    char rendezvous[WEFT__ADDRESS_MAX]; /* address.h; empty: one rank, and no address was given */
    uint64_t job_key;   /* equal on all ranks of a job; differs between jobs, and between restarts of one */
    const char *source; /* who said so; static text */
} weft__launch;

/* Asks, in this order: @p config (if its ranks > 0; NULL = no config), WEFT_RANK and WEFT_SIZE in @p env, torchrun,
 * Open MPI, PALS, MPICH and whatever else speaks PMI, Slurm (in a step of srun); if nobody says anything, this is the
 * one rank of its world. The first who names both rank and size is believed. Half a pair in front of it is an error,
 * behind it without effect. A later pair that differs is an error too, but: the config may differ from everybody,
 * everybody from Slurm, whose step may hold mpirun or torchrun, and torchrun, when it counts the ranks of its host,
 * from an mpirun around it (one warning).
 *
 * Where they meet: as @p config or WEFT_RENDEZVOUS says; else ranks of one host at a socket that is named for their
 * job; ranks of several hosts at rank 0's, as MASTER_ADDR, Slurm or Open MPI tell (job.h).
 * @p environment: "NAME=value" strings with NULL behind the last, such as environ; only launchers' variables are read.
 * Errors: E_INVALID and E_RANGE name the variable, or say what to set. */
weft_result weft__launch_find(const weft_world_config *config, const weft__env *env, char *const *environment,
                              weft__launch *launch_out);

#endif
