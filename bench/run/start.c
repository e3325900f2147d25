/* SPDX-License-Identifier: Apache-2.0 */
/* Leads a rank from fork to exec. What goes wrong in the child comes back through a pipe that a successful exec
 * closes. */
#include "run/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"

typedef struct failure {
    int code;
    char message[500]; /* all of it fits into a pipe at once */
} failure;

/* The child's ends of its pipes. */
typedef struct ends {
    int input, output[2], report;
} ends;

static _Noreturn __attribute__((format(printf, 3, 4))) void give_up(int report, int code, const char *format, ...)
{
    failure f = {.code = code};
    const char *text = strerror(errno);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(f.message, sizeof f.message, format, arguments);
    va_end(arguments);
    if (n >= 0 && n < (int)sizeof f.message)
        snprintf(f.message + n, sizeof f.message - (size_t)n, ": %s", text);
    ssize_t written = write(report, &f, sizeof f);
    _exit(written == sizeof f ? code : EXIT_FAILED);
}

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* One of two ways to be ranks; nothing of the other, which may come from outside. */
static void set_environment(const start_plan *plan, int rank)
{
    if (plan->threads) {
        static const char *const process_ranks[] = {"WEFT_RANK", "WEFT_SIZE", "WEFT_LOCAL_RANK", "WEFT_RENDEZVOUS"};
        for (size_t i = 0; i < sizeof process_ranks / sizeof *process_ranks; i++)
            unsetenv(process_ranks[i]);
        set_number("WEFT_THREADS", plan->ranks);
        return;
    }
    int ranks_here = plan->hosts ? plan->hosts->ranks_each : plan->ranks;
    const struct {
        const char *weft, *torch;
        int number;
    } numbers[] = {{"WEFT_RANK", "RANK", rank},
                   {"WEFT_SIZE", "WORLD_SIZE", plan->ranks},
                   {"WEFT_LOCAL_RANK", "LOCAL_RANK", rank % ranks_here}};
    unsetenv("WEFT_THREADS");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        set_number(numbers[i].weft, numbers[i].number);
        if (plan->hosts && plan->hosts->torch)
            set_number(numbers[i].torch, numbers[i].number);
    }
    setenv("WEFT_RENDEZVOUS", plan->rendezvous, 1);
}

static int host_of(const start_plan *plan, int rank)
{
    return plan->hosts->pidfds[rank / plan->hosts->ranks_each];
}

static bool children_on_host(const start_plan *plan, int rank)
{
    return !plan->hosts || setns(host_of(plan, rank), CLONE_NEWPID) == 0;
}

/* Without root it is not permitted; then the launcher has no other children from here on. */
static void children_here(const start_plan *plan)
{
    int own = plan->hosts ? open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC) : -1;
    if (own < 0)
        return;
    (void)!setns(own, CLONE_NEWPID);
    close(own);
}

/* But for the process namespace, in which only children of who enters it are. */
static void enter_host(const start_plan *plan, int rank, int report)
{
    char folder[PATH_MAX];
    if (!plan->hosts)
        return;
    if (!getcwd(folder, sizeof folder) ||
        setns(host_of(plan, rank), CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC) < 0 || chdir(folder) < 0)
        give_up(report, EXIT_FAILED, "cannot start rank %d on its host", rank);
}

static void bind_to_cores(const start_plan *plan, int rank, int report)
{
    int first = rank, count = plan->threads ? plan->ranks : 1;
    if (plan->cores && plan->share)
        cores_share_of(plan->cores, rank, plan->ranks, &first, &count);
    if (plan->cores && !cores_bind(plan->cores, first, count))
        give_up(report, EXIT_FAILED, "cannot bind rank %d to a core", rank);
}

static _Noreturn void become(const start_plan *plan, int rank, const ends *e, pid_t launcher)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!plan->hosts) { /* who is on a host ends with that, and has other numbers */
        plan->keeper->groups[rank] = getpid();
        if (getppid() != launcher) /* it ended before the lines above */
            _exit(EXIT_FAILED);
    }
    int input = e->input >= 0 ? e->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || (input != STDIN_FILENO && dup2(input, STDIN_FILENO) < 0) ||
        dup2(e->output[0], STDOUT_FILENO) < 0 || dup2(e->output[1], STDERR_FILENO) < 0)
        give_up(e->report, EXIT_FAILED, "cannot set up the input and output of rank %d", rank);
    bind_to_cores(plan, rank, e->report);
    enter_host(plan, rank, e->report);
    set_environment(plan, rank);
    setrlimit(RLIMIT_NOFILE, &plan->files);
    signals_give_back(plan->signals);
    execvp(plan->command[0], plan->command);
    give_up(e->report, errno == ENOENT ? START_EXIT_NOT_FOUND : START_EXIT_CANNOT_RUN, "cannot run '%s'",
            plan->command[0]);
}

/* Wait for the exec, or for what the child has to say instead. */
static int read_report(const start_plan *plan, int rank, int report, pid_t child)
{
    failure f;
    size_t got = 0;
    while (got < sizeof f) {
        ssize_t n = read(report, (char *)&f + got, sizeof f - got);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    if (got < sizeof f)
        return EXIT_DONE;
    waitpid(child, NULL, 0);
    plan->keeper->groups[rank] = 0;
    return complain(f.code, "%s", f.message);
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

int start_rank(const start_plan *plan, int rank, int input, started *started_out)
{
    enum { REPORT, OUTPUT, ERROR, PIPES };
    int here[PIPES], there[PIPES], made = 0, code = EXIT_DONE;
    pid_t launcher = getpid(), child = -1;
    for (int both[2]; made < PIPES && pipe2(both, O_CLOEXEC) == 0; made++)
        here[made] = both[0], there[made] = both[1];
    if (made == PIPES && children_on_host(plan, rank))
        child = fork();
    if (child == 0)
        become(plan, rank, &(ends){input, {there[OUTPUT], there[ERROR]}, there[REPORT]}, launcher);
    if (child < 0)
        code = complain(EXIT_FAILED, "cannot start rank %d of %d: %s", rank, plan->ranks, strerror(errno));
    close_all(there, made);
    children_here(plan);
    if (child > 0)
        code = read_report(plan, rank, here[REPORT], child);
    if (code != EXIT_DONE) {
        close_all(here, made);
        return code;
    }
    close(here[REPORT]);
    *started_out = (started){child, {here[OUTPUT], here[ERROR]}};
    for (int i = 0; i < 2; i++)
        fcntl(started_out->output[i], F_SETFL, O_NONBLOCK);
    return EXIT_DONE;
}
