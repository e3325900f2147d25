/* SPDX-License-Identifier: Apache-2.0 */
/* Which job this is, and where its ranks meet, as the variables of its launcher tell. */
#ifndef WEFT_BOOTSTRAP_JOB_H
#define WEFT_BOOTSTRAP_JOB_H
#include <stdbool.h>
#include <stdint.h>
#include <weft/result.h>

#include "base/hash.h"
#include "bootstrap/address.h"

/* The value of a variable; NULL if it is not set or empty. */
const char *weft__job_variable(char *const *environment, const char *name);
/* Continue @p hash by name and value of a variable, if it is set. */
uint64_t weft__job_hash(uint64_t hash, char *const *environment, const char *name);
/* Continued; the zero byte at the end counts, so that "a", "bc" is not "ab", "c". */
uint64_t weft__job_hash_text(uint64_t hash, const char *text);
/* Continue @p hash by what all processes have in common that a hydra started on this host: their proxy, which holds the
 * other end of PMI_FD. Unchanged if there is none. */
uint64_t weft__job_hash_proxy(uint64_t hash, char *const *environment);

/* Does MASTER_ADDR say that all is on this host? */
bool weft__job_master_is_here(char *const *environment);
/* The address for ranks of several hosts: that of rank 0 by MASTER_ADDR, by Slurm's list of hosts (of the @p step, or
 * of the whole job), or by Open MPI's mpirun; and ports that follow from the job, never MASTER_PORT, which is the
 * launcher's own. WEFT_AGAIN: nothing says where. E_INVALID names the variable that makes no sense. */
weft_result weft__job_address(char *const *environment, bool step, uint64_t job, char address[WEFT__ADDRESS_MAX]);

/* Take over an address of a user, as WEFT_RENDEZVOUS has it. E_INVALID names @p from. */
weft_result weft__job_read_address(const char *from, const char *text, char address[WEFT__ADDRESS_MAX]);
/* Add WEFT_IFACE, unless @p iface is NULL or the address names interfaces itself or needs none. */
weft_result weft__job_add_iface(const char *iface, char address[WEFT__ADDRESS_MAX]);
/* Continue @p job by what is the same on all hosts in @p address. */
uint64_t weft__job_key(uint64_t job, const char *address);

#endif
