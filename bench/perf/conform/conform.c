/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf conform`: runs a backend through everything that its contract promises, in threads and in processes. */
#include "perf/conform/conform.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"
#include "option.h"

extern char **environ;

enum { IN_ALL, IN_THREADS, IN_PROCESSES, IN_WORLD };

#define FIELD(name) offsetof(conform_settings, name)
static const option table[] = {
    {"backend", OPTION_TEXT, FIELD(backend), 0, 0, "NAME", "the backend (local); chosen: weft's choice for each comm"},
    {"full", OPTION_FLAG, FIELD(full), 0, 0, NULL, "every combination (else every pair of properties meets)"},
    {"ranks", OPTION_INT, FIELD(ranks), 1, CONFORM_RANKS_MOST, "N", "most ranks (8)"},
    {"in", OPTION_CHOICE, FIELD(in), 0, 0, "all|threads|processes|world",
     "what ranks are; world: those of the launcher, and if there is one, all is world (all)"},
    {"largest", OPTION_SIZE, FIELD(largest), 0, 0, "N", "no collectives of more elements; 0 = all (0)"},
    {"only", OPTION_TEXT, FIELD(only), 0, 0, "TEXT", "only cases whose line holds this text"},
    {"part", OPTION_TEXT, FIELD(share), 0, 0, "K/N", "only the K-th of each N of these cases (1/1)"},
};

static const char usage[] =
    "usage: weft perf conform [options]\n\n"
    "Checks that a backend keeps its contract: all collectives, types, reductions, counts, in and out of place, on 1 "
    "to\n"
    "N ranks; p2p batches; works behind works; comms beside comms; mismatches; aborts. Sums must have the bits of "
    "adding\n"
    "up in rank order, 16-bit types in fp32, if the backend says so, else they may be as far off as the type allows.\n"
    "A line for each case that failed, and one at the end.\n\n"
    "Exit code: 0 all is well; 7 values were wrong; 1 something else failed.";

static const char in_threads[] = "threads", in_processes[] = "processes";

/* What the ranks of one run share. */
typedef struct run {
    const conform_settings *settings;
    const char *carried;
    bool unless_alone, was_alone; /* one rank that nobody has launched: nothing was run */
    int rank;                     /* of a process; -1 = not known, or threads */
    unsigned cases, failed, wrong;
} run;

/* Cases that must fail make weft say so. */
static void swallow(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    if (strstr(line, "please report it"))
        fprintf(stderr, "weft: %s\n", line);
}

/* ------------------------------------------------------------------------------------------- one rank */

static void give_back(conform *c)
{
    weft_comm_destroy(c->comm);
    weft_comm_destroy(c->control);
    for (int which = 0; which < 2; which++) {
        free(c->arenas[false][which].memory);
        weft_memory_free(c->world, c->arenas[true][which].memory);
    }
}

/* Which host each rank is on; NULL: that could not be found out. Collective. */
static int *find_hosts(weft_world *world)
{
    weft_cluster *cluster = NULL;
    int size = weft_world_size(world), *hosts = calloc((size_t)size, sizeof *hosts);
    if (hosts && weft_cluster_open(world, NULL, &cluster) == WEFT_OK)
        for (int r = 0; r < size; r++)
            hosts[r] = weft_cluster_location(cluster, r)->host;
    weft_cluster_destroy(cluster);
    return hosts;
}

static weft_result run_rank(weft_world *world, void *argument)
{
    run *r = argument;
    conform_settings settings = *r->settings;
    int size = weft_world_size(world);
    if (r->carried == in_processes)
        r->rank = weft_world_rank(world);
    if (size == 1 && r->unless_alone) {
        r->was_alone = true;
        return WEFT_OK;
    }
    settings.ranks = settings.ranks < size ? settings.ranks : size;
    conform c = {.settings = &settings, .world = world, .carried = r->carried};
    weft_result result = weft_comm_create(world, "conform", NULL, 0, NULL, &c.control);
    int *hosts = find_hosts(world);
    c.hosts = hosts;
    if (result == WEFT_OK)
        result = hosts ? conform_walk(&c) : WEFT_E_NO_MEMORY;
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error());
    if (weft_world_rank(world) == 0)
        r->cases = c.cases, r->failed = c.failed, r->wrong = c.wrong;
    if (weft_world_rank(world) == 0 && result == WEFT_OK)
        printf("backend %s, %s: %u cases, %u failed\n", settings.backend, r->carried, c.cases, c.failed),
            fflush(stdout);
    give_back(&c);
    free(hosts);
    return result;
}

static int code_of(const run *r, weft_result result)
{
    if (result != WEFT_OK && r->rank > 0)
        return EXIT_FAILED; /* the first rank says it */
    if (result != WEFT_OK)
        return complain(EXIT_FAILED, "%s, %s: %s%s", r->settings->backend, r->carried, weft_last_error(),
                        result == WEFT_E_UNSUPPORTED ? " (--ranks N tries it with fewer)" : "");
    return r->wrong ? EXIT_WRONG : r->failed ? EXIT_FAILED : EXIT_DONE;
}

/* ------------------------------------------------------------------------------------------- all ranks */

static int run_in_world(run *r)
{
    r->carried = getenv("WEFT_THREADS") ? in_threads : in_processes;
    weft_result result = weft_world_run(NULL, run_rank, r);
    return code_of(r, result);
}

static int run_in_threads(run *r)
{
    r->carried = in_threads;
    r->rank = -1;
    weft_result result = weft_team_run(r->settings->ranks, NULL, run_rank, r);
    return code_of(r, result);
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return complain(EXIT_FAILED, "cannot wait for the ranks: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : complain(EXIT_FAILED, "the ranks were killed");
}

/* This program once more, under `weft run`. */
static int run_in_processes(const run *r)
{
    const conform_settings *s = r->settings;
    char self[4096], ranks[16], largest[32];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    if (bytes < 0)
        return complain(EXIT_FAILED, "cannot find this program: %s", strerror(errno));
    self[bytes] = 0;
    snprintf(ranks, sizeof ranks, "%d", s->ranks);
    snprintf(largest, sizeof largest, "%zu", s->largest);
    const char *arguments[] = {self,
                               "run",
                               "-n",
                               ranks,
                               "--prefix",
                               "none",
                               "--",
                               self,
                               "perf",
                               "conform",
                               "--in",
                               "world",
                               "--backend",
                               s->backend,
                               "--ranks",
                               ranks,
                               "--largest",
                               largest,
                               "--only",
                               s->only ? s->only : "",
                               "--part",
                               s->share,
                               s->full ? "--full" : NULL,
                               NULL};
    pid_t pid;
    int failed = posix_spawn(&pid, self, NULL, NULL, (char *const *)(uintptr_t)arguments, environ);
    if (failed)
        return complain(EXIT_FAILED, "cannot start '%s': %s", self, strerror(failed));
    return wait_for(pid);
}

static int worse(int a, int b)
{
    return a == EXIT_WRONG || b == EXIT_DONE ? a : b;
}

/* "2/5": part 2 of 5. Nothing else but that: no sign, no space, no zero before. */
static bool read_share(conform_settings *s)
{
    char again[32];
    if (sscanf(s->share, "%9d/%9d", &s->part, &s->parts) != 2)
        return false;
    snprintf(again, sizeof again, "%d/%d", s->part, s->parts);
    return strcmp(again, s->share) == 0 && s->part >= 1 && s->part <= s->parts;
}

int perf_conform(int argc, char **argv)
{
    conform_settings s = {.backend = "local", .ranks = 8, .share = "1/1"};
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &s, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft perf conform --help)", argv[rest]);
    if (!read_share(&s))
        return complain(EXIT_USAGE, "--part is '%s', not K/N with K from 1 to N (see weft perf conform --help)",
                        s.share);
    if (!getenv("WEFT_LOG"))
        weft_log_set(WEFT_LOG_ERROR, swallow, NULL);
    run r = {.settings = &s, .rank = -1, .unless_alone = s.in == IN_ALL};
    code = s.in == IN_ALL || s.in == IN_WORLD ? run_in_world(&r) : EXIT_DONE;
    if (s.in == IN_WORLD || (s.in == IN_ALL && !r.was_alone))
        return code;
    r.unless_alone = false;
    if (s.in != IN_PROCESSES)
        code = worse(code, run_in_threads(&r));
    if (s.in != IN_THREADS)
        code = worse(code, run_in_processes(&r));
    return code;
}
