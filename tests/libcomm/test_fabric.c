/* SPDX-License-Identifier: Apache-2.0 */
/* Whether UCX goes before sockets hangs on one text of it: what it says of fabrics is found, and nothing else is taken
 * for one. */
#include "backend/ucx/fabric.h"
#include "harness/test.h"

/* As UCX 1.13 prints it, but for the names behind the last dashes. */
#define INFO(a, b, c)                                         \
    "#\n# UCP context\n#\n#     component 4  :  ib\n"         \
    "#            md 4  :  component 4  rc_mlx5/mlx5_0 \n#\n" \
    "#      resource 0  :  md 0  dev 0  flags -- " a "\n"     \
    "#      resource 1  :  md 1  dev 1  flags -- " b "\n"     \
    "#      resource 12  :  md 4  dev 2  flags -- " c "\n#\n" \
    "# memory: 1.41MB, file descriptors: 5\n# create time: 2.067 ms\n"

static const struct {
    const char *info, *name;
} cases[] = {
    {INFO("self/memory0", "tcp/eth0", "rc_mlx5/mlx5_0:1"), "rc_mlx5/mlx5_0:1"},
    {INFO("self/memory0", "dc_mlx5/mlx5_1:1", "rc_verbs/mlx5_0:1"), "dc_mlx5/mlx5_1:1"},
    {INFO("ud_verbs/mlx4_0:2", "tcp/lo", "cma/memory"), "ud_verbs/mlx4_0:2"},
    {INFO("self/memory0", "ugni_rdma/GNI_0", "cma/memory"), "ugni_rdma/GNI_0"},
    {INFO("self/memory0", "tcp/lo", "srd/rdmap0s6:1  "), "srd/rdmap0s6:1"},
    {INFO("self/memory0", "tcp/lo", "cma/memory"), ""},
    /* A device may be called anything, and a component or memory domain is no transport. */
    {INFO("self/memory0", "tcp/rc_0", "tcp/ud_ srd"), ""},
    {INFO("self/memory0", "tcp/ugni_", "posix/memory"), ""},
    {"# tcp rc_mlx5/mlx5_0:1\n", ""},
    {"#      resource 0  :  md 0  dev 0  flags -- rc_mlx5", ""},
    {"#      resource 0  :  md 0  dev 0  flags -- rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_0:1"},
    {"#      resource 0  :  ", ""},
    {"resource ", ""},
    {"\n\n\n", ""},
    {"", ""},
};

TEST(a_fabric_is_a_transport_that_is_one)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        bool found = weft__ucx_fabric_in(cases[i].info, name, sizeof name);
        CHECK_STR(name, cases[i].name);
        CHECK_INT(found, cases[i].name[0] != 0);
    }
}

TEST(a_long_name_is_cut)
{
    char name[8];
    CHECK(weft__ucx_fabric_in(cases[0].info, name, sizeof name));
    CHECK_STR(name, "rc_mlx5");
}
