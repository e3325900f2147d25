/* SPDX-License-Identifier: Apache-2.0 */
/* A child with pipes, or with a terminal for its input. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

const char *spawn_command(void)
{
    const char *command = getenv("WEFT_TEST_COMMAND");
    CHECK_MSG(command, "WEFT_TEST_COMMAND does not say where the weft command is");
    return command;
}

static int open_terminal(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(*slave >= 0);
    return master;
}

static void limit_files(const spawn_setup *s)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = s->files ? s->files : limit.rlim_cur;
    limit.rlim_max = s->most_files ? s->most_files : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* The test itself may have been started with some ignored or blocked. */
static void reset_signals(int ignored)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, number == ignored ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const spawn_setup *s, const char *const *arguments, int in, int out, int err)
{
    char *argv[80] = {(char *)spawn_command()};
    for (int i = 0; arguments[i] && i < 78; i++)
        argv[i + 1] = (char *)arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* when the test fails */
    if (s->terminal) {
        setsid();
        ioctl(in, TIOCSCTTY, 0);
    }
    dup2(in, STDIN_FILENO);
    dup2(s->out ? open(s->out, O_WRONLY | O_CLOEXEC) : out, STDOUT_FILENO);
    dup2(s->one_pipe ? out : err, STDERR_FILENO);
    reset_signals(s->ignored);
    limit_files(s);
    execv(argv[0], argv);
    _exit(99);
}

spawned spawn_weft(const spawn_setup *setup, const char *const *arguments)
{
    int in[2], out[2], err[2];
    (void)spawn_command();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    if (setup && setup->terminal)
        in[1] = open_terminal(&in[0]);
    else
        CHECK(pipe2(in, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0)
        become(setup ? setup : &(const spawn_setup){0}, arguments, in[0], out[1], err[1]);
    CHECK(pid > 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    return (spawned){.pid = pid, .in = in[1], .out = out[0], .err = err[0]};
}

void spawn_tell(spawned *s, const char *text)
{
    CHECK(write(s->in, text, strlen(text)) == (ssize_t)strlen(text));
}

static void collect(int *fd, spawn_text *t)
{
    enum { AT_ONCE = 65536 };
    if (t->room - t->used <= AT_ONCE) {
        t->room = 2 * t->room + 2 * AT_ONCE;
        t->data = realloc(t->data, t->room);
        CHECK(t->data);
    }
    ssize_t n = read(*fd, t->data + t->used, AT_ONCE);
    if (n <= 0) {
        close(*fd);
        *fd = -1;
    }
    t->used += n > 0 ? (size_t)n : 0;
    t->data[t->used] = 0;
}

bool spawn_read(spawned *s)
{
    struct pollfd polls[] = {{s->out, POLLIN, 0}, {s->err, POLLIN, 0}};
    if (s->out < 0 && s->err < 0)
        return false;
    CHECK(poll(polls, 2, -1) > 0);
    if (polls[0].revents)
        collect(&s->out, &s->said);
    if (polls[1].revents)
        collect(&s->err, &s->complained);
    return true;
}

void spawn_read_until(spawned *s, const char *part)
{
    while (!s->said.data || !strstr(s->said.data, part))
        CHECK_MSG(spawn_read(s), "'%s' never came", part);
}

void spawn_check_nothing_runs(void)
{
    pid_t left = waitpid(-1, NULL, WNOHANG);
    CHECK_MSG(left < 0 && errno == ECHILD, "something is left running (waitpid: %d)", (int)left);
}

int spawn_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int spawn_finish(spawned *s)
{
    int status;
    while (spawn_read(s))
        ;
    CHECK_INT(waitpid(s->pid, &status, 0), s->pid);
    close(s->in);
    spawn_check_nothing_runs();
    spawn_text *const texts[] = {&s->said, &s->complained};
    for (int i = 0; i < 2; i++)
        if (!texts[i]->data)
            texts[i]->data = calloc(1, 1);
    return spawn_code(status);
}

void spawn_forget(spawned *s)
{
    free(s->said.data);
    free(s->complained.data);
}

int spawn_count(const char *all, const char *part)
{
    int count = 0;
    for (const char *at = all; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}
