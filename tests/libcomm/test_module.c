/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of programs are found where weft's own are, and leave the program as it was. */
#include <weft/module.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"

static void *open_sample(const char *folder, char path[4200])
{
    void *symbol = NULL;
    CHECK_MSG(weft_module_open("libsample.so", folder, "sample_answer", &symbol, path, 4200) == WEFT_OK, "%s",
              weft_last_error());
    return symbol;
}

static int answer_of(void *symbol)
{
    int (*answer)(void);
    memcpy(&answer, &symbol, sizeof answer);
    return answer();
}

TEST(a_module_is_found_in_the_path_first_then_in_the_folder)
{
    char path[4200], both[4400];
    const char *folder = getenv("WEFT_TEST_MODULES");
    CHECK(folder);
    CHECK_INT(answer_of(open_sample(folder, path)), 42);
    CHECK_HAS(path, "/libsample.so");
    snprintf(both, sizeof both, "/nowhere::%s", folder);
    setenv("WEFT_MODULE_PATH", both, 1);
    CHECK_INT(answer_of(open_sample("/elsewhere", path)), 42);
    CHECK_INT(strncmp(path, folder, strlen(folder)), 0);
}

TEST(handlers_of_signals_stay_the_programs)
{
    char path[4200];
    struct sigaction action;
    (void)open_sample(getenv("WEFT_TEST_MODULES"), path);
    CHECK_INT(sigaction(SIGUSR1, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
}

TEST(what_cannot_be_opened_is_told)
{
    char path[64] = "x", folder[] = "/tmp/weft-module-XXXXXX", file[128];
    void *symbol;
    CHECK_INT(weft_module_open("libabsent.so", NULL, "sample_answer", &symbol, path, sizeof path), WEFT_E_NOT_FOUND);
    CHECK_STR(weft_last_error(), "there is no libabsent.so in WEFT_MODULE_PATH, or beside weft's library");
    CHECK_STR(path, "");
    CHECK_INT(weft_module_open("libsample.so", getenv("WEFT_TEST_MODULES"), "other", &symbol, NULL, 0),
              WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "libsample.so cannot be loaded: it has no symbol other");
    CHECK_INT(weft_module_open("../libsample.so", NULL, "sample_answer", &symbol, NULL, 0), WEFT_E_INVALID);
    CHECK(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/libbroken.so", folder);
    FILE *stream = fopen(file, "w");
    CHECK(stream);
    fputs("no library", stream);
    fclose(stream);
    CHECK_INT(weft_module_open("libbroken.so", folder, "sample_answer", &symbol, NULL, 0), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "libbroken.so cannot be loaded: ");
    unlink(file);
    rmdir(folder);
}
