/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that register themselves. A file of tests is a program: TEST(name) { ... CHECK(...) ... }. Each test runs in
 * a process of its own with a time limit, so a crash or a hang fails one test and names it. Output is TAP.
 *
 *     prog            all tests         prog name ...   only these        prog --list     their names
 *     prog --inline name   one test in this process, for a debugger */
#ifndef WEFT_TESTS_HARNESS_TEST_H
#define WEFT_TESTS_HARNESS_TEST_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef NDEBUG
#error "tests are built without NDEBUG"
#endif

typedef struct test_case {
    const char *name, *file;
    void (*run)(void);
    unsigned limit_s; /* 0 = 60 */
    struct test_case *next;
} test_case;

void test_register(test_case *test);

#define TEST_LIMIT(id, seconds)                                                 \
    static void test_body_##id(void);                                           \
    __attribute__((constructor)) static void test_enter_##id(void)              \
    {                                                                           \
        static test_case test = {#id, __FILE__, test_body_##id, seconds, NULL}; \
        test_register(&test);                                                   \
    }                                                                           \
    static void test_body_##id(void)
#define TEST(id) TEST_LIMIT(id, 0)

/* End the test: failed with a message, or skipped with a reason. Safe in any thread and in ranks. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Is this a build in which everything takes many times as long (WEFT_TEST_SLOWDOWN > 1)? Then try a part of what is
 * many alike: a sanitizer looks for faults in code, not for rare values. */
bool test_is_slow(void);
/* A line of comment in the output. */
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                      \
    do {                                      \
        if (!(condition))                     \
            FAIL("not true: %s", #condition); \
    } while (0)
#define CHECK_MSG(condition, ...) \
    do {                          \
        if (!(condition))         \
            FAIL(__VA_ARGS__);    \
    } while (0)
#define CHECK_INT(got, want)                                          \
    do {                                                              \
        long long got_ = (long long)(got), want_ = (long long)(want); \
        if (got_ != want_)                                            \
            FAIL("%s is %lld, not %lld", #got, got_, want_);          \
    } while (0)
#define CHECK_STR(got, want)                                                   \
    do {                                                                       \
        const char *got_ = (got), *want_ = (want);                             \
        if (!got_ || strcmp(got_, want_) != 0)                                 \
            FAIL("%s is '%s', not '%s'", #got, got_ ? got_ : "(null)", want_); \
    } while (0)
/* The text holds the part: for messages. */
#define CHECK_HAS(text, part)                                                \
    do {                                                                     \
        const char *text_ = (text), *part_ = (part);                         \
        if (!text_ || !strstr(text_, part_))                                 \
            FAIL("'%s' does not say '%s'", text_ ? text_ : "(null)", part_); \
    } while (0)
#define CHECK_NEAR(got, want, tolerance)                                                      \
    do {                                                                                      \
        double got_ = (double)(got), want_ = (double)(want);                                  \
        if (!(fabs(got_ - want_) <= (double)(tolerance)))                                     \
            FAIL("%s is %.17g, not %.17g within %g", #got, got_, want_, (double)(tolerance)); \
    } while (0)
/* The call returned this result; otherwise the message tells what weft had to say. */
#define CHECK_RESULT(call, want)                                                                   \
    do {                                                                                           \
        weft_result result_ = (call);                                                              \
        if (result_ != (want))                                                                     \
            FAIL("%s gave %s (%s), not %s", #call, weft_result_string(result_), weft_last_error(), \
                 weft_result_string(want));                                                        \
    } while (0)
#define CHECK_OK(call) CHECK_RESULT(call, WEFT_OK)

#endif
