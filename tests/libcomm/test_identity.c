/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares a host and memory: across namespaces, where these may be made, and on made-up ranks. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/world.h>

#include "bootstrap/identity.h"
#include "harness/test.h"

static weft__identity find_self(const char *host_id)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    weft__identity identity;
    config.host_id = host_id;
    CHECK_OK(weft__identity_find(0, 2, &config, &identity));
    return identity;
}

TEST(a_process_shares_memory_with_its_child)
{
    weft__identity own = find_self(NULL);
    CHECK_STR(own.host, own.machine);
    pid_t child = fork();
    if (child == 0) {
        CHECK_STR(find_self(NULL).machine, own.machine);
        exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

TEST(a_host_id_changes_the_placement_alone)
{
    weft__identity own = find_self(NULL), named = find_self("elsewhere");
    CHECK_STR(named.host, "elsewhere");
    CHECK_STR(named.machine, own.machine);
}

static int cores_of(const weft__identity *identity)
{
    int cores = 0;
    for (size_t i = 0; i < sizeof identity->cpus / sizeof *identity->cpus; i++)
        cores += __builtin_popcountll(identity->cpus[i]);
    return cores;
}

/* Ends without looking for leaks, which does not work there. */
static void in_namespace(int flag, const weft__identity *own)
{
    if (unshare(flag) != 0) {
        test_note("cannot make namespace %#x here: %s", (unsigned)flag, strerror(errno));
        _exit(0);
    }
    if (flag == CLONE_NEWPID) { /* holds for children */
        pid_t child = fork();
        int status = 0;
        if (child > 0) {
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            _exit(0);
        }
    }
    weft__identity there = find_self(NULL);
    CHECK(strcmp(there.machine, own->machine) != 0);
    CHECK(strcmp(there.host, own->host) != 0);
    const weft__identity both[] = {*own, there};
    CHECK(weft__identity_crowded(both, 2, own->machine) == (cores_of(own) < 2));
    _exit(0);
}

TEST(memory_is_not_shared_across_namespaces)
{
    static const int flags[] = {CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUSER};
    weft__identity own = find_self(NULL);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            in_namespace(flags[i], &own);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static weft__identity made_up(const char *machine, unsigned cpus)
{
    weft__identity i = {.cpus = {cpus}};
    snprintf(i.machine, sizeof i.machine, "%s", machine);
    return i;
}

TEST(containers_of_one_machine_crowd_its_cores)
{
    const weft__identity all[] = {made_up("m/1", 3), made_up("m/2", 3), made_up("m/2", 3), made_up("m2/1", 1)};
    CHECK(weft__identity_crowded(all, 4, "m/1"));
    CHECK(!weft__identity_crowded(all, 2, "m/1"));
    CHECK(!weft__identity_crowded(all, 4, "m2/1"));
}
