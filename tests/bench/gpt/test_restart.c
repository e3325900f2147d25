/* SPDX-License-Identifier: Apache-2.0 */
/* The command starts itself again, once, when the BLAS does not know the processor. */
#include <stdlib.h>

#include "../spawn.h"
#include "harness/test.h"
#include "training.h"

static const char *better_core(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    test_skip("no processor that a BLAS of 2004 would be slow on");
}

static void set_old_blas(const char *starts)
{
    const char *library = getenv("WEFT_TEST_OLD_BLAS");
    CHECK_MSG(library, "WEFT_TEST_OLD_BLAS does not say where the library is");
    setenv("LD_PRELOAD", library, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("OLD_BLAS_STARTS", starts, 1);
    unsetenv("OPENBLAS_CORETYPE");
}

static void check_starts(const char *path, const char *want)
{
    char text[256] = "";
    FILE *file = fopen(path, "r");
    CHECK(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    CHECK_STR(text, want);
}

TEST(the_command_starts_again_once_with_its_arguments_and_environment)
{
    char want[64], starts[96];
    snprintf(want, sizeof want, "none\n%s\n", better_core());
    snprintf(starts, sizeof starts, "%s", training_file("starts"));
    set_old_blas(starts);
    setenv("WEFT_TIMEOUT_MS", "soon", 1); /* refused where it is read, so it has arrived there */
    spawned r = spawn_weft(NULL, (const char *const[]){"gpt", "--train-iters", "1", NULL});
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "weft: WEFT_TIMEOUT_MS is 'soon'");
    check_starts(starts, want);
    spawn_forget(&r);
}

TEST(a_kernel_that_was_chosen_is_left_alone)
{
    char starts[96];
    (void)better_core();
    snprintf(starts, sizeof starts, "%s", training_file("starts"));
    set_old_blas(starts);
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    spawned r = spawn_weft(NULL, (const char *const[]){"gpt", "--no-such-thing", NULL});
    CHECK_INT(spawn_finish(&r), 2);
    CHECK_HAS(r.complained.data, "weft: unknown option '--no-such-thing'");
    check_starts(starts, "Nehalem\n");
    spawn_forget(&r);
}

TEST(ranks_start_again_under_their_launcher)
{
    char starts[96], want[64];
    const char *better = better_core();
    snprintf(starts, sizeof starts, "%s", training_file("starts"));
    set_old_blas(starts);
    /* The launcher loads the library too. */
    spawned r = spawn_weft(NULL, (const char *const[]){"run", "-n", "1", "--", spawn_command(), "gpt", "--hidden-size",
                                                       "64", "--train-iters", "two", NULL});
    CHECK_INT(spawn_finish(&r), 2);
    CHECK_HAS(r.complained.data, "[0] weft: --train-iters is 'two'");
    snprintf(want, sizeof want, "none\nnone\n%s\n", better);
    check_starts(starts, want);
    spawn_forget(&r);
}
