/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what launchers say in the environment, and holds their statements against each other. */
#include "bootstrap/launch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

enum source_id { CONFIG, WEFT, TORCHRUN, OPEN_MPI, SOURCES };

typedef struct source {
    const char *name;
    const char *rank, *size, *local_rank, *local_size; /* how messages call them; of launchers: the variables */
    const char *key[4];                                /* what tells its job from the other jobs of this user */
} source;

static const source sources[SOURCES] = {
    [CONFIG] = {"the config", "rank in the world's config", "ranks in the world's config"},
    [WEFT] = {"WEFT_RANK", "WEFT_RANK", "WEFT_SIZE", "WEFT_LOCAL_RANK"},
    [TORCHRUN] = {"torchrun",
                  "RANK",
                  "WORLD_SIZE",
                  "LOCAL_RANK",
                  "LOCAL_WORLD_SIZE",
                  {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}},
    [OPEN_MPI] = {"Open MPI",
                  "OMPI_COMM_WORLD_RANK",
                  "OMPI_COMM_WORLD_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                  {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"}},
};

/* What one source says; -1 = nothing. */
typedef struct claim {
    int rank, size, local_rank, local_size;
} claim;

static bool complete(const claim *c)
{
    return c->rank >= 0 && c->size >= 0;
}

/* The value of a variable; NULL if it is not set or empty. */
static const char *look_up(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return (*environment)[n + 1] ? *environment + n + 1 : NULL;
    return NULL;
}

static weft_result read_number(char *const *environment, const char *name, int *value)
{
    const char *text = look_up(environment, name);
    if (!text)
        return WEFT_OK;
    int64_t number = 0;
    for (const char *c = text; *c; c++) {
        number = *c >= '0' && *c <= '9' ? number * 10 + (*c - '0') : INT64_MAX;
        if (number > INT_MAX)
            return weft__fail(WEFT_E_INVALID, "%s is '%s', not a whole number from 0 to %d", name, text, INT_MAX);
    }
    *value = (int)number;
    return WEFT_OK;
}

static weft_result read_claims(const weft_world_config *config, const weft__env *env, char *const *environment,
                               claim *claims)
{
    for (int i = 0; i < SOURCES; i++)
        claims[i] = (claim){-1, -1, -1, -1};
    if (config && (config->ranks < 0 || (config->ranks > 0 && config->rank < 0)))
        return weft__fail(WEFT_E_RANGE, "rank %d of %d in the world's config is no rank", config->rank, config->ranks);
    if (config && config->ranks > 0)
        claims[CONFIG] = (claim){config->rank, config->ranks, -1, -1};
    claims[WEFT] = (claim){env->rank, env->size, env->local_rank, -1};
    for (int i = TORCHRUN; i < SOURCES; i++) {
        WEFT_TRY(read_number(environment, sources[i].rank, &claims[i].rank));
        WEFT_TRY(read_number(environment, sources[i].size, &claims[i].size));
        WEFT_TRY(read_number(environment, sources[i].local_rank, &claims[i].local_rank));
        WEFT_TRY(read_number(environment, sources[i].local_size, &claims[i].local_size));
    }
    return WEFT_OK;
}

/* The first source that names both; SOURCES if none says anything. */
static weft_result believe(const claim *claims, int *believed)
{
    for (int i = 0; i < SOURCES; i++) {
        const claim *c = &claims[i];
        const source *s = &sources[i];
        *believed = i;
        if (complete(c) && c->size == 0)
            return weft__fail(WEFT_E_RANGE, "%s is 0: a world has at least one rank", s->size);
        if (complete(c) && c->rank >= c->size)
            return weft__fail(WEFT_E_RANGE, "%s is %d, but %s is %d: ranks go from 0 to %d", s->rank, c->rank, s->size,
                              c->size, c->size - 1);
        if (complete(c))
            return WEFT_OK;
        if (c->rank >= 0 || c->size >= 0)
            return weft__fail(WEFT_E_INVALID, "%s is set, but %s is not", c->rank >= 0 ? s->rank : s->size,
                              c->rank >= 0 ? s->size : s->rank);
    }
    *believed = SOURCES;
    return WEFT_OK;
}

/* Both are complete and differ. */
static weft_result disagree(const claim *claims, int believed, int other)
{
    const claim *a = &claims[believed], *b = &claims[other];
    const source *as = &sources[believed], *bs = &sources[other];
    bool ranks = a->rank != b->rank;
    if (believed == CONFIG)
        return WEFT_OK;
    if (believed == TORCHRUN && other == OPEN_MPI && a->local_size >= 0) {
        static atomic_int seen;
        weft__warn_once(&seen, "%s is %d of %d, but %s is %d of %d: taken as mpirun around torchrun", as->rank, a->rank,
                        a->size, bs->rank, b->rank, b->size);
        return WEFT_OK;
    }
    return weft__fail(WEFT_E_INVALID, "%s is %d, but %s is %d: unset the variables of one launcher",
                      ranks ? as->rank : as->size, ranks ? a->rank : a->size, ranks ? bs->rank : bs->size,
                      ranks ? b->rank : b->size);
}

static weft_result compare(const claim *claims, int believed)
{
    const claim *a = &claims[believed];
    for (int i = believed + 1; i < SOURCES; i++)
        if (complete(&claims[i]) && (claims[i].rank != a->rank || claims[i].size != a->size))
            WEFT_TRY(disagree(claims, believed, i));
    return WEFT_OK;
}

/* Does this source speak of the same job? Of the size only: it must come out alike on all ranks. */
static bool same_job(const claim *c, int size)
{
    return complete(c) && c->size == size;
}

static weft_result find_local(const claim *claims, weft__launch *found)
{
    int rank_from = SOURCES, size_from = SOURCES;
    for (int i = SOURCES - 1; i >= 0; i--) {
        bool counts = same_job(&claims[i], found->size);
        if (claims[i].local_rank >= 0 && (counts || (i == WEFT && !complete(&claims[i]))))
            rank_from = i;
        if (claims[i].local_size >= 0 && counts)
            size_from = i;
    }
    found->local_size = size_from < SOURCES ? claims[size_from].local_size : found->size;
    found->local_rank = rank_from < SOURCES ? claims[rank_from].local_rank : found->rank;
    if (found->local_size == 0 || found->local_size > found->size)
        return weft__fail(WEFT_E_RANGE, "%s is %d, but %s is %d", sources[size_from].local_size, found->local_size,
                          sources[size_from].size, found->size);
    if (found->local_size < found->size)
        return weft__fail(WEFT_E_UNSUPPORTED,
                          "ranks on several hosts: %s is %d, but %s is %d; so far all ranks must share one host",
                          sources[size_from].local_size, found->local_size, sources[size_from].size, found->size);
    if (found->local_rank >= found->local_size)
        return weft__fail(WEFT_E_RANGE, "%s is %d, but this host has %d ranks", sources[rank_from].local_rank,
                          found->local_rank, found->local_size);
    return WEFT_OK;
}

/* Continued; the zero byte at the end counts, so that "a", "bc" is not "ab", "c". */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    return weft__hash(hash, text, strlen(text) + 1);
}

/* The variables that name the job, of the first source that has any; WEFT__HASH_START if none has. */
static uint64_t hash_job(const claim *claims, int size, char *const *environment)
{
    for (int i = TORCHRUN; i < SOURCES; i++) {
        uint64_t hash = WEFT__HASH_START;
        for (size_t k = 0; k < sizeof sources[i].key / sizeof *sources[i].key && sources[i].key[k]; k++) {
            const char *value = same_job(&claims[i], size) ? look_up(environment, sources[i].key[k]) : NULL;
            if (value)
                hash = hash_text(hash_text(hash, sources[i].key[k]), value);
        }
        if (hash != WEFT__HASH_START)
            return hash;
    }
    return WEFT__HASH_START;
}

/* From "unix:///path" or "unix://@name" to what stands in sun_path; the others stay, and get the interface that was asked
 * for, unless they name one. */
static weft_result read_address(const char *from, const char *text, const char *iface, char *address)
{
    static const char unix_scheme[] = "unix://";
    weft__address parsed;
    bool is_unix = strncmp(text, unix_scheme, sizeof unix_scheme - 1) == 0;
    const char *rest = is_unix ? text + sizeof unix_scheme - 1 : text;
    if (!is_unix && strncmp(text, "tcp://", 6) != 0 && strncmp(text, "file://", 7) != 0)
        return weft__fail(WEFT_E_INVALID,
                          "%s is '%s', none of unix:///path, unix://@name, tcp://host:port, file:///folder", from,
                          text);
    if (is_unix && ((*rest != '/' && *rest != '@') || !rest[1]))
        return weft__fail(WEFT_E_INVALID, "%s is '%s', neither unix:///path nor unix://@name", from, text);
    if (is_unix && strlen(rest) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return weft__fail(WEFT_E_INVALID, "%s is '%s': more than %zu bytes behind unix://", from, text,
                          sizeof((struct sockaddr_un *)0)->sun_path - 1);
    WEFT_TRY(weft__address_parse(from, rest, &parsed));
    bool add = !is_unix && iface && !parsed.iface[0];
    int bytes = snprintf(address, WEFT__ADDRESS_MAX, "%s%s%s", rest, add ? "?iface=" : "", add ? iface : "");
    if (bytes >= WEFT__ADDRESS_MAX)
        return weft__fail(WEFT_E_INVALID, "WEFT_IFACE is '%.300s': longer than there is room for", iface);
    return WEFT_OK;
}

static weft_result find_rendezvous(const weft_world_config *config, const weft__env *env, uint64_t job,
                                   weft__launch *found)
{
    if (config && config->rendezvous)
        return read_address("rendezvous in the world's config", config->rendezvous, env->iface, found->rendezvous);
    if (env->rendezvous)
        return read_address("WEFT_RENDEZVOUS", env->rendezvous, env->iface, found->rendezvous);
    if (found->size == 1)
        return WEFT_OK;
    if (job == WEFT__HASH_START)
        return weft__fail(
            WEFT_E_INVALID,
            "rank %d of %d by %s, but nothing says where the ranks meet: set WEFT_RENDEZVOUS, for example "
            "to unix://@name",
            found->rank, found->size, found->source);
    snprintf(found->rendezvous, sizeof found->rendezvous, "@weft-%u-%016" PRIx64, (unsigned)geteuid(), job);
    return WEFT_OK;
}

/* A process of a launcher that weft does not know yet would quietly be a world of its own. */
static void warn_of_others(char *const *environment)
{
    static const char *const sizes[] = {"PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = look_up(environment, sizes[i]);
        if (size && atoi(size) > 1)
            weft__log(WEFT_LOG_WARN,
                      "%s is %s, but weft does not know this launcher: this is a world of one rank; set WEFT_RANK, "
                      "WEFT_SIZE and WEFT_RENDEZVOUS",
                      sizes[i], size);
    }
}

weft_result weft__launch_find(const weft_world_config *config, const weft__env *env, char *const *environment,
                              weft__launch *launch_out)
{
    claim claims[SOURCES];
    int believed;
    WEFT_TRY(read_claims(config, env, environment, claims));
    WEFT_TRY(believe(claims, &believed));
    weft__launch found = {.size = 1, .source = "no launcher"};
    if (believed < SOURCES) {
        WEFT_TRY(compare(claims, believed));
        found.rank = claims[believed].rank;
        found.size = claims[believed].size;
        found.source = sources[believed].name;
    } else {
        warn_of_others(environment);
    }
    WEFT_TRY(find_local(claims, &found));
    uint64_t job = hash_job(claims, found.size, environment);
    WEFT_TRY(find_rendezvous(config, env, job, &found));
    found.job_key = hash_text(job, found.rendezvous);
    *launch_out = found;
    return WEFT_OK;
}
