/* SPDX-License-Identifier: Apache-2.0 */
/* The cores that are found in made-up folders of the system and on this machine. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cores.h"
#include "harness/test.h"

static char sysfs[] = "/tmp/weft-test-cores-XXXXXX";

static void write_siblings(int cpu, const char *list)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cpu%d", sysfs, cpu);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/cpu%d/topology", sysfs, cpu);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", sysfs, cpu);
    FILE *file = fopen(path, "w");
    CHECK(file && fprintf(file, "%s\n", list) > 0 && fclose(file) == 0);
}

static void remove_sysfs(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", sysfs);
    CHECK_INT(system(command), 0);
}

/* "1,5" of a set. */
static const char *list_of(const cpus *set)
{
    static char text[256];
    size_t used = 0;
    text[0] = 0;
    for (size_t cpu = 0; cpu < CORES_CPUS; cpu++)
        if (CPU_ISSET_S(cpu, sizeof *set, set->sets))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu", used ? "," : "", cpu);
    return text;
}

static const char *pick(const cores *all, int index, int count)
{
    static cpus picked;
    cores_pick(all, index, count, &picked);
    return list_of(&picked);
}

static void allow(cpus *allowed, int first, int last)
{
    for (int cpu = first; cpu <= last; cpu++)
        CPU_SET_S((size_t)cpu, sizeof *allowed, allowed->sets);
}

TEST(threads_of_a_core_count_once)
{
    static cpus allowed;
    static cores found;
    CHECK(mkdtemp(sysfs));
    static const char *const lists[] = {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"};
    for (int cpu = 0; cpu < 8; cpu++)
        write_siblings(cpu, lists[cpu]);
    allow(&allowed, 1, 6); /* half of core 0 and of core 3 are taken away */
    cores_find(sysfs, &allowed, &found);
    remove_sysfs();
    CHECK_INT(found.count, 4);
    CHECK_STR(pick(&found, 0, 1), "1,5");
    CHECK_STR(pick(&found, 1, 1), "2,6");
    CHECK_STR(pick(&found, 2, 1), "3");
    CHECK_STR(pick(&found, 3, 1), "4");
    CHECK_STR(pick(&found, 4, 1), "1,5");
    CHECK_STR(pick(&found, 3, 2), "1,4,5");
    CHECK_STR(pick(&found, 0, 9), "1,2,3,4,5,6");
}

TEST(lists_may_be_ranges)
{
    static cpus allowed;
    static cores found;
    CHECK(mkdtemp(sysfs));
    for (int cpu = 0; cpu < 8; cpu++)
        write_siblings(cpu, cpu < 4 ? "0-3" : "4-5,6-7");
    allow(&allowed, 0, 7);
    cores_find(sysfs, &allowed, &found);
    remove_sysfs();
    CHECK_INT(found.count, 2);
    CHECK_STR(pick(&found, 1, 1), "4,5,6,7");
}

TEST(without_lists_every_cpu_is_a_core)
{
    static cpus allowed;
    static cores found;
    allow(&allowed, 5, 7);
    allow(&allowed, 8191, 8191);
    cores_find("/nowhere", &allowed, &found);
    CHECK_INT(found.count, 4);
    CHECK_STR(pick(&found, 0, 1), "5");
    CHECK_STR(pick(&found, 3, 1), "8191");
}

TEST(cores_that_are_divided_are_all_given_out_and_none_twice)
{
    static cores all;
    for (all.count = 1; all.count <= 9; all.count++)
        for (int ranks = 1; ranks <= all.count; ranks++)
            for (int rank = 0, next = 0, first, count; rank < ranks; rank++) {
                cores_share_of(&all, rank, ranks, &first, &count);
                CHECK_INT(first, next);
                CHECK(count == all.count / ranks || count == all.count / ranks + 1);
                next += count;
                CHECK(rank < ranks - 1 || next == all.count);
            }
}

TEST(the_cores_of_this_process_are_within_its_affinity)
{
    static cores found;
    CHECK(cores_of_process(&found));
    CHECK(found.count >= 1 && found.count <= sysconf(_SC_NPROCESSORS_CONF));
    CHECK(sched_getcpu() >= 0 && found.first[sched_getcpu()] >= 0);
}

TEST(who_shares_the_cores_is_bound_to_one_and_nobody_is_if_there_are_too_few)
{
    static cores all, mine;
    CHECK(cores_of_process(&all));
    cores_share(0, all.count + 1);
    CHECK(cores_of_process(&mine));
    CHECK(memcmp(&mine, &all, sizeof all) == 0);
    cores_share(all.count - 1, all.count);
    CHECK(cores_of_process(&mine));
    CHECK_INT(mine.count, 1);
    CHECK(all.first[sched_getcpu()] >= 0 && mine.first[sched_getcpu()] == all.first[sched_getcpu()]);
}
