/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of launchers share: their environments (torchrun 2.x, Open MPI 4.1.4 and MPICH 4.0.2 as printed by
 * `mpirun -n 2 env`, Slurm 22.05), and what is found there. The names of sockets, the ports and the job keys were
 * worked out apart from this code: FNV-1a over "NAME\0value\0" of every variable; for the ports the same continued by
 * "port\0", eight times, modulo 12000. */
#ifndef WEFT_TESTS_LIBCOMM_TEST_LAUNCH_H
#define WEFT_TESTS_LIBCOMM_TEST_LAUNCH_H
#include <inttypes.h>
#include <unistd.h>

#include "bootstrap/launch.h"
#include "harness/test.h"

#define TORCHRUN(rank, size, local_rank, local_size)                                                            \
    "RANK=" rank, "WORLD_SIZE=" size, "LOCAL_RANK=" local_rank, "LOCAL_WORLD_SIZE=" local_size, "GROUP_RANK=0", \
        "ROLE_RANK=" rank, "ROLE_WORLD_SIZE=" size, "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",               \
        "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0", "TORCHELASTIC_USE_AGENT_STORE=True",     \
        "TORCHELASTIC_RUN_ID=none"
#define TORCHRUN_JOB UINT64_C(0x3e50278596926e4e)

#define OPEN_MPI(rank, size, local_rank, local_size)                                                         \
    "OMPI_COMM_WORLD_LOCAL_RANK=" local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE=" local_size,                      \
        "OMPI_COMM_WORLD_NODE_RANK=" local_rank, "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size, \
        "OMPI_MCA_orte_hnp_uri=3141992448.0;tcp://10.0.0.5:41231", "PMIX_NAMESPACE=3141992449", "PMIX_RANK=" rank
#define OPEN_MPI_JOB UINT64_C(0xe23d628b5144a8c7)

#define MPICH(rank, size, local_rank, local_size) \
    "PMI_RANK=" rank, "PMI_SIZE=" size, "MPI_LOCALRANKID=" local_rank, "MPI_LOCALNRANKS=" local_size
#define SLURM(rank, size, local_rank, node, tasks)                                                                    \
    "SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_PROCID=" rank, "SLURM_STEP_NUM_TASKS=" size, "SLURM_NTASKS=" size, \
        "SLURM_LOCALID=" local_rank, "SLURM_NODEID=" node, "SLURM_STEP_TASKS_PER_NODE=" tasks,                        \
        "SLURM_STEP_NODELIST=node[003-004]", "SLURM_JOB_NODELIST=node[001-004]"
#define SLURM_JOB UINT64_C(0x20e5ada2cb5241df)

#define NOT_SET                                  \
    {                                            \
        .rank = -1, .size = -1, .local_rank = -1 \
    }

typedef struct found {
    weft_result result;
    weft__launch launch;
} found;

static inline found find(const weft_world_config *config, const weft__env *env, const char *const *environment)
{
    static const weft__env not_set = NOT_SET;
    char *strings[48] = {"HOME=/root", "RANKS=77", "XRANK=78"};
    int n = 3;
    for (; environment && *environment; environment++)
        strings[n++] = (char *)*environment;
    found f = {.launch = {.rank = -7}};
    f.result = weft__launch_find(config, env ? env : &not_set, strings, &f.launch);
    if (f.result != WEFT_OK)
        CHECK_INT(f.launch.rank, -7); /* untouched */
    return f;
}

#define ENVIRONMENT(...)  \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define CHECK_ERROR(call, code, ...)                                   \
    do {                                                               \
        CHECK_RESULT((call).result, code);                             \
        const char *const parts_[] = {__VA_ARGS__};                    \
        for (size_t i_ = 0; i_ < sizeof parts_ / sizeof *parts_; i_++) \
            CHECK_HAS(weft_last_error(), parts_[i_]);                  \
    } while (0)

static inline void check_place(const weft__launch *launch, int rank, int size, int local_rank, const char *source)
{
    CHECK_INT(launch->rank, rank);
    CHECK_INT(launch->size, size);
    CHECK_INT(launch->local_rank, local_rank);
    CHECK_INT(launch->local_size, size);
    CHECK_STR(launch->source, source);
}

static inline void check_socket(const weft__launch *launch, uint64_t job)
{
    char name[108];
    snprintf(name, sizeof name, "@weft-%u-%016" PRIx64, (unsigned)geteuid(), job);
    CHECK_STR(launch->rendezvous, name);
}

/* The last warning. */
static char warned[600];

static inline void keep_warning(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    if (level == WEFT_LOG_WARN)
        snprintf(warned, sizeof warned, "%s", line);
}

#endif
