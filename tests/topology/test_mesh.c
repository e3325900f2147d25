/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates of places for sizes and orders, and what is refused. */
#include <limits.h>
#include <stdlib.h>

#include <weft/log.h>
#include <weft/mesh.h>

#include "base/memory.h"
#include "grid.h"
#include "harness/test.h"

static void quiet(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

static weft_mesh *mesh_of(int places, weft_mesh_config config)
{
    weft_mesh *mesh;
    CHECK_OK(weft_mesh_create(places, &config, &mesh));
    return mesh;
}

static weft_mesh_config sizes(int tp, int cp, int dp, int pp)
{
    weft_mesh_config c = WEFT_MESH_CONFIG_INIT;
    c.tp = tp, c.cp = cp, c.dp = dp, c.pp = pp;
    return c;
}

static void check_refused(int places, weft_mesh_config config, const char *said)
{
    weft_mesh *mesh = (weft_mesh *)&config;
    CHECK_RESULT(weft_mesh_create(places, &config, &mesh), WEFT_E_INVALID);
    CHECK(mesh == NULL);
    CHECK_HAS(weft_last_error(), said);
}

TEST(a_mesh_without_a_config_is_data_parallel_alone)
{
    weft_mesh *mesh;
    CHECK_OK(weft_mesh_create(6, NULL, &mesh));
    CHECK_INT(weft_mesh_places(mesh), 6);
    CHECK_INT(weft_mesh_size(mesh, WEFT_AXIS_DP), 6);
    CHECK_INT(weft_mesh_size(mesh, WEFT_AXIS_TP), 1);
    CHECK_INT(weft_mesh_groups(mesh, WEFT_AXIS_TP), 6);
    CHECK_INT(weft_mesh_size(mesh, WEFT_AXIS_EDP), 6);
    CHECK_STR(weft_mesh_order(mesh), "tp-cp-ep-dp-pp");
    weft_mesh_destroy(mesh);
    weft_mesh_destroy(NULL);
}

TEST(the_product_is_printed_where_it_does_not_match)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    check_refused(8, sizes(2, 1, 3, 2), "tp 2 * cp 1 * dp 3 * pp 2 = 12, but there are 8 ranks");
    check_refused(8, sizes(3, 1, WEFT_MESH_REST, 1), "tp 3 * cp 1 * pp 1 = 3 does not divide 8 ranks");
    check_refused(8, sizes(16, 1, WEFT_MESH_REST, 1), "= 16 does not divide 8 ranks");
    weft_mesh_config c = sizes(2, 1, WEFT_MESH_REST, 1);
    c.ep = 3;
    check_refused(8, c, "etp 2 * ep 3 * pp 1 = 6 does not divide 8 ranks");
    check_refused(8, sizes(INT_MAX, INT_MAX, INT_MAX, INT_MAX), "but there are 8 ranks");
    check_refused(8, sizes(INT_MAX, INT_MAX, WEFT_MESH_REST, INT_MAX), "does not divide 8 ranks");
}

TEST(a_size_below_one_is_named)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    check_refused(8, sizes(0, 1, 1, 1), "tp is 0");
    check_refused(8, sizes(1, -1, 1, 1), "cp is -1");
    check_refused(8, sizes(1, 1, 0, 1), "dp is 0");
    check_refused(8, sizes(1, 1, -2, 1), "dp is -2");
    check_refused(8, sizes(1, 1, 1, -1), "pp is -1");
    weft_mesh_config c = sizes(1, 1, WEFT_MESH_REST, 1);
    c.ep = 0;
    check_refused(8, c, "ep is 0");
    c.ep = 1, c.etp = 0;
    check_refused(8, c, "etp is 0");
    check_refused(0, sizes(1, 1, 1, 1), "0 places");
    c.etp = 1, c.flags = 4;
    check_refused(8, c, "flags");
}

static void check_order(const char *order, const char *said)
{
    weft_mesh_config c = sizes(2, 1, 2, 2);
    c.order = order;
    check_refused(8, c, said);
}

TEST(orders_that_are_none_are_refused)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    check_order("tp-tp-dp-pp", "order 'tp-tp-dp-pp' has tp twice");
    check_order("tp-dp-pp-TP", "has tp twice");
    check_order("tp-xx-pp", "'xx' is not one of tp, cp, ep, dp, pp");
    check_order("tp_dp_pp", "'tp_dp_pp' is not one of");
    check_order("tpdp-pp", "'tpdp' is not one of");
    check_order("", "'' is not one of");
    check_order("tp--pp", "'' is not one of");
    check_order("tp-dp-pp-", "'' is not one of");
    check_order("tp-dp", "order 'tp-dp' lacks pp, but pp is 2");
    weft_mesh_config c = sizes(2, 1, 1, 1);
    c.etp = 1, c.order = "tp-pp";
    check_refused(2, c, "lacks dp, but edp is 2");
}

/* With pp before dp, stages are tp * cp ranks apart; those of experts etp * ep. */
TEST(experts_must_have_the_pipelines_of_the_rest)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    weft_mesh_config c = sizes(2, 2, WEFT_MESH_REST, 2);
    c.order = "tp-cp-ep-pp-dp";
    check_refused(8, c, "stages would be 4 ranks apart, but 2 for experts");
    c.ep = 2; /* etp * ep = tp * cp */
    weft_mesh_destroy(mesh_of(8, c));
    c.cp = 1;
    check_refused(8, c, "stages would be 2 ranks apart, but 4 for experts");
    c.order = "tp-cp-ep-dp-pp";
    weft_mesh_destroy(mesh_of(8, c));
}

TEST(axes_are_read_and_written)
{
    weft_axes axes;
    char text[WEFT_AXES_TEXT_MAX + 1];
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    CHECK_OK(weft_axes_parse("dp-cp", &axes));
    CHECK_INT(axes, WEFT_AXIS_DP | WEFT_AXIS_CP);
    CHECK_STR(weft_axes_text(axes, text), "dp-cp");
    CHECK_OK(weft_axes_parse("etp-ep-edp-pp", &axes));
    CHECK_INT(axes, WEFT_AXIS_ETP | WEFT_AXIS_EP | WEFT_AXIS_EDP | WEFT_AXIS_PP);
    CHECK_STR(weft_axes_text(127, text), "tp-dp-cp-etp-ep-edp-pp");
    CHECK_INT(strlen(text), WEFT_AXES_TEXT_MAX);
    CHECK_STR(weft_axes_text(0, text), "");
    CHECK_RESULT(weft_axes_parse("TP", &axes), WEFT_E_INVALID);
    CHECK_RESULT(weft_axes_parse("", &axes), WEFT_E_INVALID);
    CHECK_RESULT(weft_axes_parse("tp-", &axes), WEFT_E_INVALID);
    CHECK_RESULT(weft_axes_parse("tp-tp", &axes), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "axes 'tp-tp' have tp twice");
    CHECK_INT(axes, WEFT_AXIS_ETP | WEFT_AXIS_EP | WEFT_AXIS_EDP | WEFT_AXIS_PP); /* untouched */
}

TEST(axes_of_two_grids_make_no_group)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    weft_mesh *mesh = mesh_of(8, sizes(2, 1, 2, 2));
    static const weft_axes wrong[] = {0, WEFT_AXIS_TP | WEFT_AXIS_EP, WEFT_AXIS_EDP | WEFT_AXIS_DP, 128, 129};
    int index = 77, place[8];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_INT(weft_mesh_size(mesh, wrong[i]), 0);
        CHECK_INT(weft_mesh_groups(mesh, wrong[i]), 0);
        CHECK_RESULT(weft_mesh_group(mesh, wrong[i], 0, place), WEFT_E_INVALID);
        CHECK_RESULT(weft_mesh_group_of(mesh, wrong[i], 0, &index, NULL), WEFT_E_INVALID);
    }
    CHECK_RESULT(weft_mesh_group(mesh, WEFT_AXIS_TP, 4, place), WEFT_E_RANGE);
    CHECK_RESULT(weft_mesh_group(mesh, WEFT_AXIS_TP, -1, place), WEFT_E_RANGE);
    CHECK_RESULT(weft_mesh_group_of(mesh, WEFT_AXIS_TP, 8, &index, NULL), WEFT_E_RANGE);
    CHECK_RESULT(weft_mesh_group_of(mesh, WEFT_AXIS_TP, -1, &index, NULL), WEFT_E_RANGE);
    CHECK_INT(index, 77);
    weft_mesh_destroy(mesh);
}

/* tp2 cp1 dp2 pp2 in the default order: place 5 = tp 1 + 2 * dp 0 + 4 * pp 1. */
TEST(places_and_coordinates_are_inverse)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    weft_mesh *mesh = mesh_of(8, sizes(2, 1, 2, 2));
    weft_coordinates c;
    int place;
    CHECK_OK(weft_mesh_coordinates(mesh, 5, &c));
    CHECK(c.tp == 1 && c.cp == 0 && c.dp == 0 && c.pp == 1 && c.etp == 1 && c.ep == 0 && c.edp == 0);
    for (int p = 0; p < 8; p++) {
        CHECK_OK(weft_mesh_coordinates(mesh, p, &c));
        CHECK_OK(weft_mesh_place(mesh, &c, &place));
        CHECK_INT(place, p);
    }
    CHECK_RESULT(weft_mesh_coordinates(mesh, 8, &c), WEFT_E_RANGE);
    c = (weft_coordinates){.tp = 2};
    CHECK_RESULT(weft_mesh_place(mesh, &c, &place), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "no coordinate 2 in tp, whose size is 2");
    weft_mesh_destroy(mesh);
}

/* Groups along any axes split the places: each is in exactly one, in rising order, and two members differ in these
 * axes alone. Over every order of five axes. */
static void check_partition(const weft_mesh *mesh, weft_axes axes)
{
    int seen[64] = {0}, members[64], size = weft_mesh_size(mesh, axes), index, member;
    for (int g = 0; g < weft_mesh_groups(mesh, axes); g++) {
        CHECK_OK(weft_mesh_group(mesh, axes, g, members));
        for (int i = 0; i < size; i++) {
            weft_coordinates a, b;
            CHECK_INT(seen[members[i]]++, 0);
            CHECK(i == 0 || members[i] > members[i - 1]);
            CHECK_OK(weft_mesh_group_of(mesh, axes, members[i], &index, &member));
            CHECK(index == g && member == i);
            CHECK_OK(weft_mesh_coordinates(mesh, members[0], &a));
            CHECK_OK(weft_mesh_coordinates(mesh, members[i], &b));
            CHECK(axes & WEFT_AXIS_TP || a.tp == b.tp);
            CHECK(axes & WEFT_AXIS_CP || a.cp == b.cp);
            CHECK(axes & WEFT_AXIS_DP || a.dp == b.dp);
            CHECK(axes & WEFT_AXIS_PP || a.pp == b.pp);
        }
    }
    for (int p = 0; p < weft_mesh_places(mesh); p++)
        CHECK_INT(seen[p], 1);
}

static int permutation(int number, char *order)
{
    int left[WEFT__DIMS] = {0, 1, 2, 3, 4};
    *order = 0;
    for (int n = WEFT__DIMS; n > 0; n--) {
        int pick = number % n;
        number /= n;
        strcat(strcat(order, *order ? "-" : ""), weft__dim_names[left[pick]]);
        memmove(left + pick, left + pick + 1, (size_t)(n - pick - 1) * sizeof *left);
    }
    return number == 0;
}

TEST(groups_along_any_axes_split_the_places_in_every_order)
{
    char order[32];
    for (int n = 0; permutation(n, order); n++) {
        weft_mesh_config c = sizes(2, 1, 3, 2);
        c.order = order;
        weft_mesh *mesh = mesh_of(12, c);
        CHECK_STR(weft_mesh_order(mesh), order);
        for (weft_axes axes = 1; axes < 16; axes++)
            check_partition(mesh, axes);
        weft_mesh_destroy(mesh);
    }
    weft_mesh *mesh = mesh_of(48, sizes(2, 4, 3, 2));
    for (weft_axes axes = 1; axes < 16; axes++)
        check_partition(mesh, axes);
    weft_mesh_destroy(mesh);
}

TEST(a_grid_of_more_places_than_an_int_is_refused)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    weft__grid grid;
    const int big[WEFT__DIMS] = {1 << 16, 1 << 15, 1, 1, 1}, both[WEFT__DIMS] = {1, 1, 1, 2, 2};
    CHECK_RESULT(weft__grid_make(NULL, big, weft__dim_names, &grid), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "more than 2147483647 places");
    CHECK_RESULT(weft__grid_make(NULL, both, weft__dim_names, &grid), WEFT_E_INVALID);
}

TEST(a_mesh_without_memory_is_none)
{
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    weft_mesh *mesh;
    weft__alloc_fail_at(1);
    CHECK_RESULT(weft_mesh_create(4, NULL, &mesh), WEFT_E_NO_MEMORY);
    CHECK(mesh == NULL);
}
