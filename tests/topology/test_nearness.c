/* SPDX-License-Identifier: Apache-2.0 */
/* Which cores, memory and network card are near a device. */
#include "machines.h"

static weft_near near_of(const weft_machine *m, int object)
{
    weft_near near;
    CHECK_OK(weft_machine_near(m, object, &near));
    return near;
}

static weft_near near_gpu(const weft_machine *m, const char *id)
{
    int gpu = weft_machine_find_gpu(m, id);
    CHECK_MSG(gpu != WEFT_NONE, "there is no GPU %s", id);
    return near_of(m, gpu);
}

static void check_near(const weft_machine *m, weft_near near, const char *pus, int numa_os, const char *nic)
{
    char text[256];
    const weft_object *numa = weft_machine_object(m, near.numa), *card = weft_machine_object(m, near.nic);
    CHECK_STR(weft_pus_text(&near.pus, text, sizeof text), pus);
    CHECK_INT(numa ? numa->os_number : WEFT_NONE, numa_os);
    CHECK_STR(card ? card->pci_id : "", nic);
}

/* By hand: 84:00.0 and the InfiniBand card 04:00.0 are below the same bridge of package 1 (cpuset 0xff00ff00); 03:00.0
 * is on package 0 (0x00ff00ff). The gigabit cards 81:00.x do not move memory by themselves. */
TEST(a_gpu_takes_the_cores_memory_and_card_of_its_package)
{
    weft_machine *m = machine_from_xml("32em64t-2n8c2t-pci-wholeio.xml");
    check_near(m, near_gpu(m, "84:00.0"), "8-15,24-31", 1, "0000:04:00.0");
    check_near(m, near_gpu(m, "83:00.0"), "8-15,24-31", 1, "0000:04:00.0");
    check_near(m, near_gpu(m, "03:00.0"), "0-7,16-23", 0, "0000:04:00.0");
    weft_machine_close(m);
}

/* By hand: mlx4_0 (05:00.0) is the only RDMA card, on package 0; even PUs are package 0, odd ones package 1. */
TEST(an_rdma_card_far_away_is_better_than_ethernet_nearby)
{
    weft_machine *m = machine_from_xml("24em64t-2n6c2t-pci.xml");
    check_near(m, near_gpu(m, "06:00.0"), "0,2,4,6,8,10,12,14,16,18,20,22", 0, "0000:05:00.0");
    check_near(m, near_gpu(m, "11:00.0"), "1,3,5,7,9,11,13,15,17,19,21,23", 1, "0000:05:00.0");
    CHECK_INT(object_of(m, WEFT_OBJECT_NIC, 2)->rdma, 1);
    CHECK_STR(object_of(m, WEFT_OBJECT_NIC, 2)->name, "mlx4_0 (eth2, ib0)");
    /* Core 1 of the file is PUs 2 and 14. */
    check_near(m, near_of(m, weft_machine_core(m, 1)), "2,14", 0, "0000:05:00.0");
    weft_machine_close(m);
}

/* By hand: allowed_cpuset 0x0000ffff are packages 0 and 1; the GPU 0004:01:00.0 is on package 8, whose PUs 56-63 and
 * node 7 are not allowed. */
TEST(a_gpu_without_an_allowed_core_nearby_keeps_the_allowed_set_and_warns_once)
{
    keep_log();
    weft_machine *m = machine_from_xml("64intel64-3g2n+2n-irregulargroups+pci.xml");
    check_near(m, near_gpu(m, "0004:01:00.0"), "0-15", WEFT_NONE, "0000:01:00.1");
    check_near(m, near_gpu(m, "0002:01:00.0"), "0-15", WEFT_NONE, "0000:01:00.0"); /* cards equally far take turns */
    CHECK_INT(kept_warnings, 1);
    CHECK_HAS(kept_lines, "no PU that this process may use is near GPU 1 0004:01:00.0");
    weft_location location = located(m, WEFT_OBJECT_GPU, 1, 0);
    CHECK_INT(location.package, 7);
    weft_machine_close(m);
}

/* vm-without-numa.xml: GPUs 09, 07, 08 in this order, right below the machine, which has two nodes. */
TEST(gpus_of_which_nobody_knows_where_they_hang_follow_their_bus_ids)
{
    keep_log();
    weft_machine *m = machine_from_xml("vm-without-numa.xml");
    CHECK_INT(kept_warnings, 1);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_GPU), 3);
    static const char *const in_order[] = {"0000:00:07.0", "0000:00:08.0", "0000:00:09.0"};
    for (int i = 0; i < 3; i++) {
        int gpu = weft_machine_find_gpu(m, in_order[i]);
        weft_location location = located(m, WEFT_OBJECT_GPU, weft_machine_object(m, gpu)->number, 0);
        CHECK_INT(location.position, i);
        CHECK_INT(location.numa, WEFT_UNKNOWN);
        CHECK_INT(location.package, WEFT_UNKNOWN);
        check_near(m, near_gpu(m, in_order[i]), "0-3", WEFT_NONE, "0000:00:03.0");
    }
    weft_machine_close(m);
}

TEST(a_core_of_a_machine_without_numa_there_has_no_near_memory)
{
    /* 16amd64-8n2c-cpusets.xml: PUs 0 and 1 are in a package whose node 0 is not allowed. */
    weft_machine *m = machine_from_xml("16amd64-8n2c-cpusets.xml");
    check_near(m, near_of(m, weft_machine_core(m, 0)), "0", WEFT_NONE, "");
    check_near(m, near_of(m, weft_machine_core(m, 2)), "2", 1, "");
    weft_machine_close(m);
}

static weft_location locate_pus(const weft_machine *m, const int *pus, int count)
{
    weft_pus set = {{0}};
    weft_location location;
    for (int i = 0; i < count; i++)
        weft_pus_add(&set, pus[i]);
    CHECK_OK(weft_machine_locate(m, &set, WEFT_NONE, &location));
    return location;
}

/* By hand: cores 0-2 (PUs 0,48 1,49 2,50) share the first L3, 3-5 the second, both on node 0. Caches are numbered
 * depth-first: L3, then L2 and L1 of its three cores, so the second L3 is number 7. */
TEST(a_rank_is_where_its_pus_are)
{
    weft_machine *m = machine_from_xml("AMD-17h-Zen-2xEpyc-7451.xml");
    weft_location l = locate_pus(m, (int[]){1, 49}, 2);
    CHECK_INT(l.position, 2); /* behind PUs 0 and 48 */
    CHECK_INT(l.cache, 0);
    CHECK_INT(l.numa, 0);
    CHECK_INT(l.package, 0);
    CHECK_INT(l.gpu, WEFT_NONE);
    CHECK_STR(l.gpu_id, "");
    l = locate_pus(m, (int[]){2, 3}, 2);
    CHECK_INT(l.cache, WEFT_SPREAD);
    CHECK_INT(l.numa, 0);
    l = locate_pus(m, (int[]){4}, 1);
    CHECK_INT(l.cache, 7);
    l = locate_pus(m, (int[]){0, 24}, 2);
    CHECK_INT(l.package, WEFT_SPREAD);
    l = locate_pus(m, (int[]){4000}, 1); /* not of this machine */
    CHECK_INT(l.position, WEFT_UNKNOWN);
    CHECK_INT(l.package, WEFT_UNKNOWN);
    weft_machine_close(m);
}

TEST(a_rank_may_be_located_by_the_affinity_of_its_thread)
{
    weft_machine *m;
    weft_location l;
    weft_pus mine;
    CHECK_OK(weft_machine_open(NULL, &m));
    CHECK_OK(weft_machine_locate(m, NULL, WEFT_NONE, &l));
    CHECK_OK(weft_pus_of_thread(&mine));
    CHECK(memcmp(&l.pus, &mine, sizeof mine) == 0);
    CHECK(l.position >= 0);
    weft_machine_close(m);
}

TEST(objects_that_do_not_fit_are_refused)
{
    keep_log();
    weft_machine *m = machine_from(NULL, "core:2");
    weft_near near;
    weft_location l;
    CHECK_RESULT(weft_machine_near(m, 999, &near), WEFT_E_RANGE);
    CHECK_RESULT(weft_machine_near(m, -1, &near), WEFT_E_RANGE);
    CHECK_RESULT(weft_machine_near(NULL, 0, &near), WEFT_E_INVALID);
    CHECK_RESULT(weft_machine_locate(m, NULL, 0, &l), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "object 0 is not a GPU");
    CHECK_RESULT(weft_machine_locate(NULL, NULL, WEFT_NONE, &l), WEFT_E_INVALID);
    weft_machine_close(m);
}
