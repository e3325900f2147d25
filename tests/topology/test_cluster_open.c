/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster and the comms of running worlds. */
#include <pthread.h>
#include <stdlib.h>

#include <weft/groups.h>

#include "base/memory.h"
#include "harness/ranks.h"
#include "machines.h"

enum { RANKS = 8 };

typedef struct world_thread {
    weft_world_config config;
    void (*body)(weft_world *world);
} world_thread;

static void *run_world(void *argument)
{
    world_thread *t = argument;
    weft_world *world;
    CHECK_OK(weft_world_open(&t->config, &world));
    t->body(world);
    weft_world_close(world);
    return NULL;
}

/* Threads as ranks, on the hosts that the letters name. */
static void ranks_on_hosts(const char *letters, void (*body)(weft_world *world))
{
    int count = (int)strlen(letters);
    world_thread threads[RANKS];
    pthread_t ids[RANKS];
    char hosts[RANKS][2] = {{0}};
    weft_team *team;
    CHECK_OK(weft_team_create(count, &team));
    for (int r = 0; r < count; r++) {
        hosts[r][0] = letters[r];
        threads[r] = (world_thread){.config = WEFT_WORLD_CONFIG_INIT, .body = body};
        threads[r].config.team = team;
        threads[r].config.rank = r;
        threads[r].config.ranks = count;
        threads[r].config.host_id = hosts[r];
        CHECK(pthread_create(&ids[r], NULL, run_world, &threads[r]) == 0);
    }
    for (int r = 0; r < count; r++)
        pthread_join(ids[r], NULL);
    weft_team_destroy(team);
}

/* The sum of the world ranks in the comm. */
static int sum_of_ranks(weft_world *world, weft_comm *comm)
{
    int32_t mine = weft_world_rank(world), sum = 0;
    CHECK_OK(weft_all_reduce_run(comm, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_STREAM_HOST));
    return sum;
}

/* Tensor parallel groups are {0,2,4,6} and {1,3,5,7}, dp pairs (0,1), (2,3), (4,5), (6,7). */
static void use_dealt_ranks(weft_world *world)
{
    int rank = weft_world_rank(world);
    weft_cluster *cluster;
    weft_mesh *mesh;
    weft_mesh_config layout = WEFT_MESH_CONFIG_INIT;
    weft_group_comm comms[] = {{.axes = WEFT_AXIS_TP}, {.axes = WEFT_AXIS_DP | WEFT_AXIS_CP}, {.axes = WEFT_AXIS_PP}};
    layout.tp = 4;
    CHECK_OK(weft_cluster_open(world, NULL, &cluster));
    CHECK_INT(weft_cluster_hosts(cluster), 2);
    for (int place = 0; place < RANKS; place++)
        CHECK_INT(weft_cluster_rank(cluster, place), place < 4 ? 2 * place : 2 * (place - 4) + 1);
    CHECK_OK(weft_mesh_create(weft_world_size(world), &layout, &mesh));
    CHECK_OK(weft_groups_connect(world, mesh, cluster, comms, 3));
    CHECK_INT(weft_comm_size(comms[0].comm), 4);
    CHECK_INT(weft_comm_rank(comms[0].comm), rank / 2);
    CHECK_STR(weft_comm_name(comms[0].comm), rank % 2 ? "tp.1" : "tp.0");
    CHECK_INT(sum_of_ranks(world, comms[0].comm), rank % 2 ? 1 + 3 + 5 + 7 : 0 + 2 + 4 + 6);
    CHECK_INT(weft_comm_size(comms[1].comm), 2);
    CHECK_INT(sum_of_ranks(world, comms[1].comm), 4 * (rank / 2) + 1);
    CHECK_INT(weft_comm_size(comms[2].comm), 1);
    CHECK_INT(sum_of_ranks(world, comms[2].comm), rank);
    weft_groups_disconnect(comms, 3);
    CHECK(comms[0].comm == NULL);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
}

TEST(ranks_dealt_round_the_hosts_get_groups_inside_them)
{
    ranks_on_hosts("ABABABAB", use_dealt_ranks);
}

/* Ranks r of 4 run on cores 3 - r of one machine, as each of them says. */
static void use_bound_ranks(weft_world *world, void *argument)
{
    weft_machine *machine = argument;
    int size = weft_world_size(world);
    weft_location here = located(machine, WEFT_OBJECT_CORE, size - 1 - weft_world_rank(world), 77);
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_open(world, &here, &cluster));
    CHECK_INT(weft_cluster_hosts(cluster), 1);
    for (int place = 0; place < size; place++)
        CHECK_INT(weft_cluster_rank(cluster, place), size - 1 - place);
    CHECK_INT(weft_cluster_level(cluster, (const int[]){0, 1}, 2), WEFT_LEVEL_NOTHING);
    CHECK_INT(weft_cluster_level(cluster, (const int[]){1, 2}, 2), WEFT_LEVEL_PACKAGE);
    CHECK(*weft_cluster_host_name(cluster, 0));
    weft_cluster_destroy(cluster);
}

TEST(bound_ranks_follow_the_machine_as_threads_and_as_processes)
{
    weft_machine *machine = machine_from(NULL, "package:2 l3:1 core:2");
    ranks_both_ways(4, use_bound_ranks, machine);
    weft_machine_close(machine);
}

static void share_a_gpu(weft_world *world, void *argument)
{
    (void)argument;
    weft_location here = WEFT_LOCATION_INIT(0);
    weft_cluster *cluster;
    int rank = weft_world_rank(world);
    snprintf(here.gpu_id, sizeof here.gpu_id, "GPU-%d", rank % 3);
    CHECK_RESULT(weft_cluster_open(world, &here, &cluster), WEFT_E_INVALID);
    CHECK(cluster == NULL);
    CHECK_STR(weft_last_error(), "rank 0 and rank 3 both use GPU-0");
}

TEST(every_rank_is_told_of_two_that_share_a_gpu)
{
    keep_log();
    ranks_as_threads(4, NULL, share_a_gpu, NULL);
}

static void beside_a_user(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *users = all_ranks(world, "cluster", NULL);
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_open(world, NULL, &cluster));
    CHECK_INT(weft_cluster_size(cluster), 2);
    weft_cluster_destroy(cluster);
    CHECK_INT(sum_of_ranks(world, users), 1);
    weft_comm_destroy(users);
}

TEST(users_may_call_a_comm_cluster)
{
    keep_log();
    ranks_both_ways(2, beside_a_user, NULL);
}

/* Rank 1 has no memory for its n-th allocation, for each of those that it makes before it meets the others. */
static void starve(weft_world *world, void *argument)
{
    long count = *(long *)argument;
    for (long n = 1; n <= count + 1; n++) {
        weft_cluster *cluster;
        if (weft_world_rank(world) == 1)
            weft__alloc_fail_at(n);
        weft_result result = weft_cluster_open(world, NULL, &cluster);
        weft__alloc_fail_at(0);
        CHECK_INT(result, WEFT_E_NO_MEMORY);
        CHECK(cluster == NULL);
        CHECK_HAS(weft_last_error(), "rank 1: no memory for");
    }
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_open(world, NULL, &cluster));
    weft_cluster_destroy(cluster);
}

TEST_LIMIT(a_rank_that_cannot_see_its_machine_ends_the_opening_on_all, 20)
{
    weft_machine *machine;
    weft_location here;
    keep_log();
    weft__alloc_fail_at(0);
    CHECK_OK(weft_machine_open(NULL, &machine));
    CHECK_OK(weft_machine_locate(machine, NULL, WEFT_NONE, &here));
    weft_machine_close(machine);
    long count = weft__alloc_count();
    CHECK(count > 0);
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = config.timeout_ms = 60000;
    ranks_as_processes(3, &config, starve, &count);
}

static void ask_wrongly(weft_world *world, void *argument)
{
    (void)argument;
    weft_mesh *mesh, *other;
    CHECK_OK(weft_mesh_create(weft_world_size(world), NULL, &mesh));
    CHECK_OK(weft_mesh_create(weft_world_size(world) + 1, NULL, &other));
    weft_group_comm comms[] = {{.axes = WEFT_AXIS_DP}, {.axes = WEFT_AXIS_TP | WEFT_AXIS_EP}};
    CHECK_RESULT(weft_groups_connect(world, other, NULL, comms, 1), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "3 places in a world of 2 ranks");
    CHECK_RESULT(weft_groups_connect(world, mesh, NULL, comms, 2), WEFT_E_INVALID);
    CHECK(comms[0].comm == NULL && comms[1].comm == NULL);
    comms[0].name = "a name that is far too long for a group of ranks";
    CHECK_RESULT(weft_groups_connect(world, mesh, NULL, comms, 1), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "longer than 40 bytes");
    /* Two comms along the same axes, told apart by name. */
    weft_group_comm twice[] = {{.axes = WEFT_AXIS_DP, .name = "reduce"}, {.axes = WEFT_AXIS_DP, .name = "gather"}};
    CHECK_OK(weft_groups_connect(world, mesh, NULL, twice, 2));
    CHECK_STR(weft_comm_name(twice[1].comm), "gather.0");
    CHECK_INT(sum_of_ranks(world, twice[0].comm) + sum_of_ranks(world, twice[1].comm), 2);
    weft_groups_disconnect(twice, 2);
    weft_mesh_destroy(mesh);
    weft_mesh_destroy(other);
}

TEST(comms_that_cannot_be_made_leave_nothing_behind)
{
    keep_log();
    ranks_as_threads(2, NULL, ask_wrongly, NULL);
}

static void be_alone(weft_world *world, void *argument)
{
    (void)argument;
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_open(world, NULL, &cluster));
    CHECK_INT(weft_cluster_size(cluster), 1);
    weft_cluster_destroy(cluster);
    CHECK_RESULT(weft_cluster_open(NULL, NULL, &cluster), WEFT_E_INVALID);
}

TEST(one_rank_is_a_cluster)
{
    keep_log();
    ranks_as_threads(1, NULL, be_alone, NULL);
}
