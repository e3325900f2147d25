/* SPDX-License-Identifier: Apache-2.0 */
/* Runs ranks that only meet. */
#include "meeting.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/address.h"

void meeters_make(meeter *meeters, int size, const char *address)
{
    for (int r = 0; r < size; r++)
        meeters[r] = (meeter){.address = address,
                              .key = KEY,
                              .rank = r,
                              .size = size,
                              .timeout_ms = DEADLINE_MS,
                              .body = exchange_numbers};
}

static void keep_warnings(void *cookie, weft_log_level level, const char *line)
{
    outcome *o = cookie;
    size_t used = strlen(o->warned);
    if (level == WEFT_LOG_WARN)
        snprintf(o->warned + used, sizeof o->warned - used, "%s\n", line);
}

static void meet(const meeter *m, outcome *o)
{
    weft__meeting *meeting;
    weft_log_set(WEFT_LOG_WARN, keep_warnings, o);
    usleep(m->late_ms * 1000);
    if (m->before)
        m->before();
    uint64_t began = weft__now_ns();
    o->result = weft__rendezvous_open(m->address, m->key, m->rank, m->size, m->world_ranks, m->timeout_ms, &meeting);
    o->took_ms = (weft__now_ns() - began) / 1000000;
    snprintf(o->text, sizeof o->text, "%s", weft_last_error());
    if (o->result != WEFT_OK)
        return;
    if (m->body)
        m->body(meeting);
    meeting->calls->end(meeting);
}

typedef struct task {
    const meeter *meeters;
    outcome *outcomes;
} task;

static void meet_as(int number, void *argument)
{
    const task *t = argument;
    meet(&t->meeters[number], &t->outcomes[number]);
}

meeting_run meeters_start(const meeter *meeters, int count)
{
    meeting_run run = {.count = count};
    size_t bytes = (size_t)count * sizeof *run.outcomes;
    run.outcomes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(run.outcomes != MAP_FAILED);
    run.group = ranks_fork(count, meet_as, &(task){meeters, run.outcomes});
    return run;
}

void meeters_wait(meeting_run *run)
{
    ranks_expect_all(&run->group);
}

void meeters_expect(const meeting_run *run, weft_result result, const char *says)
{
    for (int i = 0; i < run->count; i++) {
        const outcome *o = &run->outcomes[i];
        CHECK_MSG(o->result == result, "meeter %d: %s (%s), not %s", i, weft_result_string(o->result), o->text,
                  weft_result_string(result));
        CHECK_MSG(!says || strstr(o->text, says), "meeter %d: '%s' does not say '%s'", i, o->text, says);
    }
}

void meeters_run(const meeter *meeters, int count, weft_result result, const char *says)
{
    meeting_run run = meeters_start(meeters, count);
    meeters_wait(&run);
    meeters_expect(&run, result, says);
    munmap(run.outcomes, (size_t)count * sizeof *run.outcomes);
}

int reserve_port(void)
{
    weft__endpoint any = weft__endpoint_any(false, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(fd, (const struct sockaddr *)&any.where, any.length) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&any.where, &any.length) == 0);
    return weft__endpoint_port(&any);
}

bool has_ipv6(void)
{
    weft__endpoint loopback;
    int fd = weft__endpoint_numeric("::1", 0, &loopback) ? weft__endpoint_listen(&loopback) : -1;
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

const char *place(size_t kind)
{
    static char text[WEFT__ADDRESS_MAX], folder[] = "/tmp/weft-meet-XXXXXX";
    static int counter;
    int number = counter++;
    if (kind == 0)
        snprintf(text, sizeof text, "@weft-test-meet-%d-%d", (int)getpid(), number);
    else if (kind == 1)
        snprintf(text, sizeof text, "/tmp/weft-test-meet-%d-%d", (int)getpid(), number);
    else if (kind == 2)
        snprintf(text, sizeof text, "tcp://127.0.0.1:%d", reserve_port());
    else if (kind == 3)
        snprintf(text, sizeof text, "tcp://localhost:%d,%d", reserve_port(), reserve_port());
    else if (kind == 4) {
        if (strchr(folder, 'X'))
            CHECK(mkdtemp(folder) != NULL);
        snprintf(text, sizeof text, "file://%s", folder);
    } else if (kind == 5 && has_ipv6())
        snprintf(text, sizeof text, "tcp://[::1]:%d", reserve_port());
    else {
        if (kind == 5)
            test_note("no IPv6 here: [::1] is left out");
        return NULL;
    }
    return text;
}

int connect_to(const char *address)
{
    weft__address a;
    weft__endpoint to, local;
    CHECK_OK(weft__address_parse("test", address, &a));
    if (a.kind == WEFT__ADDRESS_UNIX)
        CHECK_OK(weft__endpoint_unix(a.path, &to));
    else
        CHECK(weft__endpoint_numeric(a.host[0], a.port[0], &to));
    for (uint64_t end = weft__now_ns() + 10000000000u; weft__now_ns() < end; usleep(1000)) {
        int fd = weft__endpoint_connect(&to, NULL, end, &local);
        if (fd >= 0)
            return fd;
    }
    FAIL("nobody listens at %s", address);
}

void exchange_numbers(weft__meeting *meeting)
{
    int mine[2] = {meeting->rank, meeting->rank * meeting->rank + 3}, all[MEETERS_MAX][2];
    CHECK_OK(meeting->calls->exchange(meeting, mine, sizeof mine, all));
    for (int r = 0; r < meeting->size; r++) {
        CHECK_INT(all[r][0], r);
        CHECK_INT(all[r][1], r * r + 3);
    }
    CHECK_OK(weft__meeting_agree(meeting, WEFT_OK));
}
