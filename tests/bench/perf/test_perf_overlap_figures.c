/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft perf overlap` makes of its options and of times, against values worked out by hand. */
#include "complain.h"
#include "harness/test.h"
#include "option.h"
#include "perf/overlap/figures.h"
#include "perf/overlap/options.h"

static overlap_shape shape;

/* ------------------------------------------------------------------------------------------- shapes */

static void check_bytes(const size_t *bytes, size_t count)
{
    size_t total = 0;
    CHECK_INT(shape.count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_INT(overlap_shape_bytes(&shape, i), bytes[i]);
        total += bytes[i];
    }
    CHECK_INT(overlap_shape_total(&shape), total);
}

TEST(even_buckets_differ_by_an_element_at_most)
{
    CHECK(overlap_shape_even(&shape, 40, 3));
    check_bytes((size_t[]){16, 12, 12}, 3);
    CHECK(overlap_shape_even(&shape, 43, 1)); /* what is no whole element is left out */
    check_bytes((size_t[]){40}, 1);
    CHECK(!overlap_shape_even(&shape, 8, 3));
    CHECK(!overlap_shape_even(&shape, 8, 0));
}

TEST(a_list_says_each_bucket)
{
    CHECK_INT(overlap_shape_read(&shape, "2K,4,1M"), OPTIONS_GO);
    check_bytes((size_t[]){2048, 4, 1 << 20}, 3);
}

static overlap_options options;

static int read_words(char **words, int count)
{
    char *argv[8] = {(char[]){"overlap"}};
    for (int i = 0; i < count; i++)
        argv[i + 1] = words[i];
    return overlap_options_read(&options, count + 1, argv);
}
#define READ(...) read_words((char *[]){__VA_ARGS__}, sizeof((char *[]){__VA_ARGS__}) / sizeof(char *))

TEST(a_sweep_goes_through_sizes_that_make_other_numbers_of_buckets)
{
    CHECK_INT(READ("--sweep", "--bytes=1000", "-b", "125", "-e", "1000"), OPTIONS_GO);
    CHECK_INT(overlap_options_most(&options), 8);
    const size_t counts[] = {8, 4, 2, 1};
    bool more = overlap_options_first(&options, &shape);
    for (size_t i = 0; i < 4; i++, more = overlap_options_next(&options, &shape)) {
        CHECK(more);
        CHECK_INT(shape.count, counts[i]);
        CHECK_INT(overlap_shape_total(&shape), 1000);
    }
    CHECK(!more);
}

TEST(without_a_sweep_there_is_one_shape)
{
    CHECK_INT(READ("--bytes=64K", "--buckets=4", "--compute=timed:7.5"), OPTIONS_GO);
    CHECK_INT(options.kernel, OVERLAP_TIMED);
    CHECK_NEAR(options.compute_ms, 7.5, 0);
    CHECK(overlap_options_first(&options, &shape));
    CHECK_INT(shape.count, 4);
    CHECK(!overlap_options_next(&options, &shape));
}

/* ------------------------------------------------------------------------------------------- figures */

static overlap_phase backward, forward, one;

static weft_result nothing(overlap_subject *s, size_t piece)
{
    (void)s, (void)piece;
    return WEFT_OK;
}

static void make_phases(void)
{
    backward.after = nothing;
    forward.before = nothing;
}

/* Four pieces of 10 ms each, and operations of 30, 1, 1, 1 ms. */
static const double ended[] = {10, 20, 30, 40}, costs[] = {30, 1, 1, 1};

static overlap_measured measured(void)
{
    overlap_measured m = {.ended = ended, .costs = costs, .pieces = 4};
    const double times[OVERLAP_WAYS][OVERLAP_TIMES] = {
        [OVERLAP_COMPUTING] =
            {[OVERLAP_TOTAL] = 40, [OVERLAP_PIECES] = 40, [OVERLAP_USER] = 40, [OVERLAP_SLOWEST] = 40},
        [OVERLAP_COMMUNICATING] =
            {[OVERLAP_TOTAL] = 33, [OVERLAP_USER] = 5, [OVERLAP_SYSTEM] = 4, [OVERLAP_SLOWEST] = 33},
        [OVERLAP_BOTH] = {[OVERLAP_TOTAL] = 47,
                          [OVERLAP_PIECES] = 42,
                          [OVERLAP_HIDDEN] = 30,
                          [OVERLAP_EXPOSED] = 3,
                          [OVERLAP_SKEW] = 1,
                          [OVERLAP_TRANSFER] = 2.5,
                          [OVERLAP_UNCOVERED] = 0.25,
                          [OVERLAP_IDLE] = 0.5,
                          [OVERLAP_USER] = 42,
                          [OVERLAP_SYSTEM] = 3,
                          [OVERLAP_ENGINE] = 2,
                          [OVERLAP_SOFTIRQ] = 1,
                          [OVERLAP_SLOWEST] = 48},
        [OVERLAP_SERIAL] = {[OVERLAP_SLOWEST] = 73},
    };
    memcpy(m.times, times, sizeof times);
    return m;
}

TEST(the_parts_add_up_to_what_both_took_longer)
{
    overlap_figures f = {0};
    overlap_measured m = measured();
    make_phases();
    overlap_figures_make(&f, &backward, &m);
    CHECK_NEAR(f.exposed_clock, 8, 1e-12);
    CHECK_NEAR(f.exposed_trace, 3, 1e-12);
    CHECK_NEAR(f.longer, 2, 1e-12);
    CHECK_NEAR(f.idle, 0.5, 1e-12);
    CHECK_NEAR(f.calls, 47 - 42 - 3 - 0.5, 1e-12);
    CHECK_NEAR(f.others, 1, 1e-12); /* another rank ended 1 ms later */
    CHECK_NEAR(f.hidden_trace, 30.0 / 33, 1e-12);
    CHECK_NEAR(f.hidden_clock, 25.0 / 33, 1e-12);
    CHECK_NEAR(f.eta, 25.0 / 33, 1e-12);
    CHECK_NEAR(f.cpu_alone, 9, 1e-12);
    CHECK_NEAR(f.cpu_both, 5, 1e-12);
    CHECK_NEAR(f.system_both, 3, 1e-12);
    CHECK_NEAR(f.engine_both, 2, 1e-12);
    CHECK_NEAR(f.largest, 30, 1e-12);
    CHECK_NEAR(f.skew, 1, 1e-12); /* of what is exposed, so no part by itself */
    CHECK_NEAR(f.transfer, 2.5, 1e-12);
    CHECK_NEAR(f.hidden_transfer, 0.75, 1e-12);
}

TEST(the_least_is_that_of_the_phase)
{
    overlap_figures f = {0};
    overlap_measured m = measured();
    make_phases();
    overlap_figures_make(&f, &backward, &m);
    CHECK_NEAR(f.closed, 3, 1e-12);             /* reduced at 40, 41, 42, 43 */
    CHECK_NEAR(f.closed_even, 33.0 / 4, 1e-12); /* more than 33 - 30 */
    overlap_figures_make(&f, &forward, &m);
    CHECK_NEAR(f.closed, 30, 1e-12); /* gathered at 30, then nothing is waited for */
    m.pieces = 1;
    overlap_figures_make(&f, &one, &m);
    CHECK_NEAR(f.closed, 20, 1e-12);     /* an operation of 30 beside 10 */
    CHECK_NEAR(f.closed_even, 0, 1e-12); /* one of 33 beside 40 */
}

TEST(why_is_said_only_where_the_figures_are_apart_and_names_the_largest_parts)
{
    char why[1024] = "";
    overlap_figures f = {.communicating = 100, .exposed_clock = 14.9, .exposed_trace = 10, .longer = 4.9};
    CHECK(!overlap_figures_why(&f, why, sizeof why));
    f.exposed_clock = 15.1;
    f.longer = 3, f.calls = 2.1;
    CHECK(overlap_figures_why(&f, why, sizeof why));
    CHECK_HAS(why, "sees 5.10 ms more than the trace: 3.00 ms are computing that took longer");
    CHECK_HAS(why, "memory; 2.10 ms are in weft's calls"); /* more than a fourth */
    CHECK(!strstr(why, "processor time"));                 /* not measured */
    f.cpu_both = 4, f.system_both = 3, f.engine_both = 2.5;
    CHECK(overlap_figures_why(&f, why, sizeof why));
    CHECK_HAS(why, "took 4.00 ms of processor time a rank, 3.00 ms of it in the kernel, 2.50 ms of it in weft's own");
    f.engine_both = (double)NAN;
    CHECK(overlap_figures_why(&f, why, sizeof why));
    CHECK(!strstr(why, "own thread"));
    f.calls = 3.1, f.longer = 2;
    CHECK(overlap_figures_why(&f, why, sizeof why));
    CHECK_HAS(why, "3.10 ms are in weft's calls");
    f.exposed_clock = 0, f.longer = -9, f.calls = 0, f.others = -1;
    CHECK(overlap_figures_why(&f, why, sizeof why));
    CHECK_HAS(why, "sees 10.00 ms less than the trace: -9.00 ms are computing");
    CHECK(overlap_figures_why(&f, why, 20)); /* cut, and no further */
    CHECK_INT(strlen(why), 19);
}
