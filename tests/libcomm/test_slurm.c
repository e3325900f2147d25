/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists, as `scontrol show hostnames` and srun's manual spell them out. */
#include "bootstrap/slurm.h"
#include "harness/test.h"

TEST(the_first_host_of_a_list_is_found)
{
    static const char *const cases[][2] = {
        {"node1", "node1"},         {"node[001-003,7],x", "node001"},
        {"x,node[001-003,7]", "x"}, {"n[7]", "n7"},
        {"n[09,01-03]", "n09"},     {"rack[0-1]node[12-13]", "rack0node12"},
        {"n[1-2]-ib0,m", "n1-ib0"}, {"a.example.org,b", "a.example.org"},
    };
    char host[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_MSG(weft__slurm_first_host(cases[i][0], host, sizeof host), "%s", cases[i][0]);
        CHECK_STR(host, cases[i][1]);
    }
}

TEST(what_is_no_list_of_hosts_is_refused)
{
    static const char *const cases[] = {"", ",a", "a[", "a[]", "a[1", "a[-3]", "a[b]", "a]", "a[1[2]]", "a[1:2]"};
    char host[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(!weft__slurm_first_host(cases[i], host, sizeof host), "%s", cases[i]);
    CHECK(weft__slurm_first_host("abc", host, 4));
    CHECK(!weft__slurm_first_host("abcd", host, 4));
    CHECK(!weft__slurm_first_host("ab[12]", host, 4));
}

TEST(the_tasks_of_a_node_are_found)
{
    static const struct {
        const char *list;
        int node, tasks;
    } cases[] = {
        {"4", 0, 4},        {"4", 1, -1},    {"2(x3),1", 0, 2},      {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1},
        {"2(x3),1", 4, -1}, {"1,2,3", 1, 2}, {"1(x2),5(x2)", 2, 5},  {"", 0, -1},       {"x", 0, -1},
        {"2(x", 0, -1},     {"2(x3", 0, -1}, {"2(x0),1", 0, -1},     {"0", 0, -1},      {"2;1", 1, -1},
        {"1,", 1, -1},      {"4", -1, -1},   {"99999999999", 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int tasks = weft__slurm_tasks(cases[i].list, cases[i].node);
        CHECK_MSG(tasks == cases[i].tasks, "'%s' has %d for node %d", cases[i].list, tasks, cases[i].node);
    }
}
