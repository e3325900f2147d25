/* SPDX-License-Identifier: Apache-2.0 */
/* What all code uses: failures, names, environment, memory, clock. */
#include <stdlib.h>

#include <weft/collective.h>
#include <weft/dtype.h>
#include <weft/version.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "harness/test.h"

static char logged[600];

static void keep(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(a_failure_keeps_its_message_and_logs_it)
{
    weft_log_set(WEFT_LOG_ERROR, keep, NULL);
    CHECK_INT(weft__fail(WEFT_E_RANGE, "rank %d of %d", 9, 4), WEFT_E_RANGE);
    CHECK_STR(weft_last_error(), "rank 9 of 4");
    CHECK_STR(logged, ""); /* its caller is told */
    CHECK_INT(weft__fail(WEFT_E_PEER_LOST, "rank 9 has ended"), WEFT_E_PEER_LOST);
    CHECK_STR(logged, "rank 9 has ended (E_PEER_LOST)");
    weft_log_set(WEFT_LOG_DEBUG, keep, NULL);
    CHECK_INT(weft__fail(WEFT_E_BUSY, "later"), WEFT_E_BUSY);
    CHECK_STR(logged, "later (E_BUSY)");
}

TEST(every_result_has_a_name)
{
    const int results[] = {0, 1, 2, -1, -2, -3, -4, -5, -6, -7, -20, -21, -22, -23, -24, -40, -41, -42, -43, -44, -60};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        CHECK_MSG(strcmp(weft_result_string((weft_result)results[i]), "?") != 0, "result %d has no name", results[i]);
    CHECK_STR(weft_result_string((weft_result)-99), "?");
}

TEST(the_environment_is_read_and_checked)
{
    weft__env env;
    weft_log_set(WEFT_LOG_ERROR, keep, NULL);
    setenv("WEFT_RANK", "3", 1);
    setenv("WEFT_TIMEOUT_MS", "250", 1);
    setenv("WEFT_BACKEND", "", 1);
    CHECK_OK(weft__env_read(&env));
    CHECK_INT(env.rank, 3);
    CHECK_INT(env.size, -1);
    CHECK_INT(env.timeout_ms, 250);
    CHECK(env.backend == NULL);
    setenv("WEFT_RANK", "3x", 1);
    CHECK_RESULT(weft__env_read(&env), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "WEFT_RANK is '3x'");
    setenv("WEFT_RANK", "0", 1);
    setenv("WEFT_LOG", "loud", 1);
    CHECK_RESULT(weft__env_read(&env), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "WEFT_LOG is 'loud'");
}

TEST(memory_that_runs_out_says_how_much_was_wanted)
{
    weft_log_set(WEFT_LOG_ERROR, keep, NULL);
    weft__alloc_fail_at(2);
    void *first = weft__alloc(10);
    CHECK(first && (uintptr_t)first % WEFT__LINE == 0);
    CHECK(weft__alloc(1234) == NULL);
    CHECK_STR(weft_last_error(), "no memory for 1234 bytes");
    free(first);
    CHECK(weft__alloc(SIZE_MAX - 8) == NULL);
}

TEST(ticks_run_at_the_measured_rate)
{
    uint64_t ns0 = weft__now_ns(), ticks0 = weft__ticks();
    while (weft__now_ns() - ns0 < 20000000)
        ;
    double ns = (double)(weft__ticks() - ticks0) * weft__ns_per_tick();
    CHECK_MSG(ns > 15e6, "20 ms are %g ns of ticks", ns);
}

TEST(dtypes_have_names_and_sizes)
{
    CHECK_INT(weft_dtype_bytes(WEFT_FP32), 4);
    CHECK_INT(weft_dtype_bytes(WEFT_BF16), 2);
    CHECK_INT(weft_dtype_bytes(WEFT_FP64), 8);
    CHECK_INT(weft_dtype_bytes((weft_dtype)99), 0);
    CHECK_STR(weft_dtype_string(WEFT_UINT8), "uint8");
    CHECK_STR(weft_reduction_string(WEFT_AVERAGE), "average");
    CHECK_STR(weft_collective_string(WEFT_ALL_TO_ALL), "all_to_all");
    CHECK_STR(weft_collective_string((weft_collective_kind)7), "?");
    CHECK_STR(weft_version_string(), "0.1.0");
    CHECK_INT(weft_version(), WEFT_VERSION_NUMBER);
}
