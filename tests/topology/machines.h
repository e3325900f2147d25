/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of topology share: machines from files and descriptions, and what was logged. */
#ifndef WEFT_TESTS_TOPOLOGY_MACHINES_H
#define WEFT_TESTS_TOPOLOGY_MACHINES_H
#include <weft/log.h>
#include <weft/machine.h>

#include "harness/golden.h"
#include "harness/test.h"

/* Messages of at most this level are kept instead of printed. */
static char kept_lines[4096];
static int kept_warnings;

static inline void keep_line(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    kept_warnings += level == WEFT_LOG_WARN;
    size_t used = strlen(kept_lines);
    snprintf(kept_lines + used, sizeof kept_lines - used, "%s\n", line);
}

static inline void keep_log(void)
{
    weft_log_set(WEFT_LOG_WARN, keep_line, NULL);
}

static inline weft_machine *machine_from(const char *xml_name, const char *synthetic)
{
    char name[256], path[4096];
    weft_machine_config config = WEFT_MACHINE_CONFIG_INIT;
    if (xml_name) {
        snprintf(name, sizeof name, "machines/%s", xml_name);
        data_path(name, path, sizeof path);
        config.xml = path;
    }
    config.synthetic = synthetic;
    weft_machine *machine;
    weft_result result = weft_machine_open(&config, &machine);
    if (result == WEFT_E_UNSUPPORTED)
        test_skip("built without hwloc");
    CHECK_OK(result);
    return machine;
}

static inline weft_machine *machine_from_xml(const char *name)
{
    return machine_from(name, NULL);
}

static inline const weft_object *object_of(const weft_machine *machine, weft_object_kind kind, int number)
{
    const weft_object *o = weft_machine_object(machine, weft_machine_find(machine, kind, number));
    CHECK_MSG(o, "there is no %s %d", weft_object_string(kind), number);
    return o;
}

/* The k-th rank gets the k-th GPU, or core where @p on says so, on host @p host. */
static inline weft_location located(const weft_machine *machine, weft_object_kind on, int k, int host)
{
    weft_location location;
    weft_near near;
    int object = on == WEFT_OBJECT_GPU ? weft_machine_find(machine, on, k) : weft_machine_core(machine, k);
    CHECK_MSG(object != WEFT_NONE, "there is no %s %d", weft_object_string(on), k);
    CHECK_OK(weft_machine_near(machine, object, &near));
    CHECK_OK(weft_machine_locate(machine, &near.pus, on == WEFT_OBJECT_GPU ? object : WEFT_NONE, &location));
    location.host = host;
    return location;
}

#endif
