/* SPDX-License-Identifier: Apache-2.0 */
/* What all code uses: failures, names, environment, memory, clock. */
#include <stdlib.h>
#include <unistd.h>

#include <weft/backend.h>
#include <weft/collective.h>
#include <weft/dtype.h>
#include <weft/version.h>

#include "base/clock.h"
#include "base/collectives.h"
#include "base/dtype.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/sized.h"
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

TEST(a_backend_writes_to_the_log_in_lines_that_are_cut)
{
    weft_log_set(WEFT_LOG_INFO, keep, NULL);
    weft_backend_log(WEFT_LOG_DEBUG, "nobody wants this");
    CHECK_STR(logged, "");
    weft_backend_log(WEFT_LOG_INFO, "%s %d", "some library", 7);
    CHECK_STR(logged, "some library 7");
    weft_backend_log(WEFT_LOG_WARN, "%*s", 5000, "x");
    CHECK(strlen(logged) > 400 && strlen(logged) < sizeof logged - 1);
}

/* As docs/environment.md has it. */
TEST(a_line_on_stderr_says_when_and_where)
{
    int ends[2], saved = dup(STDERR_FILENO);
    char text[800], host[64] = "", said_host[64], level[8], rest[64] = "";
    double seconds[2];
    CHECK_INT(gethostname(host, sizeof host - 1), 0);
    host[strcspn(host, ".")] = 0;
    weft_log_set(WEFT_LOG_INFO, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(pipe(ends), 0);
        dup2(ends[1], STDERR_FILENO);
        weft_backend_log(i ? WEFT_LOG_INFO : WEFT_LOG_WARN, "so %d", i);
        dup2(saved, STDERR_FILENO);
        close(ends[1]);
        ssize_t bytes = read(ends[0], text, sizeof text - 1);
        CHECK(bytes > 0);
        close(ends[0]);
        text[bytes] = 0;
        CHECK_INT(sscanf(text, "weft %7s %lf %63[^:]: %63[^\n]", level, &seconds[i], said_host, rest), 4);
        CHECK_STR(level, i ? "info" : "warn");
        CHECK_STR(said_host, host);
        CHECK_STR(rest, i ? "so 1" : "so 0");
        CHECK(strchr(text, '\n') == text + bytes - 1);
    }
    CHECK(seconds[0] >= 0 && seconds[1] >= seconds[0] && seconds[1] < 60);
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
    setenv("WEFT_RANK", "-99999999999999999999", 1);
    CHECK_RESULT(weft__env_read(&env), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "not a whole number of 0 or more");
    static const char *const too_large[] = {"2147483648", "99999999999999999999"};
    for (int i = 0; i < 2; i++) {
        setenv("WEFT_RANK", too_large[i], 1);
        CHECK_RESULT(weft__env_read(&env), WEFT_E_INVALID);
        CHECK_HAS(weft_last_error(), too_large[i]);
        CHECK_HAS(weft_last_error(), "more than 2147483647");
    }
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
    CHECK_STR(weft_collective_string((weft_collective_kind)WEFT_COLLECTIVE_KINDS), "?");
    CHECK_STR(weft_collective_string((weft_collective_kind)-1), "?");
    CHECK_STR(weft_dtype_string((weft_dtype)WEFT_DTYPES), "?");
    CHECK_STR(weft_reduction_string((weft_reduction)WEFT_REDUCTIONS), "?");
    CHECK_STR(weft_version_string(), "0.1.0");
    CHECK_INT(weft_version(), WEFT_VERSION_NUMBER);
}

TEST(only_floating_types_have_averages)
{
    static const weft_dtype floating[] = {WEFT_FP32, WEFT_BF16, WEFT_FP16, WEFT_FP64};
    int found = 0;
    for (int t = 0; t < WEFT_DTYPES; t++) {
        bool is = false;
        for (size_t i = 0; i < sizeof floating / sizeof *floating; i++)
            is = is || floating[i] == (weft_dtype)t;
        found += is;
        CHECK_MSG(weft__dtypes[t].name && weft__dtypes[t].bytes, "dtype %d has no row", t);
        CHECK_INT(weft__is_floating((weft_dtype)t), is);
        CHECK_INT(weft__is_within_fp32((weft_dtype)t), is && t != WEFT_FP64);
        for (int r = 0; r < WEFT_REDUCTIONS; r++)
            CHECK_INT(weft__can_reduce((weft_dtype)t, (weft_reduction)r), is || r != WEFT_AVERAGE);
    }
    CHECK_INT(found, sizeof floating / sizeof *floating);
    CHECK(!weft__is_floating((weft_dtype)WEFT_DTYPES) && !weft__is_floating((weft_dtype)-1));
}

TEST(every_collective_has_a_row_that_makes_sense)
{
    for (int k = 0; k < WEFT_COLLECTIVE_KINDS; k++) {
        const weft__collective_row *row = &weft__collectives[k];
        CHECK_MSG(row->name, "collective %d has no row", k);
        CHECK_MSG((row->send == WEFT__NO_PART) == (row->senders == WEFT__NOBODY), "%s: who sends what?", row->name);
        CHECK_MSG((row->recv == WEFT__NO_PART) == (row->receivers == WEFT__NOBODY), "%s: who gets what?", row->name);
        CHECK_MSG(!row->reduces || row->senders == WEFT__EVERYBODY, "%s: of what is it a sum?", row->name);
        for (int other = 0; other < k; other++)
            CHECK(strcmp(row->name, weft__collectives[other].name) != 0);
    }
    CHECK_INT(weft__most_parts(&weft__collectives[WEFT_ALL_GATHER], 5), 5);
    CHECK_INT(weft__most_parts(&weft__collectives[WEFT_BROADCAST], 5), 1);
    CHECK_INT(weft__most_parts(&weft__collectives[WEFT_BARRIER], 5), 0);
}

/* ------------------------------------------------------------------------------------------- sized structs */

typedef struct old_config {
    size_t size;
    int a;
    int b;
} old_config;

typedef struct new_config {
    size_t size;
    int a;
    int b;
    uint64_t c;
} new_config;

TEST(a_struct_of_an_older_caller_leaves_defaults_behind_its_end)
{
    new_config own = {.b = 7, .c = 9};
    const new_config given = {.size = offsetof(new_config, b), .a = 1, .b = 2, .c = 3};
    CHECK_OK(weft__take_sized(&own, sizeof own, &given, "weft_thing"));
    CHECK(own.size == sizeof own && own.a == 1 && own.b == 7 && own.c == 9);
    own = (new_config){.a = 5};
    CHECK_OK(weft__take_sized(&own, sizeof own, NULL, "weft_thing"));
    CHECK(own.size == sizeof own && own.a == 5);
}

TEST(a_struct_of_a_newer_caller_may_use_no_field_that_is_not_known)
{
    weft_log_set(WEFT_LOG_ERROR, keep, NULL);
    old_config own = {0};
    new_config given = {.size = sizeof given, .a = 1, .b = 2};
    CHECK_OK(weft__take_sized(&own, sizeof own, &given, "weft_thing"));
    CHECK(own.size == sizeof own && own.a == 1 && own.b == 2);
    given.a = 8;
    given.c = (uint64_t)1 << 63;
    CHECK_RESULT(weft__take_sized(&own, sizeof own, &given, "weft_thing"), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "weft_thing.size is 24, here 16: a field that is not known here is set");
    CHECK_INT(own.a, 1);
}

TEST(a_size_that_was_never_set_is_refused)
{
    weft_log_set(WEFT_LOG_ERROR, keep, NULL);
    old_config own = {0};
    static const size_t sizes[] = {0, 7, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        old_config given = {.size = sizes[i]};
        CHECK_RESULT(weft__take_sized(&own, sizeof own, &given, "weft_thing"), WEFT_E_INVALID);
        CHECK_HAS(weft_last_error(), "weft_thing.size is");
        CHECK_RESULT(weft__give_sized(&given, &own, sizeof own, "weft_thing"), WEFT_E_INVALID);
    }
}

TEST(an_answer_fills_what_the_caller_has)
{
    const old_config own = {sizeof own, 3, 4};
    old_config old = {.size = offsetof(old_config, b), .a = 1, .b = 2};
    CHECK_OK(weft__give_sized(&old, &own, sizeof own, "weft_thing"));
    CHECK(old.size == offsetof(old_config, b) && old.a == 3 && old.b == 2);
    new_config new = {.size = sizeof new, .c = 5};
    CHECK_OK(weft__give_sized(&new, &own, sizeof own, "weft_thing"));
    CHECK(new.size == sizeof new &&new.a == 3 && new.b == 4 && new.c == 0);
}
