/* SPDX-License-Identifier: Apache-2.0 */
/* Islands of GPUs found from their links, on real and on made-up machines. */
#include <stdlib.h>

#include "base/memory.h"
#include "machine_build.h"
#include "machines.h"

/* A machine of one package a list of GPUs, for links that no file has. */
typedef struct made_machine {
    weft_machine *machine;
    int gpus[32], count;
    int switches[8];
} made_machine;

static void add_device(weft_machine *m, weft_object_kind kind, int parent, int *object)
{
    CHECK_OK(weft__machine_begin(m, kind, parent, object));
    weft__machine_end(m, *object);
}

static made_machine make_machine(int packages, int gpus_each, int switches)
{
    made_machine made = {.machine = weft__alloc(sizeof *made.machine)};
    weft_machine *m = made.machine;
    int root, package;
    CHECK_OK(weft__machine_begin(m, WEFT_OBJECT_MACHINE, WEFT_NONE, &root));
    for (int p = 0; p < packages; p++) {
        CHECK_OK(weft__machine_begin(m, WEFT_OBJECT_PACKAGE, root, &package));
        for (int g = 0; g < gpus_each; g++)
            add_device(m, WEFT_OBJECT_GPU, package, &made.gpus[made.count++]);
        weft__machine_end(m, package);
    }
    for (int s = 0; s < switches; s++)
        add_device(m, WEFT_OBJECT_SWITCH, root, &made.switches[s]);
    weft__machine_end(m, root);
    m->source = "a test";
    return made;
}

/* Links between GPUs by number, both ways; @p links holds triples (a, b, MB/s). */
static void link_gpus(made_machine *made, const int (*links)[3], int count)
{
    int *objects;
    uint64_t *mb_per_s;
    CHECK_OK(weft__machine_add_links(made->machine, "NVLink", made->count, &objects, &mb_per_s));
    memcpy(objects, made->gpus, (size_t)made->count * sizeof *objects);
    for (int i = 0; i < count; i++) {
        mb_per_s[links[i][0] * made->count + links[i][1]] = (uint64_t)links[i][2];
        mb_per_s[links[i][1] * made->count + links[i][0]] = (uint64_t)links[i][2];
    }
}

static const char *order_of(const weft_machine *m)
{
    static char text[256];
    char *end = text;
    int gpus = weft_machine_count(m, WEFT_OBJECT_GPU);
    for (int place = 0; place < gpus; place++)
        for (int g = 0; g < gpus; g++)
            if (m->gpu_position[g] == place)
                end += sprintf(end, "%s%d", place ? "," : "", g);
    return text;
}

static const char *islands_of(const weft_machine *m)
{
    static char text[256];
    char *end = text;
    for (int g = 0; g < weft_machine_count(m, WEFT_OBJECT_GPU); g++)
        end += sprintf(end, "%s%d", g ? "," : "", object_of(m, WEFT_OBJECT_GPU, g)->island);
    return text;
}

/* By hand from nvidiaDGX2.xml: rows OSDev:802...809 (nvml0...7) have 25000 towards the six switches PCIDev:449, 703,
 * 576, 317, 637, 381 (65, 61, 63, 67, 62, 66:00.0), rows 810...817 (nvml8...15) towards the six others; nothing between
 * GPUs, and nothing between switches. So two GPUs of one half reach each other over six switches at 25000 each. The
 * switches are one fabric: one island of 16, in which the halves are nearer. */
TEST(sixteen_gpus_behind_switches_are_one_island_with_two_halves)
{
    weft_machine *m = machine_from_xml("nvidiaDGX2.xml");
    CHECK_INT(weft_machine_islands(m), 1);
    CHECK_INT(weft_machine_count(m, WEFT_OBJECT_SWITCH), 12);
    for (int a = 0; a < 16; a++)
        for (int b = 0; b < 16; b++)
            CHECK_INT(weft_machine_gpu_mb_per_s(m, a, b), a != b && a / 8 == b / 8 ? 6 * 25000 : 0);
    CHECK_STR(islands_of(m), "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0");
    CHECK_STR(order_of(m), "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
    const weft_links *links = weft_machine_links(m, 0);
    CHECK_STR(links->name, "NVLink");
    CHECK_INT(links->count, 28);
    CHECK_HAS(weft_machine_unseen(m, 0), "links between the 12 NVLink switches");
    CHECK(weft_machine_links(m, 1) == NULL);
    weft_machine_close(m);
}

/* By hand from power8gpudistances.xml: OSDev:332-335 are nvml0...3, Package:3 and :134 the packages. Row 332: 40000 to
 * 333 and to Package:3; row 334: 40000 to 335 and to Package:134. So 0-1 and 2-3. */
TEST(gpus_linked_in_pairs_are_islands_of_two)
{
    weft_machine *m = machine_from_xml("power8gpudistances.xml");
    CHECK_INT(weft_machine_islands(m), 2);
    CHECK_STR(islands_of(m), "0,0,1,1");
    CHECK_INT(weft_machine_gpu_mb_per_s(m, 0, 1), 40000);
    CHECK_INT(weft_machine_gpu_mb_per_s(m, 2, 3), 40000);
    CHECK_INT(weft_machine_gpu_mb_per_s(m, 1, 2), 0);
    CHECK_INT(weft_machine_gpu_mb_per_s(m, 0, 0), 0); /* the file's 1000000 to itself is no link */
    CHECK_STR(order_of(m), "0,1,2,3");
    CHECK_INT(weft_machine_links(m, 0)->count, 6); /* packages are in the matrix too */
    weft_machine_close(m);
}

TEST(gpus_that_links_join_across_packages_sit_side_by_side)
{
    /* Bridges join 0-2 and 1-3, while buses pair 0-1 and 2-3. */
    made_machine made = make_machine(2, 2, 0);
    static const int bridges[][3] = {{0, 2, 50000}, {1, 3, 50000}};
    link_gpus(&made, bridges, 2);
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_STR(islands_of(made.machine), "0,1,0,1");
    CHECK_STR(order_of(made.machine), "0,2,1,3");
    weft_machine_close(made.machine);
}

TEST(a_pair_stays_a_pair_between_gpus_without_links)
{
    /* Only 1 and 2 are linked: 0 and 3 go together, so that groups of two keep the pair. */
    made_machine made = make_machine(1, 4, 0);
    static const int bridge[][3] = {{1, 2, 50000}};
    link_gpus(&made, bridge, 1);
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_STR(islands_of(made.machine), "-1,0,0,-1");
    CHECK_STR(order_of(made.machine), "0,3,1,2");
    weft_machine_close(made.machine);
}

/* Eight V100 as a hybrid cube mesh: every GPU has six links, single or double (25000 each). By hand: double links are
 * 0-3, 0-4, 1-2, 1-5, 2-6, 3-7, 4-7, 5-6. Of these 0-3, 1-2, 4-7, 5-6 stay inside a package (0-3, 4-7). The quads
 * {0,1,2,3} and {4,5,6,7} are complete; {0,3,4,7} is not (0-7 and 3-4 have no link). */
TEST(of_a_cube_mesh_pairs_take_double_links_and_quads_are_complete)
{
    made_machine made = make_machine(2, 4, 0);
    static const int mesh[][3] = {{0, 1, 25000}, {0, 2, 25000}, {0, 3, 50000}, {0, 4, 50000},
                                  {1, 2, 50000}, {1, 3, 25000}, {1, 5, 50000}, {2, 3, 25000},
                                  {2, 6, 50000}, {3, 7, 50000}, {4, 5, 25000}, {4, 6, 25000},
                                  {4, 7, 50000}, {5, 6, 50000}, {5, 7, 25000}, {6, 7, 25000}};
    link_gpus(&made, mesh, 16);
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_INT(weft_machine_islands(made.machine), 1);
    CHECK_STR(order_of(made.machine), "0,3,1,2,4,7,5,6");
    weft_machine_close(made.machine);
}

TEST(a_group_in_which_all_are_linked_is_better_than_fast_links_of_some)
{
    /* Pairs 0-1, 2-3, 4-5. Of 0, 1 with 2, 3 every pair is linked; with 4, 5 two are, more than twice as fast. */
    made_machine made = make_machine(1, 6, 0);
    static const int links[][3] = {{0, 1, 100000}, {2, 3, 100000}, {4, 5, 100000}, {0, 2, 25000}, {0, 3, 25000},
                                   {1, 2, 25000},  {1, 3, 25000},  {0, 4, 60000},  {1, 5, 60000}};
    link_gpus(&made, links, 9);
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_STR(order_of(made.machine), "0,1,2,3,4,5");
    weft_machine_close(made.machine);
}

TEST(gpus_on_one_switch_reach_each_other_at_the_slower_of_their_links)
{
    made_machine made = make_machine(1, 3, 1);
    int *objects;
    uint64_t *mb_per_s;
    CHECK_OK(weft__machine_add_links(made.machine, "NVLink", 4, &objects, &mb_per_s));
    for (int i = 0; i < 3; i++) {
        objects[i] = made.gpus[i];
        mb_per_s[i * 4 + 3] = mb_per_s[3 * 4 + i] = (uint64_t[]){50000, 25000, 0}[i];
    }
    objects[3] = made.switches[0];
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_INT(weft_machine_gpu_mb_per_s(made.machine, 0, 1), 25000);
    CHECK_INT(weft_machine_gpu_mb_per_s(made.machine, 1, 0), 25000);
    CHECK_STR(islands_of(made.machine), "0,0,-1");
    weft_machine_close(made.machine);
}

TEST(without_links_the_order_is_that_of_the_tree)
{
    made_machine made = make_machine(3, 3, 0);
    CHECK_OK(weft__machine_finish(made.machine));
    CHECK_INT(weft_machine_islands(made.machine), 0);
    CHECK_STR(order_of(made.machine), "0,1,2,3,4,5,6,7,8");
    weft_machine_close(made.machine);
}
