/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps account of the processes of the ranks, and when one fails ends the others: a moment for last words, SIGTERM, a
 * grace, SIGKILL. */
#include "run/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "plural.h"

bool ranks_open(ranks *r, int processes)
{
    r->members = calloc((size_t)processes, sizeof *r->members);
    r->end_ns = RANKS_NEVER;
    return r->members;
}

void ranks_free(ranks *r)
{
    free(r->members);
}

void ranks_add(ranks *r, pid_t group)
{
    r->members[r->count++] = (member){.group = group};
    r->live++;
}

static int64_t after(int64_t now_ns, double seconds)
{
    return now_ns + (int64_t)(seconds * 1e9);
}

static void signal_group(const member *m, int number)
{
    if (m->state != MEMBER_GONE)
        kill(-m->group, number);
}

void ranks_signal(const ranks *r, int number)
{
    for (int i = 0; i < r->count; i++)
        signal_group(&r->members[i], number);
}

static void tell_to_end(ranks *r, member *m, int64_t now_ns)
{
    signal_group(m, SIGTERM);
    signal_group(m, SIGCONT); /* one that is stopped could not hear it */
    m->state = MEMBER_TOLD;
    m->until_ns = after(now_ns, r->grace_s);
}

static void tell_all_to_end(ranks *r, int64_t now_ns)
{
    int told = 0;
    for (int i = 0; i < r->count; i++)
        if (r->members[i].state == MEMBER_RUNS) {
            tell_to_end(r, &r->members[i], now_ns);
            told++;
        }
    if (told > 0 && r->threads)
        output_say(r->output, "ending the program");
    else if (told > 0)
        output_say(r->output, "ending %d rank%s", told, plural(told, "s"));
    r->end_ns = RANKS_NEVER;
}

void ranks_fail(ranks *r, int code, int64_t now_ns)
{
    if (r->code == 0)
        r->code = code;
    r->end_ns = now_ns;
}

static const char *name_of(const ranks *r, int i, char *room, size_t bytes)
{
    if (r->threads)
        return "the program";
    snprintf(room, bytes, "rank %d", i);
    return room;
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void note_failure(ranks *r, int i, int64_t now_ns)
{
    char room[32];
    const char *name = name_of(r, i, room, sizeof room);
    int status = r->members[i].status;
    if (r->code != 0)
        return;
    if (WIFSIGNALED(status))
        output_say(r->output, "%s was killed by signal %d (%s)", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        output_say(r->output, "%s ended with code %d", name, code_of(status));
    r->code = code_of(status);
    r->end_ns = after(now_ns, r->last_words_s);
}

/* Take the status of every child that has ended. Returns the rank to blame, -1 = none: of several that are found ended
 * at once, one that was killed by a signal is rather the cause than one that ended by itself. */
static int wait_for_all(ranks *r)
{
    int status, blamed = -1;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < r->count; i++) {
            member *m = &r->members[i];
            if (m->group != pid || m->ended)
                continue;
            m->ended = true;
            m->status = status;
            if (code_of(status) != 0 &&
                (blamed < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(r->members[blamed].status))))
                blamed = i;
        }
    return blamed;
}

static void set_gone(ranks *r, int i)
{
    r->members[i].state = MEMBER_GONE;
    r->keeper->groups[i] = 0;
    r->live--;
}

static bool is_empty(const member *m)
{
    return kill(-m->group, 0) < 0 && errno == ESRCH;
}

static void see_who_is_gone(ranks *r, int64_t now_ns)
{
    for (int i = 0; i < r->count; i++) {
        member *m = &r->members[i];
        if (!m->ended || m->state == MEMBER_GONE)
            continue;
        if (is_empty(m))
            set_gone(r, i);
        else if (m->state == MEMBER_RUNS)
            tell_to_end(r, m, now_ns); /* what it left behind */
    }
}

/* The launcher adopts orphans, so it hears of the end of every process of a group. */
void ranks_reap(ranks *r, int64_t now_ns)
{
    int blamed = wait_for_all(r);
    if (blamed >= 0)
        note_failure(r, blamed, now_ns);
    see_who_is_gone(r, now_ns);
}

static void insist(ranks *r, int i, int64_t now_ns)
{
    char room[32];
    const char *name = name_of(r, i, room, sizeof room);
    member *m = &r->members[i];
    if (m->ended && is_empty(m)) {
        set_gone(r, i);
        return;
    }
    if (m->state == MEMBER_KILLED) {
        output_say(r->output, "%s does not end: process group %d is left behind", name, (int)m->group);
        set_gone(r, i);
        return;
    }
    if (!m->ended)
        output_say(r->output, "%s still runs %g s after SIGTERM: killing it", name, r->grace_s);
    signal_group(m, SIGKILL);
    m->state = MEMBER_KILLED;
    m->until_ns = after(now_ns, RANKS_UNKILLABLE_S);
}

static bool has_deadline(const member *m)
{
    return m->state == MEMBER_TOLD || m->state == MEMBER_KILLED;
}

void ranks_keep_deadlines(ranks *r, int64_t now_ns)
{
    if (now_ns >= r->end_ns)
        tell_all_to_end(r, now_ns);
    if (r->on_hosts)
        see_who_is_gone(r, now_ns);
    for (int i = 0; i < r->count; i++)
        if (has_deadline(&r->members[i]) && now_ns >= r->members[i].until_ns)
            insist(r, i, now_ns);
}

int64_t ranks_next_deadline(const ranks *r, int64_t now_ns)
{
    int64_t next = r->end_ns;
    for (int i = 0; i < r->count; i++) {
        const member *m = &r->members[i];
        if (has_deadline(m) && m->until_ns < next)
            next = m->until_ns;
        if (r->on_hosts && m->ended && m->state != MEMBER_GONE && after(now_ns, RANKS_LOOK_S) < next)
            next = after(now_ns, RANKS_LOOK_S);
    }
    return next;
}
