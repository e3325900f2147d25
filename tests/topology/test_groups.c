/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of every group, and which of them share a host, switches, links or cores. */
#include <stdlib.h>

#include <weft/groups.h>

#include "base/memory.h"
#include "machines.h"

static weft_mesh *mesh_of(int places, int tp, int pp)
{
    weft_mesh_config c = WEFT_MESH_CONFIG_INIT;
    weft_mesh *mesh;
    c.tp = tp, c.pp = pp;
    CHECK_OK(weft_mesh_create(places, &c, &mesh));
    return mesh;
}

/* One rank a core, or GPU, of the machine; hosts as letters, the k-th rank of a host on its k-th. */
static weft_cluster *cluster_on(const weft_machine *m, weft_object_kind on, const char *letters)
{
    static weft_location ranks[64];
    int count = (int)strlen(letters), used[128] = {0};
    for (int r = 0; r < count; r++) {
        int host = letters[r];
        ranks[r] = located(m, on, used[host]++, host);
        snprintf(ranks[r].host_name, sizeof ranks[r].host_name, "%c", letters[r]);
        if (on == WEFT_OBJECT_GPU) /* hosts are copies of one machine: their UUIDs must differ */
            snprintf(ranks[r].gpu_id, sizeof ranks[r].gpu_id, "GPU-%d", r);
    }
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_create(ranks, count, &cluster));
    return cluster;
}

static const char *text_of(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes)
{
    static char text[4096];
    CHECK_OK(weft_groups_text(mesh, cluster, axes, text, sizeof text, NULL));
    return text;
}

TEST(eight_ranks_tp2_dp2_pp2_have_the_known_groups)
{
    weft_mesh *mesh = mesh_of(8, 2, 2);
    CHECK_STR(text_of(mesh, NULL, WEFT_AXIS_TP), "0,1;2,3;4,5;6,7");
    CHECK_STR(text_of(mesh, NULL, WEFT_AXIS_DP), "0,2;1,3;4,6;5,7");
    CHECK_STR(text_of(mesh, NULL, WEFT_AXIS_PP), "0,4;1,5;2,6;3,7");
    weft_mesh_destroy(mesh);
}

TEST(tensor_groups_stay_on_their_host_however_ranks_were_dealt)
{
    weft_machine *m = machine_from(NULL, "core:4");
    weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_CORE, "ABABABAB");
    weft_mesh *mesh = mesh_of(8, 4, 1);
    CHECK_STR(text_of(mesh, cluster, WEFT_AXIS_TP), "0,2,4,6;1,3,5,7");
    CHECK_STR(text_of(mesh, cluster, WEFT_AXIS_DP), "0,1;2,3;4,5;6,7");
    CHECK_OK(weft_groups_keep_within(mesh, cluster, WEFT_AXIS_TP, WEFT_LEVEL_HOST));
    int index, member, ranks[4];
    CHECK_OK(weft_groups_of(mesh, cluster, WEFT_AXIS_TP, 3, &index, &member));
    CHECK_INT(index, 1);
    CHECK_INT(member, 1);
    CHECK_OK(weft_groups_ranks(mesh, cluster, WEFT_AXIS_TP, 1, ranks));
    CHECK_INT(ranks[member], 3);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    weft_machine_close(m);
}

TEST(a_tensor_group_that_does_not_fit_its_host_is_counted_and_refused)
{
    keep_log();
    weft_machine *m = machine_from(NULL, "core:4");
    weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_CORE, "AAAB");
    weft_mesh *mesh = mesh_of(4, 2, 1);
    weft_crossing crossing;
    CHECK_STR(text_of(mesh, cluster, WEFT_AXIS_TP), "0,1;2,3");
    CHECK_OK(weft_groups_crossing(mesh, cluster, WEFT_AXIS_TP, &crossing));
    CHECK_INT(crossing.worst, WEFT_LEVEL_HOST);
    CHECK_INT(crossing.groups, 2);
    CHECK_INT(crossing.at[WEFT_LEVEL_HOST], 1);
    CHECK_INT(crossing.at[WEFT_LEVEL_NUMA], 0);
    CHECK_INT(crossing.first_worst, 1);
    CHECK_RESULT(weft_groups_keep_within(mesh, cluster, WEFT_AXIS_TP, WEFT_LEVEL_HOST), WEFT_E_STATE);
    CHECK_STR(weft_last_error(), "1 of 2 tp groups crosses hosts: rank 2 on A, rank 3 on B");
    CHECK_RESULT(weft_groups_keep_within(mesh, NULL, WEFT_AXIS_TP, WEFT_LEVEL_HOST), WEFT_E_INVALID);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    weft_machine_close(m);
}

static void check_worst(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes, const char *ranks,
                        weft_level worst, int at_worst, int off_island)
{
    weft_crossing crossing;
    CHECK_STR(text_of(mesh, cluster, axes), ranks);
    CHECK_OK(weft_groups_crossing(mesh, cluster, axes, &crossing));
    CHECK_STR(weft_level_string(crossing.worst), weft_level_string(worst));
    CHECK_INT(crossing.at[worst], at_worst);
    CHECK_INT(crossing.off_island, off_island);
}

/* nvidiaDGX2.xml, by hand: nvml0-7 are on package 0 and on one six of the switches, nvml8-15 on package 1 and on the
 * other six. Eight tensor parallel ranks take a half; sixteen cross packages, but no link island. */
TEST(tensor_groups_take_the_gpus_behind_the_same_switches)
{
    weft_machine *m = machine_from_xml("nvidiaDGX2.xml");
    weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_GPU, "AAAAAAAAAAAAAAAA");
    weft_mesh *mesh = mesh_of(16, 8, 1);
    check_worst(mesh, cluster, WEFT_AXIS_TP, "0,1,2,3,4,5,6,7;8,9,10,11,12,13,14,15", WEFT_LEVEL_NOTHING, 2, 0);
    check_worst(mesh, cluster, WEFT_AXIS_DP, "0,8;1,9;2,10;3,11;4,12;5,13;6,14;7,15", WEFT_LEVEL_PACKAGE, 8, 0);
    weft_mesh_destroy(mesh);
    mesh = mesh_of(16, 16, 1);
    check_worst(mesh, cluster, WEFT_AXIS_TP, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", WEFT_LEVEL_PACKAGE, 1, 0);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    weft_machine_close(m);
}

/* power8gpudistances.xml, by hand: links join 0-1 and 2-3; L3 caches are of one core each, four cores a package. */
TEST(tensor_groups_take_the_gpus_that_are_linked_in_pairs)
{
    weft_machine *m = machine_from_xml("power8gpudistances.xml");
    weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_GPU, "AAAABBBB");
    weft_mesh *mesh = mesh_of(8, 2, 2);
    check_worst(mesh, cluster, WEFT_AXIS_TP, "0,1;2,3;4,5;6,7", WEFT_LEVEL_NOTHING, 4, 0);
    check_worst(mesh, cluster, WEFT_AXIS_DP, "0,2;1,3;4,6;5,7", WEFT_LEVEL_ISLAND, 4, 4);
    check_worst(mesh, cluster, WEFT_AXIS_PP, "0,4;1,5;2,6;3,7", WEFT_LEVEL_HOST, 4, 4);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    cluster = cluster_on(m, WEFT_OBJECT_CORE, "AAAAAAAA");
    mesh = mesh_of(8, 4, 1);
    check_worst(mesh, cluster, WEFT_AXIS_TP, "0,1,2,3;4,5,6,7", WEFT_LEVEL_CACHE, 2, 2);
    check_worst(mesh, cluster, WEFT_AXIS_DP, "0,4;1,5;2,6;3,7", WEFT_LEVEL_PACKAGE, 4, 4);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    weft_machine_close(m);
}

/* What groups of neighbouring cores cross, by hand from each file. */
TEST(tensor_groups_take_the_cores_that_share_most)
{
    static const struct {
        const char *file;
        const char *hosts; /* one letter a core */
        int tp;
        weft_level worst;
        int at_worst;
    } known[] = {
        /* an L3 for every three cores, six a node, 24 a package: 16 groups of three, each in its L3 */
        {"AMD-17h-Zen-2xEpyc-7451.xml", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 3, WEFT_LEVEL_NOTHING, 16},
        /* fours: 4-7, 16-19, 28-31 and 40-43 lie over the end of a node */
        {"AMD-17h-Zen-2xEpyc-7451.xml", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 4, WEFT_LEVEL_NUMA, 4},
        /* nodes of 4 and 2 allowed cores, an L3 each: 0,1 2,3 4,5 */
        {"32amd64-4s2n4c-cgroup2.xml", "AAAAAA", 2, WEFT_LEVEL_NOTHING, 3},
        /* 0,1,2 and 3,4,5: the second crosses from node 0 to node 1 of one package */
        {"32amd64-4s2n4c-cgroup2.xml", "AAAAAA", 3, WEFT_LEVEL_NUMA, 1},
        /* packages of 2,2,1,1,2,2 allowed cores with an L2 each: 0,1 2,3 4|5 6,7 8,9 */
        {"16amd64-8n2c-cpusets.xml", "AAAAAAAAAA", 2, WEFT_LEVEL_PACKAGE, 1},
        /* PUs without cores or caches, two a node */
        {"8intel64-4n2t-memattrs.xml", "AAAAAAAA", 2, WEFT_LEVEL_NOTHING, 4},
        {"8intel64-4n2t-memattrs.xml", "AAAAAAAA", 4, WEFT_LEVEL_NUMA, 2},
        /* a PU in each of two nodes of a package */
        {"fakeheterodistances.xml", "AAAAAAAA", 2, WEFT_LEVEL_NUMA, 4},
        {"fakeheterodistances.xml", "AAAAAAAA", 4, WEFT_LEVEL_PACKAGE, 2},
        /* the sixteen allowed cores: two packages of eight */
        {"64intel64-3g2n+2n-irregulargroups+pci.xml", "AAAAAAAAAAAAAAAA", 8, WEFT_LEVEL_NOTHING, 2},
        {"24em64t-2n6c2t-pci.xml", "AAAAAAAAAAAA", 6, WEFT_LEVEL_NOTHING, 2},
        {"32em64t-2n8c2t-pci-wholeio.xml", "AAAAAAAAAAAAAAAA", 16, WEFT_LEVEL_PACKAGE, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        weft_machine *m = machine_from_xml(known[i].file);
        weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_CORE, known[i].hosts);
        weft_mesh *mesh = mesh_of(weft_cluster_size(cluster), known[i].tp, 1);
        weft_crossing crossing;
        CHECK_OK(weft_groups_crossing(mesh, cluster, WEFT_AXIS_TP, &crossing));
        CHECK_MSG(crossing.worst == known[i].worst && crossing.at[crossing.worst] == known[i].at_worst,
                  "%s tp %d: %d groups cross %s", known[i].file, known[i].tp, crossing.at[crossing.worst],
                  weft_level_string(crossing.worst));
        weft_mesh_destroy(mesh);
        weft_cluster_destroy(cluster);
        weft_machine_close(m);
    }
}

TEST(text_that_does_not_fit_is_cut_and_its_length_told)
{
    weft_mesh *mesh = mesh_of(8, 2, 2);
    char text[10] = "*********";
    size_t needed;
    CHECK_OK(weft_groups_text(mesh, NULL, WEFT_AXIS_TP, text, 6, &needed));
    CHECK_STR(text, "0,1;2");
    CHECK_INT(text[6], '*');
    CHECK_INT(needed, strlen("0,1;2,3;4,5;6,7"));
    CHECK_OK(weft_groups_text(mesh, NULL, WEFT_AXIS_TP, NULL, 0, &needed));
    weft_mesh_destroy(mesh);
}

TEST(without_a_cluster_what_groups_cross_is_not_known)
{
    weft_mesh *mesh = mesh_of(8, 2, 1);
    weft_crossing crossing;
    CHECK_OK(weft_groups_crossing(mesh, NULL, WEFT_AXIS_TP, &crossing));
    CHECK_INT(crossing.worst, WEFT_LEVEL_UNKNOWN);
    CHECK_OK(weft_groups_crossing(mesh, NULL, WEFT_AXIS_PP, &crossing));
    CHECK_INT(crossing.worst, WEFT_LEVEL_NOTHING);
    weft_mesh_destroy(mesh);
}

TEST(a_mesh_and_a_cluster_of_different_size_do_not_go_together)
{
    keep_log();
    weft_machine *m = machine_from(NULL, "core:4");
    weft_cluster *cluster = cluster_on(m, WEFT_OBJECT_CORE, "AAAB");
    weft_mesh *mesh = mesh_of(8, 2, 1);
    int index, ranks[8];
    CHECK_RESULT(weft_groups_ranks(mesh, cluster, WEFT_AXIS_TP, 0, ranks), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "a mesh of 8 places over a cluster of 4 ranks");
    CHECK_RESULT(weft_groups_of(mesh, NULL, WEFT_AXIS_TP, 8, &index, NULL), WEFT_E_RANGE);
    CHECK_RESULT(weft_groups_text(mesh, NULL, WEFT_AXIS_TP | WEFT_AXIS_EP, NULL, 0, NULL), WEFT_E_INVALID);
    CHECK_RESULT(weft_groups_ranks(NULL, NULL, WEFT_AXIS_TP, 0, ranks), WEFT_E_INVALID);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    weft_machine_close(m);
}

TEST(memory_that_runs_out_is_told)
{
    keep_log();
    weft_mesh *mesh = mesh_of(8, 2, 1);
    size_t needed = 5;
    weft__alloc_fail_at(1);
    CHECK_RESULT(weft_groups_text(mesh, NULL, WEFT_AXIS_TP, NULL, 0, &needed), WEFT_E_NO_MEMORY);
    CHECK_INT(needed, 5);
    weft_mesh_destroy(mesh);
}
