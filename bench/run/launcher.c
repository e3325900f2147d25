/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks and serves them until the last has ended: one thread, which waits in one poll for signals, input,
 * output and deadlines. */
#include "run/launcher.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "plural.h"
#include "run/input.h"
#include "run/output.h"
#include "run/ranks.h"
#include "run/start.h"

enum { POLL_SIGNALS, POLL_INPUT, POLL_OUTPUT };

#define FILES_OF_OURS 64
#define FLUSH_S       1 /* for output that still waits when all ranks have ended after the time limit */

typedef struct launcher {
    const launch_config *config;
    int processes; /* one a rank, or one for all */
    start_plan plan;
    cores cores;
    signals signals;
    keeper keeper;
    input input;
    output output;
    ranks ranks;
    struct pollfd *polls;
    int64_t timeout_ns; /* the time limit of the run */
    int64_t flush_ns;   /* output that nobody has taken by then is given up */
} launcher;

static int64_t ns_of(double seconds)
{
    return (int64_t)(seconds * 1e9);
}

static int cannot(const char *what)
{
    return complain(EXIT_FAILED, "cannot %s: %s", what, strerror(errno));
}

/* Every rank takes two descriptors here; the ranks themselves keep the limit they would have had. */
static void allow_files(launcher *l)
{
    rlim_t need = 2 * (rlim_t)l->processes + FILES_OF_OURS;
    getrlimit(RLIMIT_NOFILE, &l->plan.files);
    struct rlimit more = l->plan.files;
    if (more.rlim_cur >= need)
        return;
    more.rlim_cur = need < more.rlim_max ? need : more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
}

/* An abstract socket: nothing is left behind, and no other run takes the same name. */
static bool name_rendezvous(char *name, size_t bytes)
{
    unsigned char secret[16];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return false;
    int used = snprintf(name, bytes, "unix://@weft-%u-", (unsigned)geteuid());
    for (size_t i = 0; i < sizeof secret; i++)
        used += snprintf(name + used, bytes - (size_t)used, "%02x", secret[i]);
    return true;
}

static int plan_cores(launcher *l)
{
    const launch_config *c = l->config;
    l->plan.share = c->bind == LAUNCH_BIND_SHARE;
    if (c->bind == LAUNCH_BIND_NONE || (l->plan.share && c->threads)) /* whose one process may use them all */
        return EXIT_DONE;
    if (!cores_of_process(&l->cores))
        return cannot("read which cores may be used");
    bool enough = c->ranks <= l->cores.count;
    l->plan.cores = enough || !l->plan.share ? &l->cores : NULL;
    if (!enough && !l->plan.share)
        complain(0, "%d ranks share %d core%s", c->ranks, l->cores.count, plural((size_t)l->cores.count, "s"));
    return EXIT_DONE;
}

static int plan(launcher *l)
{
    const launch_config *c = l->config;
    l->plan.command = c->command;
    l->plan.ranks = c->ranks;
    l->plan.threads = c->threads;
    l->plan.signals = &l->signals;
    l->plan.keeper = &l->keeper;
    l->plan.hosts = c->hosts;
    allow_files(l);
    if (c->hosts)
        snprintf(l->plan.rendezvous, sizeof l->plan.rendezvous, "%s", c->hosts->rendezvous);
    else if (!name_rendezvous(l->plan.rendezvous, sizeof l->plan.rendezvous))
        return cannot("get random bytes");
    return plan_cores(l);
}

static int open_all(launcher *l)
{
    const launch_config *c = l->config;
    int processes = l->processes;
    l->polls = calloc(2 * (size_t)processes + POLL_OUTPUT + 2, sizeof *l->polls);
    l->ranks = (ranks){.threads = c->threads,
                       .on_hosts = c->hosts,
                       .last_words_s = c->last_words_s,
                       .grace_s = c->grace_s,
                       .output = &l->output,
                       .keeper = &l->keeper};
    if (!keeper_start(&l->keeper, processes)) /* first: it keeps what is open now */
        return cannot("start a process");
    if (!output_open(&l->output, processes) || !ranks_open(&l->ranks, processes) || !l->polls)
        return complain(EXIT_FAILED, "no memory for %d ranks", processes);
    if (!input_open(&l->input))
        return cannot("make a pipe");
    if (!signals_take(&l->signals) || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return cannot("take over signals");
    return EXIT_DONE;
}

static void close_all(launcher *l)
{
    if (l->keeper.pid > 0)
        keeper_stop(&l->keeper);
    input_close(&l->input);
    output_free(&l->output);
    ranks_free(&l->ranks);
    free(l->polls);
}

static void start_all(launcher *l)
{
    bool prefix = l->config->prefix == LAUNCH_PREFIX_RANK && !l->config->threads;
    int code = EXIT_DONE;
    for (int i = 0; i < l->processes && code == EXIT_DONE; i++) {
        started process;
        code = start_rank(&l->plan, i, i == 0 ? l->input.rank_end : -1, &process);
        if (i == 0)
            input_started(&l->input);
        if (code != EXIT_DONE)
            break;
        ranks_add(&l->ranks, process.pid);
        if (!output_add(&l->output, process.output, prefix ? i : -1))
            code = complain(EXIT_FAILED, "no memory for rank %d", i);
    }
    if (code != EXIT_DONE)
        ranks_fail(&l->ranks, code, clock_ns());
}

static void forward(launcher *l, int number, int64_t now)
{
    bool asks_to_end = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    ranks_signal(&l->ranks, number);
    if (number == SIGTSTP)
        raise(SIGSTOP); /* ranks first, then the launcher */
    if (asks_to_end && l->ranks.live == 0) {
        ranks_fail(&l->ranks, 128 + number, now);
        l->flush_ns = now;
    }
}

static void take_signals(launcher *l, int64_t now)
{
    for (int number; (number = signals_next(&l->signals)) != 0;)
        if (number == SIGCHLD)
            ranks_reap(&l->ranks, now);
        else
            forward(l, number, now);
}

static void keep_time_limit(launcher *l, int64_t now)
{
    if (now < l->timeout_ns)
        return;
    if (l->ranks.code == 0)
        output_say(&l->output, "the time limit of %g s has passed", l->config->timeout_s);
    ranks_fail(&l->ranks, EXIT_DEADLINE, now);
    l->timeout_ns = RANKS_NEVER;
    l->flush_ns = now + ns_of(l->config->grace_s + FLUSH_S);
}

static int poll_ms(const launcher *l, int64_t now)
{
    int64_t flush_ns = l->ranks.live == 0 ? l->flush_ns : RANKS_NEVER;
    int64_t away_ns = l->input.to >= 0 && l->input.away_until_ns > now ? l->input.away_until_ns : RANKS_NEVER;
    const int64_t deadlines[] = {ranks_next_deadline(&l->ranks, now), l->timeout_ns, flush_ns, away_ns};
    int64_t next = RANKS_NEVER;
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++)
        next = deadlines[i] < next ? deadlines[i] : next;
    if (next == RANKS_NEVER)
        return -1;
    int64_t ms = next > now ? (next - now + 999999) / 1000000 : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Wait for something, and deal with all that has come. */
static void turn(launcher *l)
{
    struct pollfd *polls = l->polls;
    int64_t now = clock_ns();
    polls[POLL_SIGNALS] = (struct pollfd){.fd = l->signals.fd, .events = POLLIN};
    polls[POLL_INPUT] = input_poll(&l->input, now);
    int count = POLL_OUTPUT + output_poll(&l->output, &polls[POLL_OUTPUT]);
    bool last = l->ranks.live == 0;
    if (poll(polls, (nfds_t)count, last && output_wants(&l->output) ? 0 : poll_ms(l, now)) < 0)
        for (int i = 0; i < count; i++)
            polls[i].revents = 0;
    now = clock_ns();
    if (polls[POLL_SIGNALS].revents)
        take_signals(l, now);
    if (polls[POLL_INPUT].revents)
        input_pass(&l->input, now);
    keep_time_limit(l, now);
    ranks_keep_deadlines(&l->ranks, now);
    output_turn(&l->output, &polls[POLL_OUTPUT], last);
    if (output_lost(&l->output) && l->ranks.code == 0)
        ranks_fail(&l->ranks, EXIT_FAILED, now);
}

static void turn_until_done(launcher *l)
{
    while (l->ranks.live > 0 || (output_pending(&l->output) && clock_ns() < l->flush_ns))
        turn(l);
}

int launch(const launch_config *config)
{
    static launcher l;
    l = (launcher){.config = config, .processes = config->threads ? 1 : config->ranks, .input = {-1, -1}};
    l.timeout_ns = config->timeout_s > 0 ? clock_ns() + ns_of(config->timeout_s) : RANKS_NEVER;
    l.flush_ns = RANKS_NEVER;
    int code = plan(&l);
    if (code == EXIT_DONE)
        code = open_all(&l);
    if (code == EXIT_DONE) {
        start_all(&l);
        turn_until_done(&l);
        output_end(&l.output);
        turn_until_done(&l);
        code = l.ranks.code;
    }
    close_all(&l);
    return code;
}
