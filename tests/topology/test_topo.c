/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo` as its user runs it. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/golden.h"
#include "harness/json.h"
#include "harness/test.h"

typedef struct outcome {
    int code;
    char out[200000], err[4096];
} outcome;

static void read_all(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    CHECK(file);
    size_t n = fread(text, 1, bytes - 1, file);
    text[n] = 0;
    fclose(file);
    unlink(path);
}

/* Run `weft topo` with these words, as a shell reads them; M/ stands for the folder of machines. */
static const outcome *topo(const char *words)
{
    static outcome o;
    const char *command = getenv("WEFT_TEST_COMMAND");
    if (!command)
        test_skip("WEFT_TEST_COMMAND is not set");
    char machines[2048], out[64], err[64], line[8192], *end = line;
    data_path("machines/", machines, sizeof machines);
    snprintf(out, sizeof out, "/tmp/weft-topo-%d.out", getpid());
    snprintf(err, sizeof err, "/tmp/weft-topo-%d.err", getpid());
    end += sprintf(end, "'%s' topo ", command);
    for (const char *w = words; *w; w++)
        end += w[0] == 'M' && w[1] == '/' ? sprintf(end, "%s", machines) : sprintf(end, "%c", *w);
    sprintf(end, " >%s 2>%s", out, err);
    int status = system(line);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_all(out, o.out, sizeof o.out);
    read_all(err, o.err, sizeof o.err);
    if (strstr(o.err, "built without hwloc"))
        test_skip("built without hwloc");
    return &o;
}

static void check_wrong(const char *words, int code, const char *said)
{
    const outcome *o = topo(words);
    CHECK_HAS(o->err, said);
    CHECK_INT(o->code, code);
    CHECK_STR(o->out, "");
    CHECK_MSG(strchr(o->err, '\n') == o->err + strlen(o->err) - 1, "more than one line: %s", o->err);
}

TEST(a_plan_is_printed_line_for_line)
{
    const outcome *o = topo("--synthetic 'package:2 l3:1 core:2 pu:2' --hosts b,a,b,a --tp 2");
    CHECK_STR(o->out, "machine  (hwloc, synthetic package:2 l3:1 core:2 pu:2)\n"
                      "  2 packages, 1 NUMA node, 4 cores, 8 PUs\n"
                      "  NUMA node 0  1 GiB\n"
                      "    package 0\n"
                      "      L3 16 MiB\n"
                      "        cores 0-1  PUs 0-3\n"
                      "    package 1\n"
                      "      L3 16 MiB\n"
                      "        cores 2-3  PUs 4-7\n"
                      "\n"
                      "not seen\n"
                      "  PCI devices, so neither GPUs nor network cards\n"
                      "\n"
                      "placement  4 ranks on 2 hosts\n"
                      "  place   rank  host  runs on    memory         PUs               network\n"
                      "      0      0  b     core 0     NUMA node 0    0-1               -\n"
                      "      1      2  b     core 1     NUMA node 0    2-3               -\n"
                      "      2      1  a     core 0     NUMA node 0    0-1               -\n"
                      "      3      3  a     core 1     NUMA node 0    2-3               -\n"
                      "\n"
                      "layout  tp 2  cp 1  dp 2  pp 1  order tp-cp-ep-dp-pp\n"
                      "  axis   groups  size  worst level crossed               ranks\n"
                      "  tp          2     2  nothing                           0,2;1,3\n"
                      "  dp          2     2  host                              0,1;2,3\n"
                      "  2 of 2 dp groups cross hosts\n"
                      "\n"
                      "host sequence  b,b,a,a\n");
    CHECK_STR(o->err, "");
    CHECK_INT(o->code, 0);
}

TEST(the_plan_says_how_many_tensor_groups_leave_their_host)
{
    const outcome *o = topo("--synthetic core:4 --hosts A,A,A,B --tp 2");
    CHECK_HAS(o->out, "1 of 2 tp groups crosses hosts\n");
    CHECK_HAS(o->out, "host sequence  A,A,A,B\n");
    CHECK_INT(o->code, 0);
    o = topo("--synthetic core:4 --hosts A,A,A,B --tp 2 --strict");
    CHECK_INT(o->code, 1);
    CHECK_HAS(o->out, "1 of 2 tp groups crosses hosts\n");
    CHECK_STR(o->err, "weft: --strict: 1 of 2 tp groups crosses hosts: rank 2 on A, rank 3 on B\n");
    o = topo("--synthetic core:4 --hosts A,B,A,B --tp 2 --strict");
    CHECK_INT(o->code, 0);
}

/* The values by hand stand in test_links.c. */
TEST(gpus_islands_and_what_is_not_seen_are_printed)
{
    const outcome *o = topo("--xml M/nvidiaDGX2.xml --tp 8");
    CHECK_INT(o->code, 0);
    CHECK_HAS(o->out, "2 packages, 2 NUMA nodes, 4 cores, 4 PUs, 16 GPUs\n");
    CHECK_HAS(o->out, "      GPU 15  0000:e7:00.0  nvml15  Tesla V100-SXM3-32GB-H  GPU-");
    CHECK_HAS(o->out, "  NVLink island 0  GPUs 0-15  150 GB/s a pair\n"
                      "    on the same switches  GPUs 0-7  150 GB/s a pair\n"
                      "    on the same switches  GPUs 8-15  150 GB/s a pair\n");
    CHECK_HAS(o->out, "  links between the 12 NVLink switches: they are taken as one fabric\n");
    CHECK_HAS(o->out, "nothing, in one NVLink island     0,1,2,3,4,5,6,7;8,9,10,11,12,13,14,15\n");
    o = topo("--xml M/power8gpudistances.xml --hosts x:4,y:4 --tp 2 --pp 2");
    CHECK_HAS(o->out, "  NVLink island 1  GPUs 2-3  40 GB/s a pair\n");
    CHECK_HAS(o->out, "  4 of 4 dp groups cross NVLink islands\n  4 of 4 pp groups cross hosts\n");
    CHECK_HAS(o->out, "host sequence  x,x,x,x,y,y,y,y\n");
    o = topo("--xml M/64intel64-3g2n+2n-irregulargroups+pci.xml --on core");
    CHECK_HAS(o->out, "  group 2  (not allowed)\n    package 6  Intel");
    CHECK_HAS(o->out, "placement  16 ranks on 1 host\n");
}

TEST(json_has_the_machine_the_ranks_and_the_groups)
{
    char message[128];
    const outcome *o = topo("--xml M/power8gpudistances.xml --hosts A,B,A,B,A,B,A,B --tp 2 --pp 2 --json");
    CHECK_INT(o->code, 0);
    json *j = json_parse(o->out, message, sizeof message);
    CHECK_MSG(j, "%s", message);
    const json *groups = json_get(j, "groups"), *tp = json_get(json_get(j, "crosses"), "tp");
    CHECK_STR(json_text(json_get(groups, "tp"), ""), "0,2;4,6;1,3;5,7");
    CHECK_STR(json_text(json_get(groups, "dp"), ""), "0,4;2,6;1,5;3,7");
    CHECK_STR(json_text(json_get(groups, "pp"), ""), "0,1;2,3;4,5;6,7");
    CHECK_STR(json_text(json_get(tp, "worst"), ""), "nothing");
    CHECK_INT(json_int(json_get(tp, "in_one_island"), -1), 4);
    CHECK_INT(json_int(json_get(json_get(j, "machine"), "islands"), -1), 2);
    CHECK_INT(json_get(json_at(json_get(json_get(j, "machine"), "links"), 0), "objects")->count, 6);
    const json *rank = json_at(json_get(j, "ranks"), 6);
    CHECK_INT(json_int(json_get(rank, "place"), -1), 3);
    CHECK_INT(json_int(json_get(rank, "gpu"), -1), 3);
    CHECK_STR(json_text(json_get(rank, "host"), ""), "A");
    CHECK_STR(json_text(json_at(json_get(j, "host_sequence"), 3), ""), "A");
    CHECK_STR(json_text(json_at(json_get(j, "host_sequence"), 4), ""), "B");
    json_free(j);
}

TEST(experts_and_context_parallel_ranks_have_groups_of_their_own)
{
    const outcome *o = topo("--synthetic core:16 --tp 2 --cp 2 --ep 4 --pp 2 --etp 1");
    CHECK_INT(o->code, 0);
    CHECK_HAS(o->out, "layout  tp 2  cp 2  dp 2  pp 2  etp 1  ep 4  edp 2  order tp-cp-ep-dp-pp\n");
    CHECK_HAS(o->out, "0,2;1,3;4,6;5,7;8,10;9,11;12,14;13,15\n"); /* cp */
    CHECK_HAS(o->out, "  dp-cp       4     4  ");                 /* what gradients are summed over */
    CHECK_HAS(o->out, "0,1,2,3;4,5,6,7;8,9,10,11;12,13,14,15\n"); /* ep */
    CHECK_HAS(o->out, "0,4;1,5;2,6;3,7;8,12;9,13;10,14;11,15\n"); /* edp, and dp */
}

TEST(hosts_with_more_ranks_than_cores_are_planned_all_the_same)
{
    const outcome *o = topo("--synthetic core:2 --hosts A:3,B --tp 2");
    CHECK_INT(o->code, 0);
    CHECK_STR(o->err, "weft: A has 3 ranks but 2 cores: where they run is not known\n");
    CHECK_HAS(o->out, "      1      1  A     -");
    CHECK_HAS(o->out, "1 of 2 tp groups crosses hosts\n");
}

TEST(a_rejected_file_gives_a_flat_machine_with_a_warning)
{
    const outcome *o = topo("--xml M/rejected.xml");
    CHECK_INT(o->code, 0);
    CHECK_HAS(o->err, "the machine is taken as flat");
    CHECK_HAS(o->out, "rejected.xml: hwloc refused it");
    CHECK_HAS(o->out, "placement  ");
}

TEST(this_host_can_be_shown)
{
    const outcome *o = topo("");
    CHECK_INT(o->code, 0);
    CHECK_HAS(o->out, "machine  ");
    CHECK_HAS(o->out, "host sequence  host0");
}

TEST(bad_input_gets_one_line_and_the_right_code)
{
    check_wrong("--synthetic core:8 --tp 2 --dp 3 --pp 2", 2, "tp 2 * cp 1 * dp 3 * pp 2 = 12, but there are 8 ranks");
    check_wrong("--synthetic core:8 --tp 3", 2,
                "tp 3 * cp 1 * pp 1 = 3 does not divide 8 ranks (one a core; see --hosts)");
    check_wrong("--synthetic core:8 --tp 0", 2, "--tp is '0', not a number from 1");
    check_wrong("--synthetic core:8 --order tp-tp", 2, "order 'tp-tp' has tp twice");
    check_wrong("--synthetic core:8 --order tp-xx", 2, "'xx' is not one of");
    check_wrong("--synthetic nonsense", 2, "'nonsense'");
    check_wrong("--synthetic core:8 --on gpu", 2, "--on gpu: this machine shows no GPU");
    check_wrong("--synthetic core:8 --hosts A,,B", 2, "--hosts has an empty name");
    check_wrong("--synthetic core:8 --hosts ''", 2, "--hosts has an empty name");
    check_wrong("--synthetic core:8 --hosts A:x", 2, "--hosts: 'A:x' does not end in a number");
    check_wrong("--synthetic core:8 --hosts A:9999999999", 2, "does not end in a number from 1 to");
    check_wrong("--xml a --synthetic core:2", 2, "--xml and --synthetic");
    check_wrong("--bogus", 2, "unknown option '--bogus'");
    check_wrong("extra", 2, "topo takes no 'extra'");
    check_wrong("--xml /nowhere.xml", 1, "cannot read machine file '/nowhere.xml'");
}

TEST(help_names_every_option)
{
    const outcome *o = topo("--help");
    CHECK_INT(o->code, 0);
    static const char *const options[] = {"--xml", "--synthetic", "--hosts", "--order", "--tp",     "--cp",
                                          "--ep",  "--dp",        "--pp",    "--etp",   "--strict", "--json"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        CHECK_HAS(o->out, options[i]);
    CHECK_STR(o->err, "");
}
