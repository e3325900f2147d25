/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of one program, each in a process of its own, and writes TAP. */
#include "harness/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PASSED = 0, SKIPPED = 77, FAILED = 99 };

static test_case *tests;
static int report_fd = -1; /* where a running test writes its message; -1 = stderr */

void test_register(test_case *test)
{
    test_case **end = &tests;
    while (*end)
        end = &(*end)->next;
    *end = test;
}

static void say(const char *text, size_t bytes)
{
    ssize_t n = write(report_fd >= 0 ? report_fd : STDERR_FILENO, text, bytes);
    (void)n;
}

static void say_line(const char *prefix, const char *format, va_list arguments)
{
    char line[1024];
    int used = snprintf(line, sizeof line, "%s", prefix);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    size_t n = (size_t)used + (size_t)(more > 0 ? more : 0);
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[n] = '\n';
    say(line, n + 1);
}

_Noreturn void test_fail(const char *file, int line, const char *format, ...)
{
    char prefix[256];
    const char *base = strrchr(file, '/');
    snprintf(prefix, sizeof prefix, "# %s:%d: ", base ? base + 1 : file, line);
    va_list arguments;
    va_start(arguments, format);
    say_line(prefix, format, arguments);
    va_end(arguments);
    _exit(FAILED);
}

_Noreturn void test_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("SKIP ", format, arguments);
    va_end(arguments);
    _exit(SKIPPED);
}

void test_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_line("# ", format, arguments);
    va_end(arguments);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Sanitizers and valgrind are slow: WEFT_TEST_SLOWDOWN stretches every limit. */
static double slowdown(void)
{
    const char *text = getenv("WEFT_TEST_SLOWDOWN");
    double factor = text ? atof(text) : 1.0;
    return factor > 0 ? factor : 1.0;
}

bool test_is_slow(void)
{
    return slowdown() > 1.0;
}

static double limit_of(const test_case *test)
{
    return (test->limit_s ? test->limit_s : 60) * slowdown();
}

typedef struct outcome {
    int status; /* of wait() */
    bool timed_out;
    char text[16384]; /* what the test wrote */
    size_t used;
} outcome;

static void collect(int fd, outcome *o)
{
    char block[512];
    ssize_t n = read(fd, block, sizeof block);
    for (ssize_t i = 0; i < n; i++)
        if (o->used < sizeof o->text - 1)
            o->text[o->used++] = block[i];
}

static void run_forked(const test_case *test, outcome *o)
{
    int pipe_fd[2];
    if (pipe(pipe_fd)) {
        perror("pipe");
        exit(1);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pipe_fd[0]);
        report_fd = pipe_fd[1];
        test->run();
        exit(PASSED); /* the leak checker looks now */
    }
    setpgid(child, child);
    close(pipe_fd[1]);
    memset(o, 0, sizeof *o);
    double end = now_s() + limit_of(test);
    for (bool ended = false; !ended;) {
        struct pollfd p = {.fd = pipe_fd[0], .events = POLLIN};
        if (poll(&p, 1, 20) > 0 && (p.revents & POLLIN))
            collect(pipe_fd[0], o);
        ended = waitpid(child, &o->status, WNOHANG) == child;
        if (!ended && now_s() > end) {
            o->timed_out = true;
            kill(-child, SIGKILL);
            ended = waitpid(child, &o->status, 0) == child;
        }
    }
    kill(-child, SIGKILL); /* ranks that outlived their test */
    struct pollfd p = {.fd = pipe_fd[0], .events = POLLIN};
    while (poll(&p, 1, 0) > 0 && (p.revents & POLLIN))
        collect(pipe_fd[0], o);
    close(pipe_fd[0]);
    o->text[o->used] = 0;
}

/* Print the lines of a test that are comments. */
static void print_notes(const outcome *o)
{
    for (const char *line = o->text; *line;) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        if (*line == '#')
            printf("%.*s\n", (int)n, line);
        line += n + (end ? 1 : 0);
    }
}

static bool report(int number, const test_case *test, const outcome *o, double seconds)
{
    bool exited = WIFEXITED(o->status);
    int code = exited ? WEXITSTATUS(o->status) : -1;
    if (exited && code == SKIPPED) {
        const char *why = strstr(o->text, "SKIP ");
        const char *end = why ? strchr(why, '\n') : NULL;
        print_notes(o);
        printf("ok %d - %s # SKIP %.*s\n", number, test->name, why ? (int)(end - why - 5) : 0, why ? why + 5 : "");
        return true;
    }
    bool passed = exited && code == PASSED && !o->timed_out;
    print_notes(o);
    if (o->timed_out)
        printf("# took more than %.0f s\n", limit_of(test));
    else if (WIFSIGNALED(o->status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(o->status), strsignal(WTERMSIG(o->status)));
    else if (!passed && code != FAILED)
        printf("# ended with code %d\n", code);
    printf("%s %d - %s\n# %.2f s\n", passed ? "ok" : "not ok", number, test->name, seconds);
    return passed;
}

static bool chosen(const test_case *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], test->name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (test_case *t = tests; t; t = t->next)
            printf("%s\n", t->name);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--inline") == 0) {
        for (test_case *t = tests; t; t = t->next)
            if (strcmp(t->name, argv[2]) == 0)
                t->run();
        return 0;
    }
    int count = 0, failed = 0, number = 0;
    for (test_case *t = tests; t; t = t->next)
        count += chosen(t, argc, argv);
    printf("1..%d\n", count);
    for (test_case *t = tests; t; t = t->next) {
        if (!chosen(t, argc, argv))
            continue;
        static outcome o;
        double begin = now_s();
        run_forked(t, &o);
        failed += !report(++number, t, &o, now_s() - begin);
    }
    return failed ? 1 : 0;
}
