/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the hosts in a network namespace of this process, and connects them. */
#include "hosts/bed.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"
#include "hosts/cables.h"
#include "hosts/file.h"
#include "hosts/helper.h"

static bool become_root_of_namespace(uid_t uid, gid_t gid)
{
    char users[32], groups[32];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)uid);
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)gid);
    return file_write("/proc/self/setgroups", "deny") && file_write("/proc/self/uid_map", users) &&
           file_write("/proc/self/gid_map", groups);
}

/* The switch, too, is to be out of sight of the machine. */
static int leave_machine(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return EXIT_DONE;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && become_root_of_namespace(uid, gid))
        return EXIT_DONE;
    return complain(
        EXIT_NOT_PERMITTED,
        "hosts need namespaces, which this machine permits neither to this user nor in a user namespace: %s",
        strerror(errno));
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (n > 0 && strcspn(at, " ") == n && strncmp(at, word, n) == 0)
            return true;
    return false;
}

static int choose_control(bed *b)
{
    char all[256];
    const char *wanted = b->plan->congestion;
    if (!file_read("/proc/sys/net/ipv4/tcp_congestion_control", b->control, sizeof b->control))
        snprintf(b->control, sizeof b->control, "unknown");
    if (!wanted)
        return EXIT_DONE;
    file_read("/proc/sys/net/ipv4/tcp_available_congestion_control", all, sizeof all);
    if (!has_word(all, wanted))
        return complain(EXIT_NOT_PERMITTED, "the kernel has no congestion control '%s' ready, only: %s", wanted, all);
    snprintf(b->control, sizeof b->control, "%s", wanted);
    return EXIT_DONE;
}

int bed_open(bed *b, const bed_plan *plan)
{
    *b = (bed){.plan = plan, .alive = {-1, -1}};
    int code = leave_machine();
    if (code != EXIT_DONE)
        return code;
    if (!helpers_open(b->alive))
        return complain(EXIT_FAILED, "cannot make a pipe: %s", strerror(errno));
    file_write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"); /* the switch says nothing of its own */
    code = choose_control(b);
    for (int i = 0; i < plan->hosts.count && code == EXIT_DONE; i++) {
        code = host_start(&b->hosts[i], i, &plan->hosts, b->alive);
        b->made += code == EXIT_DONE;
    }
    return code == EXIT_DONE ? cables_lay(b) : code;
}

void bed_close(bed *b)
{
    for (int i = 0; i < 2; i++)
        if (b->alive[i] >= 0)
            close(b->alive[i]);
    if (b->switch_pid > 0)
        waitpid(b->switch_pid, NULL, 0);
    for (int i = 0; i < b->made; i++) {
        waitpid(b->hosts[i].pid, NULL, 0); /* the kernel has killed all of the host by then */
        close(b->hosts[i].pidfd);
    }
}
