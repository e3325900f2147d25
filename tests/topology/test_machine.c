/* SPDX-License-Identifier: Apache-2.0 */
/* Machines read from files and descriptions have the parts that these list. */
#include <sched.h>
#include <stdlib.h>

#include "base/memory.h"
#include "machines.h"

static void check_counts(const weft_machine *m, int packages, int numas, int caches, int cores, int pus, int gpus,
                         int nics)
{
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_PACKAGE), packages);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_NUMA), numas);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_CACHE), caches);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_CORE), cores);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_PU), pus);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_GPU), gpus);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_NIC), nics);
}

static bool has_unseen(const weft_machine *m, const char *part)
{
    for (int i = 0; weft_machine_unseen(m, i); i++)
        if (strstr(weft_machine_unseen(m, i), part))
            return true;
    return false;
}

static const char *pus_of(const weft_pus *pus)
{
    static char text[256];
    return weft_pus_text(pus, text, sizeof text);
}

TEST(a_set_of_pus_is_written_in_runs)
{
    weft_pus pus = {{0}};
    char text[12];
    CHECK_STR(pus_of(&pus), "");
    const int members[] = {0, 1, 2, 8, 63, 64, 8191, -1, 8192};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        weft_pus_add(&pus, members[i]);
    CHECK_INT(weft_pus_count(&pus), 7);
    CHECK_STR(pus_of(&pus), "0-2,8,63-64,8191");
    CHECK(weft_pus_has(&pus, 64) && !weft_pus_has(&pus, 65) && !weft_pus_has(&pus, -1) && !weft_pus_has(&pus, 8192));
    CHECK_STR(weft_pus_text(&pus, text, sizeof text), "0-2,8,63...");
    CHECK_STR(weft_pus_text(&pus, text, 9), "0-2,8...");
    CHECK_STR(weft_pus_text(&pus, text, 4), "...");
    CHECK_STR(weft_pus_text(&pus, text, 1), "");
}

/* Every object lies inside its parent, PUs are runs, and every object is found by kind and number. */
static void check_tree(const weft_machine *m)
{
    int objects = 0, pus = 0;
    for (const weft_object *o; (o = weft_machine_object(m, objects)); objects++) {
        const weft_object *parent = weft_machine_object(m, o->parent);
        CHECK_MSG(objects == 0 ? !parent : parent && o->parent < objects && o->end <= parent->end, "object %d",
                  objects);
        CHECK(o->end > objects);
        CHECK_INT(weft_machine_find(m, o->kind, o->number), objects);
        if (o->kind == WEFT_OBJECT_PU)
            CHECK_INT(o->first_pu, pus++);
        int below = 0;
        for (int i = objects; i < o->end; i++)
            below += weft_machine_object(m, i)->kind == WEFT_OBJECT_PU;
        if (o->kind < WEFT_OBJECT_BRIDGE)
            CHECK_INT(o->pu_count, below);
        CHECK(o->name && o->model && o->pci_id && o->uuid);
    }
    CHECK_INT(weft_machine_object(m, 0)->end, objects);
    CHECK_INT(weft_machine_object(m, 0)->pu_count, pus);
    CHECK(weft_pus_count(weft_machine_allowed(m)) > 0);
}

/* Counted in the files: <object type="..."> of each type; L1 instruction caches are not read. */
TEST(real_machines_have_the_parts_that_their_files_list)
{
    static const struct {
        const char *file;
        int packages, numas, caches, cores, pus, gpus, nics;
    } known[] = {
        {"nvidiaDGX2.xml", 2, 2, 10, 4, 4, 16, 0},
        {"power8gpudistances.xml", 2, 2, 8, 8, 16, 4, 0},
        /* GPUs: 03:00.0, 83:00.0 and 84:00.0 are 3D controllers, 84:00.1 is a screen that OpenCL runs. */
        {"32em64t-2n8c2t-pci-wholeio.xml", 2, 2, 34, 16, 32, 4, 3},
        /* GPUs: 06:00.0, 14:00.0, 11:00.0; the ES1000 at 01:03.0 is the screen of the board. */
        {"24em64t-2n6c2t-pci.xml", 2, 2, 26, 12, 24, 3, 3},
        {"64intel64-3g2n+2n-irregulargroups+pci.xml", 8, 8, 136, 64, 64, 2, 2},
        {"AMD-17h-Zen-2xEpyc-7451.xml", 2, 8, 112, 48, 96, 0, 0},
        {"16amd64-8n2c-cpusets.xml", 6, 5, 20, 10, 10, 0, 0},
        {"32amd64-4s2n4c-cgroup2.xml", 3, 6, 18, 6, 6, 0, 0},
        {"8intel64-4n2t-memattrs.xml", 0, 4, 0, 0, 8, 0, 0},
        {"fakeheterodistances.xml", 4, 8, 8, 0, 8, 0, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        weft_machine *m = machine_from_xml(known[i].file);
        test_note("%s", known[i].file);
        check_tree(m);
        check_counts(m, known[i].packages, known[i].numas, known[i].caches, known[i].cores, known[i].pus, known[i].gpus,
                     known[i].nics);
        CHECK(!weft_machine_is_flat(m));
        CHECK_HAS(weft_machine_source(m), known[i].file);
        weft_machine_close(m);
    }
}

TEST(parts_of_the_machine_that_are_not_allowed_are_counted_and_marked)
{
    /* cpuset 0xf06f of complete 0xffff: PUs 0-3,5,6,12-15, six are missing; nodes 1-5 of 0-7. */
    weft_machine *m = machine_from_xml("16amd64-8n2c-cpusets.xml");
    CHECK_STR(pus_of(weft_machine_allowed(m)), "0-3,5-6,12-15");
    CHECK(has_unseen(m, "6 of 16 PUs"));
    CHECK(has_unseen(m, "3 of 8 NUMA nodes"));
    weft_machine_close(m);
    /* cpuset 0x3f of complete 0xffffffff. Packages 1 and 2 are there for their memory. */
    m = machine_from_xml("32amd64-4s2n4c-cgroup2.xml");
    CHECK_STR(pus_of(weft_machine_allowed(m)), "0-5");
    CHECK(has_unseen(m, "26 of 32 PUs"));
    CHECK_INT(object_of(m, WEFT_OBJECT_PACKAGE, 0)->allowed, 1);
    CHECK_INT(object_of(m, WEFT_OBJECT_PACKAGE, 1)->allowed, 0);
    CHECK_INT(object_of(m, WEFT_OBJECT_NUMA, 2)->allowed, 1);
    weft_machine_close(m);
    /* allowed_cpuset 0x0000ffff of 64: packages 0 and 1. Cores that are not allowed are not given to ranks. */
    m = machine_from_xml("64intel64-3g2n+2n-irregulargroups+pci.xml");
    CHECK_STR(pus_of(weft_machine_allowed(m)), "0-15");
    CHECK(has_unseen(m, "48 of 64 PUs"));
    CHECK_INT(object_of(m, WEFT_OBJECT_PU, 15)->allowed, 1);
    CHECK_INT(object_of(m, WEFT_OBJECT_PU, 16)->allowed, 0);
    CHECK(weft_machine_core(m, 15) != WEFT_NONE);
    CHECK_INT(weft_machine_core(m, 16), WEFT_NONE);
    weft_machine_close(m);
}

TEST(a_machine_without_cores_gives_its_pus_instead)
{
    weft_machine *m = machine_from_xml("8intel64-4n2t-memattrs.xml");
    CHECK(has_unseen(m, "cores"));
    CHECK(has_unseen(m, "packages"));
    for (int i = 0; i < 8; i++)
        CHECK_INT(weft_machine_object(m, weft_machine_core(m, i))->os_number, i);
    CHECK_INT(weft_machine_core(m, 8), WEFT_NONE);
    CHECK_INT(weft_machine_core(m, -1), WEFT_NONE);
    weft_machine_close(m);
}

/* In 24em64t-2n6c2t-pci.xml no driver names a GPU: they are PCI class 0302 and nothing else. */
TEST(a_gpu_without_a_driver_is_found_by_its_bus_id)
{
    weft_machine *m = machine_from_xml("24em64t-2n6c2t-pci.xml");
    int gpu = weft_machine_find_gpu(m, "0000:14:00.0");
    CHECK(gpu != WEFT_NONE);
    CHECK_STR(weft_machine_object(m, gpu)->name, "");
    CHECK_INT(weft_machine_object(m, weft_machine_above(m, gpu, WEFT_OBJECT_PACKAGE))->number, 1);
    CHECK_INT(weft_machine_find_gpu(m, "14:00.0"), gpu);          /* CUDA may leave the domain out */
    CHECK_INT(weft_machine_find_gpu(m, "00000000:14:00.0"), gpu); /* NVML writes it in eight digits */
    CHECK_INT(weft_machine_find_gpu(m, "0001:14:00.0"), WEFT_NONE);
    CHECK_INT(weft_machine_find_gpu(m, "0000:01:03.0"), WEFT_NONE); /* a screen */
    CHECK_INT(weft_machine_find_gpu(m, ""), WEFT_NONE);
    weft_machine_close(m);
}

TEST(a_gpu_is_known_by_its_uuid_and_by_any_driver)
{
    weft_machine *m = machine_from_xml("power8gpudistances.xml");
    int gpu = weft_machine_find(m, WEFT_OBJECT_GPU, 2);
    CHECK_STR(weft_machine_object(m, gpu)->name, "nvml2 (cuda2, opencl0d2)");
    CHECK_STR(weft_machine_object(m, gpu)->model, "Tesla P100-SXM2-16GB");
    CHECK_INT(weft_machine_find_gpu(m, "GPU-ea919830-8251-6a30-e379-daeb01448779"), gpu);
    CHECK_INT(weft_machine_find_gpu(m, "000a:01:00.0"), gpu);
    CHECK_INT(weft_machine_find_gpu(m, "000A:01:00.0"), gpu);
    CHECK_INT(weft_machine_find_gpu(m, "cuda2"), gpu);
    CHECK_INT(weft_machine_find_gpu(m, "nvml2"), gpu);
    CHECK_INT(weft_machine_find_gpu(m, "cuda"), WEFT_NONE);
    CHECK_INT(weft_machine_find_gpu(m, NULL), WEFT_NONE);
    weft_machine_close(m);
}

TEST(a_file_that_hwloc_rejects_gives_a_flat_machine_and_says_so)
{
    keep_log();
    weft_machine *m = machine_from_xml("rejected.xml");
    CHECK_INT(weft_machine_is_flat(m), 1);
    CHECK(has_unseen(m, "rejected.xml: hwloc refused it"));
    CHECK_HAS(kept_lines, "taken as flat");
    cpu_set_t mine;
    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    check_counts(m, 0, 0, 0, 0, CPU_COUNT(&mine), 0, 0);
    check_tree(m);
    weft_machine_close(m);
}

TEST(this_host_is_read_and_holds_the_pus_of_this_process)
{
    weft_machine *m;
    weft_pus mine;
    CHECK_OK(weft_machine_open(NULL, &m));
    check_tree(m);
    CHECK_OK(weft_pus_of_thread(&mine));
    for (int pu = 0; pu < WEFT_PUS_MAX; pu++)
        CHECK_MSG(!weft_pus_has(&mine, pu) || weft_pus_has(weft_machine_allowed(m), pu), "PU %d is not there", pu);
    CHECK(weft_machine_core(m, 0) != WEFT_NONE);
    weft_machine_close(m);
}

TEST(synthetic_machines_end_in_pus_of_their_own_accord)
{
    weft_machine *m = machine_from(NULL, "package:2 l3:2 core:3");
    check_tree(m);
    check_counts(m, 2, 1, 4, 12, 12, 0, 0);
    weft_machine_close(m);
    m = machine_from(NULL, "package:2 core:2 pu:2");
    check_counts(m, 2, 1, 0, 4, 8, 0, 0);
    weft_machine_close(m);
}

static weft_result try_open(const char *xml, const char *synthetic, uint32_t flags)
{
    weft_machine_config config = WEFT_MACHINE_CONFIG_INIT;
    config.xml = xml;
    config.synthetic = synthetic;
    config.flags = flags;
    weft_machine *m = (weft_machine *)&config;
    weft_result result = weft_machine_open(&config, &m);
    CHECK(result == WEFT_OK || m == NULL);
    weft_machine_close(m);
    return result;
}

TEST(what_is_no_machine_is_named)
{
    keep_log();
    if (try_open(NULL, "core:1", 0) == WEFT_E_UNSUPPORTED)
        test_skip("built without hwloc");
    CHECK_RESULT(try_open("/nowhere/m.xml", NULL, 0), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "'/nowhere/m.xml'");
    CHECK_RESULT(try_open("/", NULL, 0), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "folder");
    CHECK_RESULT(try_open(NULL, "packet:2", 0), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "'packet:2'");
    CHECK_RESULT(try_open("/dev/zero", NULL, 0), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "no file");
    CHECK_RESULT(try_open(NULL, "core:1000000000", 0), WEFT_E_RANGE);
    CHECK_RESULT(try_open(NULL, "package:200 l2:100 core:100", 0), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "parts");
    CHECK_RESULT(try_open(NULL, "package:2 l3:2(size=1000000) l2:4 core:2 pu:2", 0), WEFT_OK);
    CHECK_RESULT(try_open("a.xml", "core:2", 0), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "not both");
    CHECK_RESULT(try_open(NULL, NULL, 1), WEFT_E_INVALID);
}

TEST(lookups_of_what_is_not_there_find_nothing)
{
    weft_machine *m = machine_from(NULL, "core:2");
    CHECK(weft_machine_object(m, -1) == NULL && weft_machine_object(m, 1000) == NULL);
    CHECK_INT(weft_machine_find(m, WEFT_OBJECT_CORE, 2), WEFT_NONE);
    CHECK_INT(weft_machine_find(m, (weft_object_kind)99, 0), WEFT_NONE);
    CHECK_INT(weft_machine_above(m, -5, WEFT_OBJECT_CORE), WEFT_NONE);
    CHECK_INT(weft_machine_above(m, 0, WEFT_OBJECT_CORE), WEFT_NONE);
    CHECK(weft_machine_links(m, 0) == NULL && weft_machine_unseen(m, 99) == NULL);
    CHECK_INT(weft_machine_gpu_mb_per_s(m, 0, 1), 0);
    CHECK_STR(weft_object_string((weft_object_kind)99), "?");
    CHECK_STR(weft_object_string(WEFT_OBJECT_NUMA), "NUMA node");
    weft_machine_close(m);
    weft_machine_close(NULL);
}

TEST(every_allocation_may_fail)
{
    char path[4096];
    keep_log();
    data_path("machines/power8gpudistances.xml", path, sizeof path);
    weft_machine_config config = WEFT_MACHINE_CONFIG_INIT;
    config.xml = path;
    weft_machine *m;
    weft_result result = WEFT_E_NO_MEMORY;
    long number = 0;
    while (result == WEFT_E_NO_MEMORY) {
        weft__alloc_fail_at(++number);
        kept_lines[0] = 0;
        result = weft_machine_open(&config, &m);
        CHECK(result == WEFT_OK || m == NULL);
    }
    if (result == WEFT_E_UNSUPPORTED)
        test_skip("built without hwloc");
    CHECK_OK(result);
    CHECK_MSG(number > 20, "only %ld allocations", number);
    weft_machine_close(m);
}
