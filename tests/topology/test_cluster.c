/* SPDX-License-Identifier: Apache-2.0 */
/* The place of every rank, for made-up hosts and machines. */
#include <stdlib.h>

#include <weft/cluster.h>

#include "base/memory.h"
#include "machines.h"

enum { RANKS_MAX = 64 };

static weft_location ranks[RANKS_MAX];

/* The hosts of all ranks as letters: "ABAB". Nothing else is known of them. */
static int ranks_on(const char *letters)
{
    int count = (int)strlen(letters);
    const char *names[RANKS_MAX];
    static char texts[RANKS_MAX][2];
    for (int r = 0; r < count; r++) {
        texts[r][0] = letters[r];
        names[r] = texts[r];
        ranks[r] = (weft_location)WEFT_LOCATION_INIT(0);
    }
    weft_location_name_hosts(ranks, names, count);
    return count;
}

static weft_cluster *cluster_of(int count)
{
    weft_cluster *cluster;
    CHECK_OK(weft_cluster_create(ranks, count, &cluster));
    return cluster;
}

/* The ranks in the order of their places. */
static const char *placement(const weft_cluster *c)
{
    static char text[512];
    char *end = text;
    for (int place = 0; place < weft_cluster_size(c); place++) {
        int rank = weft_cluster_rank(c, place);
        CHECK_INT(weft_cluster_place(c, rank), place);
        end += sprintf(end, "%s%d", place ? "," : "", rank);
    }
    return text;
}

static const char *hosts(const weft_cluster *c)
{
    static char text[512];
    char *end = text;
    for (int place = 0; place < weft_cluster_size(c); place++) {
        int host = weft_cluster_location(c, weft_cluster_rank(c, place))->host;
        end += sprintf(end, "%s%s", place ? "," : "", weft_cluster_host_name(c, host));
    }
    return text;
}

static weft_level level_of(const weft_cluster *c, int a, int b)
{
    return weft_cluster_level(c, (const int[]){a, b}, 2);
}

/* A launcher that deals ranks out like cards. */
TEST(ranks_dealt_round_the_hosts_are_placed_host_by_host)
{
    weft_cluster *c = cluster_of(ranks_on("ABABABAB"));
    CHECK_STR(placement(c), "0,2,4,6,1,3,5,7");
    CHECK_STR(hosts(c), "A,A,A,A,B,B,B,B");
    CHECK_INT(weft_cluster_hosts(c), 2);
    CHECK_INT(level_of(c, 0, 2), WEFT_LEVEL_UNKNOWN);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_HOST);
    weft_cluster_destroy(c);
}

TEST(hosts_follow_their_lowest_rank_and_appear_once_in_a_row)
{
    weft_cluster *c = cluster_of(ranks_on("CABBCAC"));
    CHECK_STR(placement(c), "0,4,6,1,5,2,3");
    CHECK_STR(hosts(c), "C,C,C,A,A,B,B");
    weft_cluster_destroy(c);
}

TEST(hosts_are_told_apart_by_number_and_never_by_name)
{
    /* Two machines are called X; one machine calls itself X and Y, in two containers. */
    ranks_on("XXXY");
    ranks[0].host = 17, ranks[1].host = 4;
    ranks[2].host = ranks[3].host = 9;
    weft_cluster *c = cluster_of(4);
    CHECK_INT(weft_cluster_hosts(c), 3);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_HOST);
    CHECK_INT(level_of(c, 2, 3), WEFT_LEVEL_UNKNOWN);
    CHECK_STR(weft_cluster_host_name(c, 2), "X");
    CHECK(weft_cluster_host_name(c, 3) == NULL);
    weft_cluster_destroy(c);
    ranks[0] = (weft_location)WEFT_LOCATION_INIT(5);
    c = cluster_of(1);
    CHECK_STR(weft_cluster_host_name(c, 0), "host0");
    weft_cluster_destroy(c);
}

/* Cores 3, 1, 2, 0 of one host: bound apart, ranks follow the machine. */
TEST(ranks_bound_to_disjoint_pus_follow_the_machine)
{
    weft_machine *m = machine_from(NULL, "package:2 core:2 pu:2");
    for (int r = 0; r < 4; r++)
        ranks[r] = located(m, WEFT_OBJECT_CORE, (const int[]){3, 1, 2, 0}[r], 0);
    weft_cluster *c = cluster_of(4);
    CHECK_STR(placement(c), "3,1,2,0");
    weft_cluster_destroy(c);
    ranks[1].pus = ranks[0].pus; /* two share a core: by number */
    c = cluster_of(4);
    CHECK_STR(placement(c), "0,1,2,3");
    weft_cluster_destroy(c);
    ranks[1] = (weft_location)WEFT_LOCATION_INIT(0); /* of one nothing is known: by number */
    c = cluster_of(4);
    CHECK_STR(placement(c), "0,1,2,3");
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

TEST(each_host_decides_for_itself)
{
    weft_machine *m = machine_from(NULL, "core:4");
    for (int r = 0; r < 6; r++)
        ranks[r] = located(m, WEFT_OBJECT_CORE, 3 - r / 2, r % 2);
    ranks[1].pus = ranks[3].pus; /* host 1: shared; host 0: cores 3, 2, 1 */
    weft_cluster *c = cluster_of(6);
    CHECK_STR(placement(c), "4,2,0,1,3,5");
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

/* power8: GPUs 0-1 and 2-3 are linked. The launcher gave rank 0 GPU 0, rank 1 GPU 2, rank 2 GPU 1, rank 3 GPU 3. */
TEST(ranks_with_gpus_of_their_own_follow_the_links)
{
    weft_machine *m = machine_from_xml("power8gpudistances.xml");
    for (int r = 0; r < 4; r++)
        ranks[r] = located(m, WEFT_OBJECT_GPU, (const int[]){0, 2, 1, 3}[r], 0);
    weft_cluster *c = cluster_of(4);
    CHECK_STR(placement(c), "0,2,1,3");
    CHECK_INT(level_of(c, 0, 2), WEFT_LEVEL_NOTHING);
    CHECK_INT(level_of(c, 1, 3), WEFT_LEVEL_NOTHING);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_ISLAND);
    weft_cluster_destroy(c);
    memset(ranks[2].gpu_id, 0, sizeof ranks[2].gpu_id); /* one drives no GPU: by number */
    c = cluster_of(4);
    CHECK_STR(placement(c), "0,1,2,3");
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

static void check_clash(int count, const char *said)
{
    weft_cluster *c = (weft_cluster *)ranks;
    CHECK_RESULT(weft_cluster_create(ranks, count, &c), WEFT_E_INVALID);
    CHECK(c == NULL);
    CHECK_STR(weft_last_error(), said);
}

TEST(two_ranks_on_one_gpu_are_named)
{
    keep_log();
    ranks_on("AAAAB");
    static const char *const ids[] = {"GPU-1", "GPU-2", "GPU-3", "GPU-1", "GPU-9"};
    for (int r = 0; r < 5; r++)
        snprintf(ranks[r].gpu_id, sizeof ranks[r].gpu_id, "%s", ids[r]);
    check_clash(5, "rank 0 and rank 3 both use GPU-1");
    /* A UUID names one GPU wherever it is; a bus id means another one on every host. */
    strcpy(ranks[3].gpu_id, "GPU-4");
    strcpy(ranks[4].gpu_id, "GPU-2");
    check_clash(5, "rank 1 and rank 4 both use GPU-2");
    strcpy(ranks[1].gpu_id, "0000:34:00.0");
    strcpy(ranks[4].gpu_id, "0000:34:00.0");
    weft_cluster_destroy(cluster_of(5));
    strcpy(ranks[2].gpu_id, "0000:34:00.0");
    check_clash(5, "rank 1 and rank 2 both use GPU 0000:34:00.0");
}

/* By hand from AMD-17h-Zen-2xEpyc-7451.xml: cores 0-2 share an L3, 0-5 node 0, 0-23 package 0. */
TEST(levels_are_those_of_the_caches_nodes_and_packages)
{
    weft_machine *m = machine_from_xml("AMD-17h-Zen-2xEpyc-7451.xml");
    for (int r = 0; r < 48; r++)
        ranks[r] = located(m, WEFT_OBJECT_CORE, r, 0);
    weft_cluster *c = cluster_of(48);
    CHECK_INT(level_of(c, 0, 2), WEFT_LEVEL_NOTHING);
    CHECK_INT(level_of(c, 2, 3), WEFT_LEVEL_CACHE);
    CHECK_INT(level_of(c, 0, 5), WEFT_LEVEL_CACHE);
    CHECK_INT(level_of(c, 5, 6), WEFT_LEVEL_NUMA);
    CHECK_INT(level_of(c, 23, 24), WEFT_LEVEL_PACKAGE);
    CHECK_INT(weft_cluster_level(c, (const int[]){0, 3, 6}, 3), WEFT_LEVEL_NUMA);
    CHECK_INT(weft_cluster_level(c, (const int[]){7}, 1), WEFT_LEVEL_NOTHING);
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

/* By hand from 64intel64-…: packages of eight cores, one L3 each; groups {0,1}, {2,3}, {6,7}, packages 4 and 8 alone.
 * A job that may use all of it, ranks on every core; bound sets as of the file, not of what is allowed. */
TEST(groups_of_unequal_size_keep_the_order_of_packages)
{
    weft_machine *m = machine_from_xml("64intel64-3g2n+2n-irregulargroups+pci.xml");
    for (int r = 0; r < 64; r++) {
        weft_pus pus = {{0}};
        weft_pus_add(&pus, 63 - r);
        CHECK_OK(weft_machine_locate(m, &pus, WEFT_NONE, &ranks[r]));
    }
    weft_cluster *c = cluster_of(64);
    for (int place = 0; place < 64; place++)
        CHECK_INT(weft_cluster_rank(c, place), 63 - place);
    CHECK_INT(level_of(c, 63, 56), WEFT_LEVEL_NOTHING); /* PUs 0 and 7 */
    CHECK_INT(level_of(c, 56, 55), WEFT_LEVEL_PACKAGE); /* PUs 7 and 8 */
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

TEST(what_is_not_known_is_not_called_near)
{
    keep_log();
    weft_machine *m = machine_from_xml("vm-without-numa.xml");
    for (int r = 0; r < 3; r++)
        ranks[r] = located(m, WEFT_OBJECT_GPU, r, 0);
    weft_cluster *c = cluster_of(3);
    CHECK_STR(placement(c), "1,2,0"); /* by bus id: 07, 08, 09 */
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_UNKNOWN);
    weft_cluster_destroy(c);
    ranks[0].numa = 0, ranks[1].numa = 1; /* they cross a node, and maybe more */
    c = cluster_of(3);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_UNKNOWN);
    weft_cluster_destroy(c);
    ranks[0].numa = ranks[1].numa = WEFT_UNKNOWN;
    ranks[0].island = ranks[1].island = 0; /* but links tell */
    c = cluster_of(3);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_NOTHING);
    CHECK_INT(level_of(c, 0, 2), WEFT_LEVEL_ISLAND);
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

TEST(a_rank_spread_over_packages_crosses_them)
{
    weft_machine *m = machine_from(NULL, "package:2 core:4");
    ranks[0] = located(m, WEFT_OBJECT_CORE, 0, 0);
    weft_pus pus = {{0}};
    weft_pus_add(&pus, 1);
    weft_pus_add(&pus, 4);
    CHECK_OK(weft_machine_locate(m, &pus, WEFT_NONE, &ranks[1]));
    weft_cluster *c = cluster_of(2);
    CHECK_INT(level_of(c, 0, 1), WEFT_LEVEL_PACKAGE);
    weft_cluster_destroy(c);
    weft_machine_close(m);
}

TEST(placement_does_not_depend_on_the_order_of_the_facts)
{
    /* The same ranks under other host numbers: only equality counts. */
    weft_cluster *a = cluster_of(ranks_on("ABBACCAB"));
    char first[64];
    strcpy(first, placement(a));
    for (int r = 0; r < 8; r++)
        ranks[r].host = 1000 - 7 * ranks[r].host;
    weft_cluster *b = cluster_of(8);
    CHECK_STR(placement(b), first);
    weft_cluster_destroy(a);
    weft_cluster_destroy(b);
}

TEST(what_is_out_of_range_is_none)
{
    keep_log();
    weft_cluster *c = cluster_of(ranks_on("AB"));
    CHECK_INT(weft_cluster_rank(c, 2), WEFT_NONE);
    CHECK_INT(weft_cluster_rank(c, -1), WEFT_NONE);
    CHECK_INT(weft_cluster_place(c, 2), WEFT_NONE);
    CHECK(weft_cluster_location(c, 2) == NULL && weft_cluster_location(c, -1) == NULL);
    weft_cluster_destroy(c);
    weft_cluster_destroy(NULL);
    CHECK_RESULT(weft_cluster_create(ranks, 0, &c), WEFT_E_INVALID);
    CHECK_RESULT(weft_cluster_create(NULL, 2, &c), WEFT_E_INVALID);
    CHECK_STR(weft_level_string((weft_level)99), "?");
    CHECK_STR(weft_level_string(WEFT_LEVEL_ISLAND), "link island");
}

TEST(every_allocation_may_fail)
{
    keep_log();
    int count = ranks_on("ABAB");
    weft_cluster *c;
    weft_result result = WEFT_E_NO_MEMORY;
    for (long number = 1; result == WEFT_E_NO_MEMORY; number++) {
        weft__alloc_fail_at(number);
        result = weft_cluster_create(ranks, count, &c);
        CHECK(result == WEFT_OK || c == NULL);
    }
    CHECK_OK(result);
    weft_cluster_destroy(c);
}
