/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares a host. It is told by its boot id, since names repeat and containers rename themselves, and by the
 * namespaces and the user: ranks share memory by descriptors that they pass over abstract sockets, and watch each other
 * by pid. */
#include "bootstrap/identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/version.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

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

/* Equal where abstract sockets, pids and the user are the same ones. */
static uint64_t hash_reach(void)
{
    static const char *const namespaces[] = {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user"};
    uid_t user = geteuid();
    uint64_t hash = weft__hash(WEFT__HASH_START, &user, sizeof user);
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        struct stat s = {0};
        if (stat(namespaces[i], &s) != 0)
            s.st_ino = 0;
        hash = weft__hash(hash, &s.st_ino, sizeof s.st_ino);
    }
    return hash;
}

/* The part of a machine's text that does not tell what reaches what. */
static size_t boot_bytes(const char *machine)
{
    return strcspn(machine, "/");
}

static bool same_boot(const char *a, const char *b)
{
    return boot_bytes(a) == boot_bytes(b) && memcmp(a, b, boot_bytes(a)) == 0;
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
    char boot[40];
    read_boot_id(boot, sizeof boot);
    if (!boot[0]) /* no /proc: the name is all there is */
        snprintf(boot, sizeof boot, "%.36s", identity->host_name);
    snprintf(identity->machine, sizeof identity->machine, "%s/%016" PRIx64, boot, hash_reach());
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

/* The slot of a text in a table that is larger than it will be full: its own, or an empty one (-1). */
static size_t slot_of(const int *table, size_t slots, const char *first, size_t stride, const char *text)
{
    size_t at = (size_t)weft__hash(WEFT__HASH_START, text, strlen(text)) & (slots - 1);
    while (table[at] >= 0 && strcmp(first + (size_t)table[at] * stride, text) != 0)
        at = (at + 1) & (slots - 1);
    return at;
}

/* Number the texts that lie @p stride apart by the first of each. */
static weft_result number_texts(const char *first, size_t stride, int count, int *number_of)
{
    size_t slots = 2;
    while (slots < 2 * (size_t)count)
        slots *= 2;
    int *table = weft__alloc(slots * sizeof *table), numbers = 0; /* indices of texts */
    if (!table)
        return WEFT_E_NO_MEMORY;
    memset(table, -1, slots * sizeof *table);
    for (int i = 0; i < count; i++) {
        size_t at = slot_of(table, slots, first, stride, first + (size_t)i * stride);
        number_of[i] = table[at] < 0 ? numbers++ : number_of[table[at]];
        table[at] = table[at] < 0 ? i : table[at];
    }
    free(table);
    return WEFT_OK;
}

weft_result weft__identity_number(const weft__identity *all, int size, int *host_of, int *machine_of)
{
    WEFT_TRY(number_texts(all->host, sizeof *all, size, host_of));
    return number_texts(all->machine, sizeof *all, size, machine_of);
}

bool weft__identity_crowded(const weft__identity *all, int size, const char *machine)
{
    uint64_t cpus[WEFT__IDENTITY_CPUS / 64] = {0};
    int ranks = 0, cores = 0;
    for (int r = 0; r < size; r++) {
        if (!same_boot(all[r].machine, machine))
            continue;
        ranks++;
        for (int i = 0; i < WEFT__IDENTITY_CPUS / 64; i++)
            cpus[i] |= all[r].cpus[i];
    }
    for (int i = 0; i < WEFT__IDENTITY_CPUS / 64; i++)
        cores += __builtin_popcountll(cpus[i]);
    return ranks > cores;
}
