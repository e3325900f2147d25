/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what launchers say in the environment, and holds their statements against each other. */
#include "bootstrap/launch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/job.h"
#include "bootstrap/slurm.h"

enum source_id { CONFIG, WEFT, TORCHRUN, OPEN_MPI, PALS, PMI, SLURM, SOURCES };

typedef struct source {
    const char *name;
    const char *rank, *size, *local_rank, *local_size; /* how messages call them; of launchers: the variables */
    const char *key[5];                                /* what tells its job from the other jobs of this user */
    const char *host_key;                              /* the same, but not alike on all hosts */
} source;

static const source sources[SOURCES] = {
    [CONFIG] = {"the config", "rank in the world's config", "ranks in the world's config"},
    [WEFT] = {"WEFT_RANK", "WEFT_RANK", "WEFT_SIZE", "WEFT_LOCAL_RANK"},
    [TORCHRUN] = {"torchrun",
                  "RANK",
                  "WORLD_SIZE",
                  "LOCAL_RANK",
                  "LOCAL_WORLD_SIZE",
                  {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
                  "TORCHELASTIC_RESTART_COUNT"}, /* of this host's agent: restarts that others caused do not count */
    [OPEN_MPI] = {"Open MPI",
                  "OMPI_COMM_WORLD_RANK",
                  "OMPI_COMM_WORLD_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                  {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri",
                   "OMPI_MCA_orte_precondition_transports"}},
    [PALS] = {"PALS", "PALS_RANKID", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", {"PALS_APID", "PBS_JOBID"}},
    [PMI] = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID"}},
    [SLURM] = {"Slurm",
               "SLURM_PROCID",
               "SLURM_STEP_NUM_TASKS",
               "SLURM_LOCALID",
               "SLURM_STEP_TASKS_PER_NODE",
               {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
};

/* What one source says; -1 = nothing. */
typedef struct claim {
    int rank, size, local_rank, local_size;
} claim;

static bool complete(const claim *c)
{
    return c->rank >= 0 && c->size >= 0;
}

static weft_result read_number(char *const *environment, const char *name, int *value)
{
    const char *text = weft__job_variable(environment, name);
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

/* The script of a batch job has the variables too, and whatever it starts inherits them: only srun starts ranks. */
static bool in_slurm_step(char *const *environment)
{
    const char *step = weft__job_variable(environment, "SLURM_STEP_ID");
    return step && strtoll(step, NULL, 10) < 0xfffffff0; /* from there on: batch, extern, interactive */
}

static weft_result read_slurm(char *const *environment, claim *c)
{
    const source *s = &sources[SLURM];
    int node = 0;
    WEFT_TRY(read_number(environment, s->rank, &c->rank));
    WEFT_TRY(read_number(environment, s->size, &c->size));
    if (c->size < 0)
        WEFT_TRY(read_number(environment, "SLURM_NTASKS", &c->size));
    WEFT_TRY(read_number(environment, s->local_rank, &c->local_rank));
    WEFT_TRY(read_number(environment, "SLURM_NODEID", &node));
    const char *tasks = weft__job_variable(environment, s->local_size);
    c->local_size = tasks ? weft__slurm_tasks(tasks, node) : -1;
    if (tasks && c->local_size < 0)
        return weft__fail(WEFT_E_INVALID, "%s is '%.200s', which says nothing of node %d", s->local_size, tasks, node);
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
    for (int i = TORCHRUN; i < SLURM; i++) {
        if (i == PALS && !weft__job_variable(environment, sources[i].rank))
            continue; /* the rest is PMI's */
        WEFT_TRY(read_number(environment, sources[i].rank, &claims[i].rank));
        WEFT_TRY(read_number(environment, sources[i].size, &claims[i].size));
        WEFT_TRY(read_number(environment, sources[i].local_rank, &claims[i].local_rank));
        WEFT_TRY(read_number(environment, sources[i].local_size, &claims[i].local_size));
    }
    return in_slurm_step(environment) ? read_slurm(environment, &claims[SLURM]) : WEFT_OK;
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
    if (other == SLURM) { /* srun starts the daemons of mpirun, or torchrun once a host: so it is meant to be */
        weft__log(WEFT_LOG_INFO, "%s is %d of %d, %s around it %d of %d", as->rank, a->rank, a->size, bs->rank, b->rank,
                  b->size);
        return WEFT_OK;
    }
    if (believed == TORCHRUN && a->local_size >= 0) {
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

/* Who says how many ranks this host has, and which one this is. Without that all are on it, unless rank 0 is said to be
 * elsewhere. */
static weft_result find_local(const claim *claims, char *const *environment, weft__launch *found, bool *one_host)
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
    *one_host = found->local_size == found->size;
    found->local_rank = rank_from < SOURCES ? claims[rank_from].local_rank : *one_host ? found->rank : -1;
    if (size_from == SOURCES && weft__job_variable(environment, "MASTER_ADDR"))
        *one_host = weft__job_master_is_here(environment);
    if (found->local_size == 0 || found->local_size > found->size)
        return weft__fail(WEFT_E_RANGE, "%s is %d, but %s is %d", sources[size_from].local_size, found->local_size,
                          sources[size_from].size, found->size);
    if (found->local_rank >= found->local_size)
        return weft__fail(WEFT_E_RANGE, "%s is %d, but this host has %d ranks", sources[rank_from].local_rank,
                          found->local_rank, found->local_size);
    return WEFT_OK;
}

/* The variables that name the job, of the first source that has any; WEFT__HASH_START if none has. */
static uint64_t hash_job(const claim *claims, int size, bool one_host, char *const *environment)
{
    for (int i = TORCHRUN; i < SOURCES; i++) {
        uint64_t hash = WEFT__HASH_START;
        if (!same_job(&claims[i], size))
            continue;
        for (size_t k = 0; k < sizeof sources[i].key / sizeof *sources[i].key && sources[i].key[k]; k++)
            hash = weft__job_hash(hash, environment, sources[i].key[k]);
        if (one_host && sources[i].host_key)
            hash = weft__job_hash(hash, environment, sources[i].host_key);
        if (one_host && i == PMI)
            hash = weft__job_hash_proxy(hash, environment);
        if (hash != WEFT__HASH_START)
            return hash;
    }
    if (one_host)
        return WEFT__HASH_START;
    return weft__job_hash(weft__job_hash(WEFT__HASH_START, environment, "MASTER_ADDR"), environment, "MASTER_PORT");
}

static weft_result derive_rendezvous(const claim *claims, char *const *environment, bool one_host, uint64_t job,
                                     weft__launch *found)
{
    if (one_host && job != WEFT__HASH_START) {
        snprintf(found->rendezvous, sizeof found->rendezvous, "@weft-%u-%016" PRIx64, (unsigned)geteuid(), job);
        return WEFT_OK;
    }
    weft_result result = WEFT_AGAIN;
    if (!one_host)
        result = weft__job_address(environment, same_job(&claims[SLURM], found->size), job, found->rendezvous);
    if (result != WEFT_AGAIN)
        return result;
    return weft__fail(WEFT_E_INVALID,
                      "rank %d of %d by %s, but nothing says where the ranks meet: set WEFT_RENDEZVOUS, for example "
                      "to %s",
                      found->rank, found->size, found->source,
                      one_host ? "unix://@name" : "tcp://host:4000, or MASTER_ADDR, to the host of rank 0");
}

static weft_result find_rendezvous(const weft_world_config *config, const weft__env *env, char *const *environment,
                                   const claim *claims, weft__launch *found)
{
    bool one_host;
    WEFT_TRY(find_local(claims, environment, found, &one_host));
    uint64_t job = hash_job(claims, found->size, one_host, environment);
    if (config && config->rendezvous)
        WEFT_TRY(weft__job_read_address("rendezvous in the world's config", config->rendezvous, found->rendezvous));
    else if (env->rendezvous)
        WEFT_TRY(weft__job_read_address("WEFT_RENDEZVOUS", env->rendezvous, found->rendezvous));
    else if (found->size > 1)
        WEFT_TRY(derive_rendezvous(claims, environment, one_host, job, found));
    found->job_key = weft__job_key(job, found->rendezvous);
    return weft__job_add_iface(env->iface, found->rendezvous);
}

/* A process of a launcher that weft does not know would quietly be a world of its own. */
static void warn_of_others(char *const *environment)
{
    static const char *const signs[] = {"PMIX_RANK", "FLUX_TASK_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *value = weft__job_variable(environment, signs[i]);
        if (value)
            weft__log(
                WEFT_LOG_WARN,
                "%s is %s, but nothing says how many ranks there are: this is a world of one rank; set WEFT_RANK, "
                "WEFT_SIZE and WEFT_RENDEZVOUS",
                signs[i], value);
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
    WEFT_TRY(find_rendezvous(config, env, environment, claims, &found));
    *launch_out = found;
    return WEFT_OK;
}
