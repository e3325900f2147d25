/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf conform`: what is planned, what values it wants, and how it is used. That it finds mistakes is tested
 * where backends with mistakes are built: tests/package/test_backend.py. */
#include <stdlib.h>

#include "harness/test.h"
#include "perf/conform/plan.h"
#include "perf/conform/values.h"
#include "spawn.h"

/* ------------------------------------------------------------------------------------------- the plan */

enum { RANKS = 8, COUNTS = 5, SUMS = 3 * (4 * 5 + 3 * 4), MOVES = 3 * 7 }; /* no average of integers */

static conform_case *plan(bool full, size_t *count)
{
    conform_settings settings = {.full = full, .ranks = RANKS};
    conform_case *cases = conform_plan(&settings, RANKS, count);
    CHECK(cases);
    return cases;
}

TEST(the_whole_plan_has_every_combination_once)
{
    size_t count;
    conform_case *cases = plan(true, &count);
    CHECK_INT(count, (SUMS + MOVES) * COUNTS * 2 * RANKS + RANKS); /* a barrier has nothing but ranks */
    for (size_t i = 1; i < count; i++)
        CHECK_MSG(memcmp(&cases[i - 1], &cases[i], CONFORM_MATRIX_AXES) < 0, "case %zu comes twice", i);
    free(cases);
}

static int pairs_with(const conform_case *cases, size_t count, int a, int value_a, int b, int value_b)
{
    int met = 0;
    for (size_t i = 0; i < count; i++)
        met += cases[i].of[a] == value_a && cases[i].of[b] == value_b;
    return met;
}

TEST(every_pair_of_properties_meets_in_few_cases)
{
    static const struct {
        int axis, values;
    } always[] = {{CONFORM_RANKS, RANKS}, {CONFORM_DTYPE, 7}, {CONFORM_COUNT, COUNTS}, {CONFORM_PLACE, 2},
                  {CONFORM_MEMORY, 2},    {CONFORM_SHIFT, 2}, {CONFORM_HOW, 3},        {CONFORM_KIND, 6}};
    size_t count;
    conform_case *cases = plan(false, &count);
    CHECK_MSG(count < 200, "%zu cases", count);
    for (size_t a = 0; a < sizeof always / sizeof *always; a++)
        for (size_t b = 0; b < a; b++)
            for (int i = 0; i < always[a].values; i++)
                for (int j = 0; j < always[b].values; j++)
                    CHECK_MSG(pairs_with(cases, count, always[a].axis, i, always[b].axis, j) > 0,
                              "property %d as %d never meets %d as %d", always[a].axis, i, always[b].axis, j);
    for (int dtype = 0; dtype < 7; dtype++)
        for (int reduction = 1; reduction < 5; reduction++)
            CHECK((pairs_with(cases, count, CONFORM_DTYPE, dtype, CONFORM_REDUCTION, reduction) > 0) ==
                  !(reduction == WEFT_AVERAGE && dtype >= WEFT_INT32));
    for (int root = 1; root < 3; root++)
        CHECK(pairs_with(cases, count, CONFORM_KIND, WEFT_REDUCE, CONFORM_ROOT, root) > 0);
    free(cases);
}

TEST(a_case_names_all_its_parameters)
{
    char text[160];
    conform_case it = {{[CONFORM_RANKS] = 4,
                        [CONFORM_KIND] = WEFT_REDUCE,
                        [CONFORM_DTYPE] = WEFT_BF16,
                        [CONFORM_REDUCTION] = WEFT_AVERAGE,
                        [CONFORM_COUNT] = 3,
                        [CONFORM_PLACE] = 1,
                        [CONFORM_SHIFT] = 1,
                        [CONFORM_ROOT] = 2,
                        [CONFORM_HOW] = CONFORM_BEHIND}};
    conform_describe(&it, text, sizeof text);
    CHECK_STR(text, "reduce of 4097 bf16, average, root 4, in place, memory of malloc, from element 1, "
                    "started behind another, 5 ranks");
}

/* ------------------------------------------------------------------------------------------- values */

/* How many of the first elements of a sum are like those of the sum in another order of ranks. */
TEST(results_are_those_of_rank_order_and_the_order_shows)
{
    conform_values v = {.seed = 5, .dtype = WEFT_FP32, .reduces = true, .ranks = 4, .group = 4, .ordered = true};
    int differ = 0;
    for (size_t i = 0; i < 1000; i++) {
        float x[4], forward = 0, backward = 0, by_hosts = 0;
        for (int r = 0; r < 4; r++) {
            uint32_t bits = (uint32_t)conform_value(&v, r, i);
            memcpy(&x[r], &bits, sizeof bits);
        }
        forward = ((x[0] + x[1]) + x[2]) + x[3];
        backward = ((x[3] + x[2]) + x[1]) + x[0];
        by_hosts = (x[0] + x[1]) + (x[2] + x[3]);
        uint32_t bits;
        perf_element want;
        memcpy(&bits, &forward, sizeof bits);
        CHECK(conform_is_right(&v, i, bits, &want));
        memcpy(&bits, &backward, sizeof bits);
        differ += !conform_is_right(&v, i, bits, &want);
        v.ordered = false;
        CHECK(conform_is_right(&v, i, bits, &want));
        float far = backward + 1e-5f * (fabsf(x[0]) + fabsf(x[1]) + fabsf(x[2]) + fabsf(x[3]));
        memcpy(&bits, &far, sizeof bits);
        CHECK(!conform_is_right(&v, i, bits, &want)); /* but not anything */
        v.ordered = true;
        v.group = 2;
        memcpy(&bits, &by_hosts, sizeof bits);
        CHECK(conform_is_right(&v, i, bits, &want));
        v.group = 4;
    }
    CHECK_MSG(differ > 300, "in another order %d of 1000 differ", differ);
}

static void result_of_equal(weft_dtype dtype, weft_reduction reduction, int ranks)
{
    conform_values v = {
        .seed = 9, .dtype = dtype, .reduces = true, .reduction = reduction, .ranks = ranks, .group = ranks};
    perf_element want;
    for (size_t i = 0; i < 100; i++) {
        perf_element value = conform_value(&v, 0, i);
        CHECK(conform_is_right(&v, i, value, &want));
        CHECK(want == value);
    }
}

TEST(of_one_rank_every_reduction_is_the_value_itself)
{
    for (int dtype = 0; dtype < 7; dtype++)
        for (int reduction = 0; reduction < 5; reduction++)
            if (reduction != WEFT_MIN && reduction != WEFT_MAX) /* NaN has many bits */
                result_of_equal((weft_dtype)dtype, (weft_reduction)reduction, 1);
}

/* ------------------------------------------------------------------------------------------- the command */

static void use(const char *const *arguments, int code, const char *said, const char *complained)
{
    spawned r = spawn_weft(NULL, arguments);
    CHECK_INT(spawn_finish(&r), code);
    CHECK_HAS(r.said.data ? r.said.data : "", said);
    CHECK_HAS(r.complained.data ? r.complained.data : "", complained);
    spawn_forget(&r);
}

TEST(ranks_are_threads_and_processes_or_those_of_the_launcher)
{
    use((const char *[]){"perf", "conform", "--largest", "1", "--ranks", "2", "--only", "sums", NULL}, 0,
        "backend local, processes: 0 cases, 0 failed\n", "");
    use((const char *[]){"run", "-n", "3", "--threads", "--", spawn_command(), "perf", "conform", "--only",
                         "average: 1", NULL},
        0, "backend local, threads: 1 cases, 0 failed\n", "");
    use((const char *[]){"run", "-n", "3", "--prefix", "none", "--", spawn_command(), "perf", "conform", "--only",
                         "average: 1", NULL},
        0, "backend local, processes: 1 cases, 0 failed\n", "");
}

/* N of the last line: "backend local, threads: N cases, 0 failed". */
static long cases_of_part(const char *part)
{
    spawned r = spawn_weft(NULL, (const char *[]){"perf", "conform", "--in", "threads", "--ranks", "2", "--largest",
                                                  "1", "--part", part, NULL});
    CHECK_INT(spawn_finish(&r), 0);
    const char *at = strstr(r.said.data, "threads: ");
    CHECK(at);
    long cases = strtol(at + strlen("threads: "), NULL, 10);
    spawn_forget(&r);
    return cases;
}

TEST(parts_of_a_run_make_up_the_whole)
{
    long all = cases_of_part("1/1"), sum = 0;
    for (int part = 1; part <= 3; part++) {
        char text[8];
        snprintf(text, sizeof text, "%d/3", part);
        long cases = cases_of_part(text);
        CHECK(cases == all / 3 || cases == all / 3 + 1);
        sum += cases;
    }
    CHECK_INT(sum, all);
    use((const char *[]){"perf", "conform", "--in", "processes", "--ranks", "3", "--only", "average: 1", "--part",
                         "2/2", NULL},
        0, "backend local, processes: 0 cases, 0 failed\n", "");
    static const char *const wrong[] = {
        "0/3", "4/3", "1", "1/", "+1/2", "1/2x", "01/2", "1/0", "99999999999/99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char complaint[80];
        snprintf(complaint, sizeof complaint, "weft: --part is '%s', not K/N with K from 1 to N", wrong[i]);
        use((const char *[]){"perf", "conform", "--part", wrong[i], NULL}, 2, "", complaint);
    }
}

TEST(what_cannot_be_run_is_a_failure_and_what_makes_no_sense_wrong_usage)
{
    use((const char *[]){"perf", "conform", "--backend", "nosuch", "--in", "threads", NULL}, 1, "",
        "weft: nosuch, threads: there is no backend 'nosuch'; there are: self, local");
    use((const char *[]){"perf", "conform", "--ranks", "65", NULL}, 2, "", "ranks");
    use((const char *[]){"perf", "conform", "local", NULL}, 2, "", "'local' is one word too many");
}
