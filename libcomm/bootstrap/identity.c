/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares a host. The machine is told by its boot id and by what keeps containers apart: names repeat,
 * and containers rename themselves. */
#include "bootstrap/identity.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/version.h>

#include "base/error.h"

static void read_boot_id(char *text, size_t bytes)
{
    text[0] = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, bytes - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

/* "-4026531840" of the namespace of that kind; nothing if there are none. */
static void add_namespace(const char *kind, char *text, size_t bytes)
{
    char path[32], link[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ssize_t n = readlink(path, link, sizeof link - 1);
    link[n > 0 ? n : 0] = 0;
    const char *number = strchr(link, '[');
    size_t used = strlen(text);
    if (number)
        snprintf(text + used, bytes - used, "-%.*s", (int)strcspn(number + 1, "]"), number + 1);
}

static void read_cpus(weft__identity *identity)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpu < WEFT__IDENTITY_CPUS; cpu++)
        if (CPU_ISSET(cpu, &set))
            identity->cpus[cpu / 64] |= (uint64_t)1 << (cpu % 64);
}

weft_result weft__identity_find(int rank, int size, const weft_world_config *config, weft__identity *identity)
{
    memset(identity, 0, sizeof *identity);
    identity->weft_version = WEFT_VERSION_NUMBER;
    identity->rank = rank;
    identity->size = size;
    identity->pid = (int32_t)getpid();
    identity->heap_reserve_bytes = config->heap_bytes;
    identity->timeout_ms = config->timeout_ms;
    identity->rendezvous_timeout_ms = config->rendezvous_timeout_ms;
    if (gethostname(identity->host_name, sizeof identity->host_name - 1) != 0)
        snprintf(identity->host_name, sizeof identity->host_name, "unknown");
    read_boot_id(identity->machine, sizeof identity->machine);
    if (!identity->machine[0]) /* no /proc: the name is all there is */
        snprintf(identity->machine, sizeof identity->machine, "%.63s", identity->host_name);
    add_namespace("net", identity->machine, sizeof identity->machine); /* of sockets that pass descriptors, */
    add_namespace("pid", identity->machine, sizeof identity->machine); /* and of those that tell of a death */
    if (config->host_id && strlen(config->host_id) >= sizeof identity->host)
        return weft__fail(WEFT_E_INVALID, "host id '%s' is longer than %zu bytes", config->host_id,
                          sizeof identity->host - 1);
    snprintf(identity->host, sizeof identity->host, "%s", config->host_id ? config->host_id : identity->machine);
    if (config->backend && strlen(config->backend) >= sizeof identity->backend)
        return weft__fail(WEFT_E_NOT_FOUND, "there is no backend '%s'", config->backend);
    snprintf(identity->backend, sizeof identity->backend, "%s", config->backend ? config->backend : "");
    read_cpus(identity);
    return WEFT_OK;
}

weft_result weft__identity_compare(const weft__identity *all, int size)
{
    for (int r = 0; r < size; r++) {
        const weft__identity *a = &all[0], *b = &all[r];
        if (b->weft_version != a->weft_version)
            return weft__fail(WEFT_E_MISMATCH, "rank %d runs weft %u.%u.%u, rank 0 %u.%u.%u", r,
                              b->weft_version / 10000, b->weft_version / 100 % 100, b->weft_version % 100,
                              a->weft_version / 10000, a->weft_version / 100 % 100, a->weft_version % 100);
        if (b->size != a->size)
            return weft__fail(WEFT_E_MISMATCH, "rank %d was told of %d ranks, rank 0 of %d", r, b->size, a->size);
        if (b->timeout_ms != a->timeout_ms)
            return weft__fail(WEFT_E_MISMATCH, "rank %d has a timeout of %u ms, rank 0 of %u ms", r, b->timeout_ms,
                              a->timeout_ms);
        if (strcmp(b->backend, a->backend) != 0)
            return weft__fail(WEFT_E_MISMATCH, "rank %d wants backend '%s', rank 0 '%s'", r, b->backend, a->backend);
    }
    return WEFT_OK;
}

void weft__identity_hosts(const weft__identity *all, int size, int *host_of)
{
    int hosts = 0;
    for (int r = 0; r < size; r++) {
        int seen = 0;
        while (seen < r && strcmp(all[seen].host, all[r].host) != 0)
            seen++;
        host_of[r] = seen < r ? host_of[seen] : hosts++;
    }
}

bool weft__identity_crowded(const weft__identity *all, int size, const char *machine)
{
    uint64_t cpus[WEFT__IDENTITY_CPUS / 64] = {0};
    int ranks = 0, cores = 0;
    for (int r = 0; r < size; r++) {
        if (strcmp(all[r].machine, machine) != 0)
            continue;
        ranks++;
        for (int i = 0; i < WEFT__IDENTITY_CPUS / 64; i++)
            cpus[i] |= all[r].cpus[i];
    }
    for (int i = 0; i < WEFT__IDENTITY_CPUS / 64; i++)
        cores += __builtin_popcountll(cpus[i]);
    return ranks > cores;
}
