/* SPDX-License-Identifier: Apache-2.0 */
/* `weft info`: what it says of this machine, as JSON and as text. */
#include <stdlib.h>
#include <unistd.h>

#include "harness/json.h"
#include "harness/test.h"
#include "spawn.h"

static json *info(const char *option, const char *value)
{
    char message[128];
    spawned r = spawn_weft(NULL, (const char *const[]){"info", "--json", option, value, NULL});
    int code = spawn_finish(&r);
    CHECK_MSG(code == 0, "code %d: %s", code, r.complained.data);
    json *all = json_parse(r.said.data, message, sizeof message);
    CHECK_MSG(all, "%s: %s", message, r.said.data);
    spawn_forget(&r);
    return all;
}

/* The fact whose name holds @p name. */
static const json *fact(const json *all, const char *kind, const char *name)
{
    const json *list = json_get(all, kind);
    for (const json *one = list ? list->first : NULL; one; one = one->next)
        if (strstr(json_text(json_get(one, "name"), ""), name))
            return one;
    FAIL("no %s called %s", kind, name);
}

static const char *value(const json *all, const char *kind, const char *name)
{
    return json_text(json_get(fact(all, kind, name), "value"), NULL);
}

TEST(threads_of_one_process_would_choose_memory)
{
    json *all = info("-n", "3");
    CHECK_STR(value(all, "choices", "0-2"), "local");
    CHECK_STR(value(all, "backends", "local"), "collectives, messages, ordered sums");
    CHECK_STR(value(all, "backends", "self"), "does not serve these ranks");
    CHECK(*value(all, "library", "vectors"));
    CHECK_HAS(value(all, "library", "hot"), " KiB");
    json_free(all);
    all = info(NULL, NULL);
    CHECK_STR(value(all, "choices", "0"), "self");
    json_free(all);
}

TEST(variables_that_are_set_are_told_from_defaults)
{
    setenv("WEFT_TIMEOUT_MS", "1234", 1);
    unsetenv("WEFT_RENDEZVOUS_TIMEOUT_MS");
    json *all = info(NULL, NULL);
    CHECK_STR(value(all, "variables", "WEFT_TIMEOUT_MS"), "1234");
    CHECK(json_bool(json_get(fact(all, "variables", "WEFT_TIMEOUT_MS"), "is_set"), false));
    CHECK_STR(value(all, "variables", "WEFT_RENDEZVOUS_TIMEOUT_MS"), "120000");
    CHECK(!json_bool(json_get(fact(all, "variables", "WEFT_RENDEZVOUS_TIMEOUT_MS"), "is_set"), true));
    json_free(all);
}

TEST(a_mistyped_variable_is_told_of_and_what_it_may_mean)
{
    setenv("WEFT_TIMOUT_MS", "1", 1);
    setenv("WEFT_HOME", "here", 1);
    setenv("WEFT_TEST_ANYTHING", "1", 1);
    json *all = info(NULL, NULL);
    CHECK_STR(value(all, "variables", "WEFT_TIMOUT_MS"), "1");
    CHECK_STR(json_text(json_get(fact(all, "variables", "WEFT_TIMOUT_MS"), "note"), ""),
              "weft reads no such variable: did you mean WEFT_TIMEOUT_MS?");
    CHECK_STR(json_text(json_get(fact(all, "variables", "WEFT_HOME"), "note"), ""), "weft reads no such variable");
    const json *list = json_get(all, "variables");
    for (const json *one = list->first; one; one = one->next)
        CHECK(strcmp(json_text(json_get(one, "name"), ""), "WEFT_TEST_ANYTHING") != 0);
    json_free(all);
    spawned r = spawn_weft(NULL, (const char *const[]){"run", "-n", "2", "--prefix", "none", "--", spawn_command(),
                                                       "perf", "all_reduce", "-b", "8", "-n", "1", NULL});
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_INT(spawn_count(r.complained.data,
                          "WEFT_TIMOUT_MS is set, but weft reads no such variable: did you mean WEFT_TIMEOUT_MS?\n"),
              1);
    CHECK_INT(spawn_count(r.complained.data, "WEFT_HOME is set, but weft reads no such variable\n"), 1);
    CHECK_INT(spawn_count(r.complained.data, "WEFT_TEST_ANYTHING"), 0);
    spawn_forget(&r);
}

TEST(a_module_that_cannot_be_loaded_is_left_out_with_a_reason)
{
    char folder[] = "/tmp/weft-info-XXXXXX", path[64];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libweft-backend-broken.so", folder);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("nothing that could be loaded\n", file) >= 0 && fclose(file) == 0);
    setenv("WEFT_MODULE_PATH", folder, 1);
    json *all = info(NULL, NULL);
    CHECK_STR(value(all, "modules", "broken"), "left out");
    CHECK_HAS(json_text(json_get(fact(all, "modules", "broken"), "note"), ""), "libweft-backend-broken.so");
    json_free(all);
    unlink(path);
    rmdir(folder);
}

TEST(modules_for_gpus_are_told_of_too)
{
    static const char *const names[] = {"libweft-cuda.so", "libweft-gpt-cuda.so"};
    char folder[] = "/tmp/weft-info-XXXXXX", path[64];
    CHECK(mkdtemp(folder));
    setenv("WEFT_MODULE_PATH", folder, 1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "w");
        CHECK(file && fputs("nothing that could be loaded\n", file) >= 0 && fclose(file) == 0);
        json *all = info(NULL, NULL);
        const json *module = fact(all, "modules", names[i]);
        CHECK_STR(json_text(json_get(module, "value"), ""), "left out");
        CHECK_HAS(json_text(json_get(module, "note"), ""), names[i]);
        json_free(all);
        unlink(path);
    }
    rmdir(folder);
}

TEST(a_backend_that_is_not_there_is_no_choice)
{
    setenv("WEFT_BACKEND", "nowhere", 1);
    json *all = info(NULL, NULL);
    CHECK_STR(value(all, "choices", "0"), "none");
    CHECK_HAS(json_text(json_get(fact(all, "choices", "0"), "note"), ""), "there is no backend 'nowhere'");
    json_free(all);
}
