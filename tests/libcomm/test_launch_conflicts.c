/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers, variables and configs that contradict each other, and what makes no sense: who wins, and what is said. */
#include "test_launch.h"

TEST(sources_that_agree_are_one)
{
    const weft__env env = {.rank = 1, .size = 2, .local_rank = -1};
    found f = find(NULL, &env, ENVIRONMENT(OPEN_MPI("1", "2", "0", "2"), TORCHRUN("1", "2", "0", "2")));
    CHECK_OK(f.result);
    check_place(&f.launch, 1, 2, 0, "WEFT_RANK");
    check_socket(&f.launch, TORCHRUN_JOB);
}

TEST(sources_that_disagree_are_named)
{
    const weft__env env = {.rank = 1, .size = 2, .local_rank = -1, .rendezvous = "unix://@meet"};
    CHECK_ERROR(find(NULL, &env, ENVIRONMENT(TORCHRUN("0", "2", "0", "2"))), WEFT_E_INVALID, "WEFT_RANK is 1",
                " RANK is 0");
    CHECK_ERROR(find(NULL, &env, ENVIRONMENT(TORCHRUN("1", "4", "1", "4"))), WEFT_E_INVALID, "WEFT_SIZE is 2",
                "WORLD_SIZE is 4");
    CHECK_ERROR(find(NULL, &env, ENVIRONMENT(OPEN_MPI("0", "2", "0", "2"))), WEFT_E_INVALID, "WEFT_RANK is 1",
                "OMPI_COMM_WORLD_RANK is 0");
    CHECK_ERROR(find(NULL, &env, ENVIRONMENT(TORCHRUN("1", "2", "1", "2"), OPEN_MPI("1", "3", "1", "3"))),
                WEFT_E_INVALID, "WEFT_SIZE is 2", "OMPI_COMM_WORLD_SIZE is 3");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("RANK=0", "WORLD_SIZE=2", OPEN_MPI("1", "2", "1", "2"))), WEFT_E_INVALID,
                "RANK is 0", "OMPI_COMM_WORLD_RANK is 1");
}

TEST(mpirun_around_torchrun_is_a_warning)
{
    weft_log_set(WEFT_LOG_WARN, keep_warning, NULL);
    found f = find(NULL, NULL, ENVIRONMENT(OPEN_MPI("1", "2", "1", "2"), TORCHRUN("3", "4", "3", "4")));
    CHECK_OK(f.result);
    check_place(&f.launch, 3, 4, 3, "torchrun");
    check_socket(&f.launch, TORCHRUN_JOB);
    CHECK_HAS(warned, "RANK is 3 of 4");
    CHECK_HAS(warned, "OMPI_COMM_WORLD_RANK is 1 of 2");
}

TEST(a_launcher_that_does_not_tell_the_size_is_a_warning)
{
    weft_log_set(WEFT_LOG_WARN, keep_warning, NULL);
    found f = find(NULL, NULL, ENVIRONMENT("PMIX_RANK=2"));
    CHECK_OK(f.result);
    check_place(&f.launch, 0, 1, 0, "no launcher");
    CHECK_HAS(warned, "PMIX_RANK is 2");
    CHECK_HAS(warned, "world of one rank");
    *warned = 0;
    f = find(NULL, NULL, ENVIRONMENT("PMIX_RANK=2", TORCHRUN("3", "4", "3", "4")));
    CHECK_STR(warned, "");
}

TEST(what_runs_inside_a_step_of_slurm_is_believed)
{
    weft_log_set(WEFT_LOG_WARN, keep_warning, NULL);
    found f = find(NULL, NULL, ENVIRONMENT(SLURM("1", "2", "0", "1", "1(x2)"), TORCHRUN("3", "4", "3", "4")));
    CHECK_OK(f.result);
    check_place(&f.launch, 3, 4, 3, "torchrun");
    f = find(NULL, NULL, ENVIRONMENT(SLURM("1", "2", "0", "1", "1(x2)"), OPEN_MPI("3", "4", "3", "4")));
    CHECK_OK(f.result);
    check_place(&f.launch, 3, 4, 3, "Open MPI");
    CHECK_STR(warned, "");
    f = find(NULL, NULL, ENVIRONMENT(MPICH("1", "2", "1", "2"), TORCHRUN("3", "4", "3", "4")));
    CHECK_OK(f.result);
    check_place(&f.launch, 3, 4, 3, "torchrun");
    CHECK_HAS(warned, "PMI_RANK is 1 of 2");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(MPICH("1", "2", "1", "2"), OPEN_MPI("3", "4", "3", "4"))), WEFT_E_INVALID,
                "OMPI_COMM_WORLD_RANK is 3, but PMI_RANK is 1");
}

TEST(half_a_pair_is_an_error_that_names_the_missing_half)
{
    const weft__env rank = {.rank = 1, .size = -1, .local_rank = -1}, size = {.rank = -1, .size = 2, .local_rank = -1};
    CHECK_ERROR(find(NULL, &rank, NULL), WEFT_E_INVALID, "WEFT_RANK is set, but WEFT_SIZE is not");
    CHECK_ERROR(find(NULL, &size, NULL), WEFT_E_INVALID, "WEFT_SIZE is set, but WEFT_RANK is not");
    CHECK_ERROR(find(NULL, &rank, ENVIRONMENT(TORCHRUN("1", "2", "1", "2"))), WEFT_E_INVALID, "WEFT_SIZE is not");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("RANK=1", "MASTER_ADDR=a")), WEFT_E_INVALID,
                "RANK is set, but WORLD_SIZE is not");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("OMPI_COMM_WORLD_SIZE=1")), WEFT_E_INVALID,
                "OMPI_COMM_WORLD_SIZE is set, but OMPI_COMM_WORLD_RANK is not");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("RANK=1", "WORLD_SIZE=")), WEFT_E_INVALID, "WORLD_SIZE is not");
}

TEST(half_a_pair_behind_a_whole_one_does_not_matter)
{
    const weft__env env = {.rank = 1, .size = 2, .local_rank = -1, .rendezvous = "unix://@meet"};
    CHECK_OK(find(NULL, &env, ENVIRONMENT("RANK=0")).result);
    CHECK_OK(find(NULL, NULL, ENVIRONMENT(TORCHRUN("0", "1", "0", "1"), "OMPI_COMM_WORLD_SIZE=7")).result);
}

TEST(a_rank_outside_its_world_is_named)
{
    const weft__env at_end = {.rank = 2, .size = 2, .local_rank = -1},
                    nobody = {.rank = 0, .size = 0, .local_rank = -1};
    CHECK_ERROR(find(NULL, &at_end, NULL), WEFT_E_RANGE, "WEFT_RANK is 2", "WEFT_SIZE is 2");
    CHECK_ERROR(find(NULL, &nobody, NULL), WEFT_E_RANGE, "WEFT_SIZE is 0");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(TORCHRUN("4", "4", "0", "4"))), WEFT_E_RANGE, "RANK is 4",
                "WORLD_SIZE is 4");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(TORCHRUN("3", "4", "4", "4"))), WEFT_E_RANGE, "LOCAL_RANK is 4");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(OPEN_MPI("0", "2", "0", "3"))), WEFT_E_RANGE,
                "OMPI_COMM_WORLD_LOCAL_SIZE is 3");
    const weft__env local = {.rank = 0, .size = 2, .local_rank = 2, .rendezvous = "unix://@meet"};
    CHECK_ERROR(find(NULL, &local, NULL), WEFT_E_RANGE, "WEFT_LOCAL_RANK is 2");
}

TEST(what_is_no_number_is_named)
{
    static const char *const wrong[] = {"x",  "1x",  "-1",  "+1",         " 1",
                                        "1 ", "1.0", "0x1", "2147483648", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char variable[64], says[64];
        snprintf(variable, sizeof variable, "RANK=%s", wrong[i]);
        snprintf(says, sizeof says, "RANK is '%s'", wrong[i]);
        CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(variable, "WORLD_SIZE=2")), WEFT_E_INVALID, says);
    }
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("OMPI_COMM_WORLD_SIZE=two")), WEFT_E_INVALID,
                "OMPI_COMM_WORLD_SIZE is 'two'");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT(TORCHRUN("0", "1", "", "all"))), WEFT_E_INVALID,
                "LOCAL_WORLD_SIZE is 'all'");
}

TEST(ranks_without_a_place_to_meet_are_told_what_to_set)
{
    const weft__env env = {.rank = 0, .size = 2, .local_rank = -1}, alone = {.rank = 0, .size = 1, .local_rank = -1};
    CHECK_ERROR(find(NULL, &env, NULL), WEFT_E_INVALID, "rank 0 of 2 by WEFT_RANK", "WEFT_RENDEZVOUS");
    CHECK_ERROR(find(NULL, NULL, ENVIRONMENT("RANK=0", "WORLD_SIZE=2")), WEFT_E_INVALID, "WEFT_RENDEZVOUS");
    CHECK_OK(find(NULL, &alone, NULL).result);
}

TEST(addresses_are_checked)
{
    char longest[108] = "unix://@", too_long[128] = "unix:///";
    static const struct {
        const char *address;
        weft_result result;
    } cases[] = {
        {"tcp://10.0.0.1", WEFT_E_INVALID},
        {"tcp://:4000", WEFT_E_INVALID},
        {"tcp://10.0.0.1:0", WEFT_E_INVALID},
        {"tcp://10.0.0.1:65536", WEFT_E_INVALID},
        {"tcp://fd00::2:4000", WEFT_E_INVALID},
        {"tcp://[10.0.0.1]:4000", WEFT_E_INVALID},
        {"tcp://10.0.0.1:4000/", WEFT_E_INVALID},
        {"tcp://10.0.0.1:4000?iface=", WEFT_E_INVALID},
        {"file://shared", WEFT_E_INVALID},
        {"unix://", WEFT_E_INVALID},
        {"unix://@", WEFT_E_INVALID},
        {"unix:///", WEFT_E_INVALID},
        {"unix://here", WEFT_E_INVALID},
        {"/tmp/meet", WEFT_E_INVALID},
        {"@meet", WEFT_E_INVALID},
        {"udp://10.0.0.1", WEFT_E_INVALID},
    };
    weft__env env = {.rank = 0, .size = 2, .local_rank = -1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        env.rendezvous = cases[i].address;
        CHECK_ERROR(find(NULL, &env, NULL), cases[i].result, "WEFT_RENDEZVOUS is '", cases[i].address);
    }
    memset(longest + 8, 'a', sizeof longest - 9); /* 7 bytes of scheme before 100 of name */
    env.rendezvous = longest;
    CHECK_STR(find(NULL, &env, NULL).launch.rendezvous, longest + 7);
    memset(too_long + 8, 'a', 107); /* 108 bytes behind the scheme leave no room for the zero */
    env.rendezvous = too_long;
    CHECK_ERROR(find(NULL, &env, NULL), WEFT_E_INVALID, "more than 107 bytes");
    too_long[7 + 107] = 0;
    CHECK_INT(strlen(find(NULL, &env, NULL).launch.rendezvous), 107);
}

TEST(the_config_of_the_world_comes_before_everybody)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rank = 1;
    config.ranks = 3;
    config.rendezvous = "unix://@own";
    const weft__env env = {.rank = 5, .size = 8, .local_rank = 5, .rendezvous = "unix://@meet"};
    const weft__env no_local = {.rank = 5, .size = 8, .local_rank = -1};
    found f = find(&config, &no_local, ENVIRONMENT(TORCHRUN("5", "8", "1", "4")));
    CHECK_OK(f.result);
    check_place(&f.launch, 1, 3, 1, "the config");
    CHECK_STR(f.launch.rendezvous, "@own");
    config.ranks = 0;
    f = find(&config, &env, NULL);
    check_place(&f.launch, 5, 8, 5, "WEFT_RANK");
    CHECK_STR(f.launch.rendezvous, "@own");
}

TEST(ranks_renumbered_by_the_config_still_meet)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.ranks = 3;
    config.rank = 2; /* 2 - RANK: rank 1 keeps its number */
    found swapped = find(&config, NULL, ENVIRONMENT(TORCHRUN("0", "3", "0", "3")));
    config.rank = 1;
    found kept = find(&config, NULL, ENVIRONMENT(TORCHRUN("1", "3", "1", "3")));
    CHECK_OK(swapped.result);
    CHECK_OK(kept.result);
    check_place(&swapped.launch, 2, 3, 0, "the config");
    check_socket(&swapped.launch, TORCHRUN_JOB);
    CHECK_STR(kept.launch.rendezvous, swapped.launch.rendezvous);
    CHECK(kept.launch.job_key == swapped.launch.job_key);
}

TEST(a_rank_in_the_config_is_checked)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.ranks = 2;
    config.rank = 2;
    CHECK_ERROR(find(&config, NULL, NULL), WEFT_E_RANGE, "rank in the world's config is 2");
    config.rank = -1;
    CHECK_ERROR(find(&config, NULL, NULL), WEFT_E_RANGE, "rank -1 of 2 in the world's config");
    config.ranks = -2;
    CHECK_ERROR(find(&config, NULL, NULL), WEFT_E_RANGE, "-2 in the world's config");
    config = (weft_world_config)WEFT_WORLD_CONFIG_INIT;
    config.rendezvous = "tcp://a";
    CHECK_ERROR(find(&config, &(weft__env)NOT_SET, NULL), WEFT_E_INVALID,
                "rendezvous in the world's config is 'tcp://a'");
}
