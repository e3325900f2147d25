/* SPDX-License-Identifier: Apache-2.0 */
/* The environment: one table of variables, read once for each world. Where a config has a field for the same, the
 * variable is its default. */
#ifndef WEFT_BASE_ENV_H
#define WEFT_BASE_ENV_H
#include <stddef.h>
#include <stdint.h>
#include <weft/log.h>
#include <weft/result.h>

typedef struct weft__env {
    int rank, size, local_rank;                /* -1 = not set */
    int threads, check, least_ctas, most_ctas; /* 0 = not set */
    const char *rendezvous, *iface, *backend, *module_path, *host_id, *trace, *device;
    int heap_mib; /* 0 = not set */
    uint32_t timeout_ms, rendezvous_timeout_ms;
} weft__env;

/* Read all variables; the strings are those of the environment. E_INVALID names the first variable that
 * makes no sense; the others have been read all the same. */
weft_result weft__env_read(weft__env *env);
/* WEFT_LOG, or warn. */
weft_log_level weft__env_log_level(void);

/* The table, for those who describe it: entry @p index, NULL behind the last. */
typedef struct weft__env_entry {
    const char *name, *type, *fallback, *help;
} weft__env_entry;
const weft__env_entry *weft__env_table(size_t index);

#endif
