/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tells the others about itself: where it runs, and what it was told. Fixed size; it travels as bytes. */
#ifndef WEFT_BOOTSTRAP_IDENTITY_H
#define WEFT_BOOTSTRAP_IDENTITY_H
#include <stdbool.h>
#include <stdint.h>
#include <weft/backend.h>
#include <weft/world.h>

#define WEFT__IDENTITY_CPUS 1024

typedef struct weft__identity {
    uint32_t weft_version;
    int32_t rank, size, pid;
    char host[64];                           /* equal = same host, for placement: the host_id given, else the machine */
    char machine[64];                        /* equal = memory can be shared: boot id, "/", namespaces and user */
    char host_name[64];                      /* for people */
    uint64_t cpus[WEFT__IDENTITY_CPUS / 64]; /* that this rank may run on */
    uint64_t heap_reserve_bytes;
    uint32_t timeout_ms, rendezvous_timeout_ms;
    char backend[WEFT_BACKEND_NAME_MAX + 1];
} weft__identity;

/* This process. @p config is complete: the environment has been read into it. */
weft_result weft__identity_find(int rank, int size, const weft_world_config *config, weft__identity *identity);
/* Whether @p all, those of every rank, can be one world; E_MISMATCH names ranks and the difference. */
weft_result weft__identity_compare(const weft__identity *all, int size);
/* Number hosts, and machines, by their lowest rank. */
WEFT_NODISCARD weft_result weft__identity_number(const weft__identity *all, int size, int *host_of, int *machine_of);
/* Are there more ranks on the allowed cores of @p machine than cores, in all its namespaces? */
bool weft__identity_crowded(const weft__identity *all, int size, const char *machine);

#endif
