/* SPDX-License-Identifier: Apache-2.0 */
/* Every launcher tells rank, size and job, and all ranks of a job find the same place to meet. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "test_launch.h"

TEST(without_a_launcher_a_process_is_the_only_rank)
{
    found f = find(NULL, NULL, NULL);
    CHECK_OK(f.result);
    check_place(&f.launch, 0, 1, 0, "no launcher");
    CHECK_STR(f.launch.rendezvous, "");
}

TEST(weft_run_tells_rank_and_size)
{
    const weft__env env = {.rank = 2, .size = 4, .local_rank = 2, .rendezvous = "unix://@meet"};
    found f = find(NULL, &env, NULL);
    CHECK_OK(f.result);
    check_place(&f.launch, 2, 4, 2, "WEFT_RANK");
    CHECK_STR(f.launch.rendezvous, "@meet");
    CHECK_MSG(f.launch.job_key == UINT64_C(0x9490c66ff1d42b70), "job key %" PRIx64, f.launch.job_key);
}

TEST(a_missing_local_rank_is_the_rank)
{
    const weft__env env = {.rank = 3, .size = 4, .local_rank = -1, .rendezvous = "unix:///tmp/meet"};
    found f = find(NULL, &env, NULL);
    CHECK_OK(f.result);
    check_place(&f.launch, 3, 4, 3, "WEFT_RANK");
    CHECK_STR(f.launch.rendezvous, "/tmp/meet");
    CHECK_MSG(f.launch.job_key == UINT64_C(0x6f8880e6eb0677a9), "job key %" PRIx64, f.launch.job_key);
}

TEST(torchrun_tells_rank_size_and_job)
{
    found f = find(NULL, NULL, ENVIRONMENT(TORCHRUN("5", "8", "4", "8")));
    CHECK_OK(f.result);
    check_place(&f.launch, 5, 8, 4, "torchrun");
    check_socket(&f.launch, TORCHRUN_JOB);
    if (geteuid() == 0)
        CHECK_MSG(f.launch.job_key == UINT64_C(0xfc4da85fb3110d3d), "job key %" PRIx64, f.launch.job_key);
}

TEST(a_restarted_torchrun_job_meets_elsewhere)
{
    found f = find(NULL, NULL,
                   ENVIRONMENT("RANK=0", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=1",
                               "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"));
    CHECK_OK(f.result);
    check_socket(&f.launch, UINT64_C(0x3e538d8596955177));
}

TEST(rank_world_size_and_master_are_enough)
{
    found f = find(NULL, NULL,
                   ENVIRONMENT("MASTER_PORT=1234", "RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=", "MASTER_ADDR=localhost"));
    CHECK_OK(f.result);
    check_place(&f.launch, 1, 3, 1, "torchrun");
    check_socket(&f.launch, UINT64_C(0x81422d85fa816856));
}

TEST(open_mpi_tells_rank_size_and_job)
{
    found f = find(NULL, NULL, ENVIRONMENT(OPEN_MPI("1", "2", "1", "2")));
    CHECK_OK(f.result);
    check_place(&f.launch, 1, 2, 1, "Open MPI");
    check_socket(&f.launch, OPEN_MPI_JOB);
}

TEST(open_mpi_without_its_uri_meets_by_namespace)
{
    found f = find(NULL, NULL,
                   ENVIRONMENT("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=prterun-host-7@1"));
    CHECK_OK(f.result);
    check_socket(&f.launch, UINT64_C(0x6221dbbd17f534a7));
}

TEST(all_ranks_of_a_job_meet_at_one_place)
{
    found first = find(NULL, NULL, ENVIRONMENT(OPEN_MPI("0", "4", "0", "4")));
    found other = find(NULL, NULL, ENVIRONMENT(OPEN_MPI("3", "4", "3", "4")));
    CHECK_STR(other.launch.rendezvous, first.launch.rendezvous);
    CHECK(other.launch.job_key == first.launch.job_key);
}

TEST(an_address_that_is_given_wins_but_the_job_still_counts)
{
    const weft__env env = {.rank = -1, .size = -1, .local_rank = -1, .rendezvous = "unix://@meet"};
    found torch = find(NULL, &env, ENVIRONMENT(TORCHRUN("1", "2", "1", "2")));
    found mpi = find(NULL, &env, ENVIRONMENT(OPEN_MPI("1", "2", "1", "2")));
    CHECK_OK(torch.result);
    CHECK_STR(torch.launch.rendezvous, "@meet");
    CHECK_STR(mpi.launch.rendezvous, "@meet");
    CHECK(torch.launch.job_key != mpi.launch.job_key);
}

TEST(mpich_on_one_host_meets_by_the_proxy_that_started_all)
{
    int pair[2], other[2];
    char fd[32], not_there[32];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
    snprintf(fd, sizeof fd, "PMI_FD=%d", pair[0]);
    found first = find(NULL, NULL, ENVIRONMENT(MPICH("0", "2", "0", "2"), fd));
    snprintf(fd, sizeof fd, "PMI_FD=%d", other[0]); /* of the same process */
    found second = find(NULL, NULL, ENVIRONMENT(MPICH("1", "2", "1", "2"), fd));
    CHECK_OK(first.result);
    CHECK_OK(second.result);
    check_place(&second.launch, 1, 2, 1, "MPICH");
    CHECK_STR(second.launch.rendezvous, first.launch.rendezvous);
    CHECK(second.launch.job_key == first.launch.job_key);
    pid_t child = fork(); /* another proxy */
    if (child == 0) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        snprintf(fd, sizeof fd, "PMI_FD=%d", pair[0]);
        found third = find(NULL, NULL, ENVIRONMENT(MPICH("1", "2", "1", "2"), fd));
        CHECK_OK(third.result);
        CHECK(strcmp(third.launch.rendezvous, first.launch.rendezvous) != 0);
        exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    snprintf(not_there, sizeof not_there, "PMI_FD=%d", 999);
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(MPICH("1", "2", "1", "2"), not_there)), WEFT_E_INVALID,
                "rank 1 of 2 by MPICH", "set WEFT_RENDEZVOUS, for example to unix://@name");
}

TEST(srun_tells_rank_size_and_job)
{
    found f = find(NULL, NULL, ENVIRONMENT(SLURM("1", "2", "1", "0", "2")));
    CHECK_OK(f.result);
    check_place(&f.launch, 1, 2, 1, "Slurm");
    check_socket(&f.launch, SLURM_JOB);
}

TEST(the_script_of_a_batch_job_is_no_rank)
{
    static const char *const steps[] = {NULL, "SLURM_STEP_ID=4294967291", "SLURM_STEP_ID=4294967290"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        found f =
            find(NULL, NULL,
                 ENVIRONMENT("SLURM_JOB_ID=4711", "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0", steps[i]));
        CHECK_OK(f.result);
        check_place(&f.launch, 0, 1, 0, "no launcher");
    }
    found f = find(
        NULL, NULL,
        ENVIRONMENT("SLURM_JOB_ID=1", "SLURM_PROCID=0", "SLURM_NTASKS=4", MPICH("1", "2", "1", "2"), "PMI_JOBID=9"));
    check_place(&f.launch, 1, 2, 1, "MPICH");
}

TEST(ranks_of_several_hosts_meet_at_that_of_rank_0)
{
    static const struct {
        const char *source, *rendezvous;
        uint64_t job_key; /* 0: not worked out */
        const char *environment[16];
    } cases[] = {
        {"torchrun",
         "tcp://node0:26557,22858,30911,26168,28985,26046,25115,20748",
         UINT64_C(0xe7f0291df8cf377d),
         {"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node0", "MASTER_PORT=29500",
          "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=3"}}, /* which is another one elsewhere */
        {"torchrun",
         "tcp://[fd00::2]:24661,25346,25399,23152,27473,21654,28979,25476",
         0,
         {"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=fd00::2", "MASTER_PORT=29500",
          "TORCHELASTIC_RUN_ID=none"}},
        {"torchrun", /* nobody counts the ranks of this host, but rank 0 is elsewhere */
         "tcp://node0:31288,28953,23518,28955,29100,29477,28626,20647",
         UINT64_C(0x8b4199104d69849f),
         {"RANK=5", "WORLD_SIZE=8", "MASTER_ADDR=node0", "MASTER_PORT=1234"}},
        {"Open MPI",
         "tcp://10.0.0.5:20416,26721,30822,28163,23732,31021,24154,31023",
         0,
         {OPEN_MPI("5", "8", "1", "4")}},
        {"Open MPI", /* srun has started its daemons, on the other hosts */
         "tcp://node001:20416,26721,30822,28163,23732,31021,24154,31023",
         0,
         {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
          "OMPI_MCA_orte_hnp_uri=3141992448.0;tcp://10.0.0.5:41231", "PMIX_NAMESPACE=3141992449", "SLURM_STEP_ID=0",
          "SLURM_JOB_ID=4711", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=node[002-004]",
          "SLURM_JOB_NODELIST=node[001-004]"}},
        {"Slurm",
         "tcp://node003:25240,23225,23934,31387,30028,21797,30354,24679",
         UINT64_C(0xf35bb1d805813510),
         {SLURM("3", "4", "1", "1", "2(x2)")}},
        {"PALS",
         "tcp://node0:24021,31266,21303,24112,28753,30838,21139,22948",
         0,
         {"PALS_RANKID=3", "PMI_RANK=3", "PMI_SIZE=4", "PMI_LOCAL_RANK=1", "PMI_LOCAL_SIZE=2", "PALS_APID=apid-7",
          "MASTER_ADDR=node0"}},
        {"MPICH",
         "tcp://node0:22562,20343,26352,21297,27222,24051,31588,24989",
         0,
         {MPICH("3", "4", "1", "2"), "MASTER_ADDR=node0"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        found f = find(NULL, NULL, cases[i].environment);
        CHECK_OK(f.result);
        CHECK_STR(f.launch.source, cases[i].source);
        CHECK_STR(f.launch.rendezvous, cases[i].rendezvous);
        CHECK_MSG(!cases[i].job_key || f.launch.job_key == cases[i].job_key, "case %zu: job key %" PRIx64, i,
                  f.launch.job_key);
    }
}

TEST(the_port_of_the_launcher_is_never_taken)
{
    char master[32], want[64];
    for (int port = 26556; port <= 26558; port++) {
        snprintf(master, sizeof master, "MASTER_PORT=%d", port);
        snprintf(want, sizeof want, "%d", port);
        found f = find(NULL, NULL,
                       ENVIRONMENT("PALS_RANKID=3", "PMI_SIZE=4", "PMI_LOCAL_SIZE=2", "PALS_APID=apid-7",
                                   "MASTER_ADDR=node0", master));
        CHECK_OK(f.result);
        CHECK(!strstr(f.launch.rendezvous, want));
    }
    found f = find(NULL, NULL,
                   ENVIRONMENT("PALS_RANKID=3", "PMI_SIZE=4", "PMI_LOCAL_SIZE=2", "PALS_APID=apid-7",
                               "MASTER_ADDR=node0", "MASTER_PORT=24021"));
    CHECK_STR(f.launch.rendezvous, "tcp://node0:24022,31266,21303,24112,28753,30838,21139,22948");
}

TEST(several_hosts_without_an_address_are_told_what_to_set)
{
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(MPICH("3", "4", "1", "2"))), WEFT_E_INVALID, "rank 3 of 4 by MPICH",
                "set WEFT_RENDEZVOUS, for example to tcp://host:4000, or MASTER_ADDR, to the host of rank 0");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(SLURM("3", "4", "1", "2", "2(x2)"))), WEFT_E_INVALID,
                "SLURM_STEP_TASKS_PER_NODE is '2(x2)', which says nothing of node 2");
    CHECK_ERROR(find(NULL, NULL,
                     ENVIRONMENT("SLURM_JOB_ID=1", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=2",
                                 "SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_STEP_NODELIST=a[1")),
                WEFT_E_INVALID, "SLURM_STEP_NODELIST is 'a[1', no list of hosts");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(MPICH("3", "4", "1", "2"), "MASTER_ADDR=a/b")), WEFT_E_INVALID,
                "tcp://a/b:");
}

TEST(hosts_may_call_the_place_differently)
{
    const weft__env a = {.rank = 0, .size = 4, .local_rank = -1, .rendezvous = "tcp://node0:4000"},
                    b = {.rank = 3, .size = 4, .local_rank = -1, .rendezvous = "tcp://10.0.0.5:4000", .iface = "ib"},
                    c = {.rank = 3, .size = 4, .local_rank = -1, .rendezvous = "tcp://10.0.0.5:4001?iface=eth"};
    found first = find(NULL, &a, NULL), second = find(NULL, &b, NULL), third = find(NULL, &c, NULL);
    CHECK_STR(first.launch.rendezvous, "tcp://node0:4000");
    CHECK_STR(second.launch.rendezvous, "tcp://10.0.0.5:4000?iface=ib");
    CHECK_STR(third.launch.rendezvous, "tcp://10.0.0.5:4001?iface=eth");
    CHECK_MSG(first.launch.job_key == UINT64_C(0x978b907b60085d0), "job key %" PRIx64, first.launch.job_key);
    CHECK(second.launch.job_key == first.launch.job_key);
    CHECK(third.launch.job_key != first.launch.job_key);
}
