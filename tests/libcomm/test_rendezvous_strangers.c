/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that meet though others come to the same place: other jobs, whoever listens there, and those who mean harm. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/hello.h"
#include "bootstrap/socket.h"
#include "meeting.h"

enum { RANKS = 5 };

/* ------------------------------------------------------------------------------------------- other jobs */

TEST(a_process_of_another_job_is_turned_away)
{
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        if (kind == 4)
            continue; /* it looks for another file */
        meeter m[RANKS + 1];
        meeters_make(m, RANKS, address);
        m[RANKS] = m[3];
        m[RANKS].key = KEY + 1;
        m[RANKS].timeout_ms = 500;
        m[4].late_ms = 200;
        meeting_run run = meeters_start(m, RANKS + 1);
        meeters_wait(&run);
        run.count = RANKS;
        meeters_expect(&run, WEFT_OK, NULL);
        CHECK_INT(run.outcomes[RANKS].result, WEFT_E_TIMEOUT);
        CHECK_HAS(run.outcomes[RANKS].text, "rank 0 is missing");
    }
}

TEST(the_next_candidate_is_taken_when_another_job_listens_at_the_first)
{
    char address[128];
    meeter yesterday[2], m[RANKS];
    int first = reserve_port();
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", first);
    meeters_make(yesterday, 2, address);
    yesterday[0].key = KEY + 5;
    yesterday[0].timeout_ms = 1000;
    meeting_run stale = meeters_start(yesterday, 1);
    int fd = connect_to(address); /* it listens */
    char candidates[128];
    snprintf(candidates, sizeof candidates, "tcp://127.0.0.1:%d,%d", first, reserve_port());
    meeters_make(m, RANKS, candidates);
    meeters_run(m, RANKS, WEFT_OK, NULL);
    close(fd);
    meeters_wait(&stale);
    meeters_expect(&stale, WEFT_E_TIMEOUT, "(processes of other jobs were turned away ");
}

/* Whoever it is: answers with these bytes, with those it hears, or not at all, and holds on to the link. */
typedef enum stranger { SAYS_GARBAGE, SAYS_IT_BACK, SAYS_NOTHING, STRANGERS } stranger;

static void serve(int listener, stranger kind)
{
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        char bytes[64] = "HTTP/1.1 400 Bad Request, and some more that is long enough";
        poll(&p, 1, -1);
        int fd = weft__endpoint_accept(listener);
        if (fd < 0)
            continue;
        if (kind == SAYS_IT_BACK)
            (void)weft__socket_receive(fd, bytes, sizeof(weft__hello), weft__now_ns() + 1000000000u);
        if (kind != SAYS_NOTHING)
            (void)weft__socket_send(fd, bytes, kind == SAYS_IT_BACK ? sizeof(weft__hello) : sizeof bytes, 0);
    }
}

TEST(the_next_candidate_is_taken_when_a_stranger_listens_at_the_first)
{
    for (int kind = 0; kind < STRANGERS; kind++) {
        char address[128];
        weft__endpoint where;
        int port = reserve_port();
        CHECK(weft__endpoint_numeric("127.0.0.1", (uint16_t)port, &where));
        int listener = weft__endpoint_listen(&where);
        CHECK(listener >= 0);
        pid_t pid = fork();
        if (pid == 0)
            serve(listener, (stranger)kind);
        close(listener);
        snprintf(address, sizeof address, "tcp://127.0.0.1:%d,%d", port, reserve_port());
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        meeters_run(m, RANKS, WEFT_OK, NULL);
        kill(pid, SIGKILL);
    }
}

TEST(an_address_that_another_job_leaves_soon_is_waited_for)
{
    const char *address;
    for (size_t kind = 0; kind < 3 && (address = place(kind)); kind++) {
        meeter yesterday[2], m[RANKS];
        meeters_make(yesterday, 2, address);
        yesterday[0].key = KEY + 5;
        yesterday[0].timeout_ms = 600;
        meeting_run stale = meeters_start(yesterday, 1);
        close(connect_to(address));
        meeters_make(m, RANKS, address);
        meeting_run run = meeters_start(m, RANKS);
        meeters_wait(&run);
        meeters_expect(&run, WEFT_OK, NULL);
        CHECK_HAS(run.outcomes[0].warned, "another process does");
        meeters_wait(&stale);
    }
}

TEST(who_listens_in_place_of_rank_0_is_told_from_nobody)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof where;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* the kernel takes who comes, and nobody answers */
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&where, bytes) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&where, &bytes) == 0);
    char address[64];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", ntohs(where.sin_port));
    meeter m[2];
    meeters_make(m, 2, address);
    m[1].timeout_ms = 1500;
    meeting_run run = meeters_start(m + 1, 1);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_TIMEOUT, "rank 0 is missing: it does not listen at 127.0.0.1:");
    CHECK_HAS(run.outcomes[0].text, ": somebody listens there, but does not answer)");
    close(fd);
}

TEST(a_file_that_an_earlier_job_left_does_no_harm)
{
    const char *address = place(4);
    char path[128];
    snprintf(path, sizeof path, "%s/weft-%016x", address + 7, KEY);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "weft rendezvous %016x\n127.0.0.1:%d\nend\n", KEY, reserve_port());
    fclose(file);
    meeter m[RANKS];
    meeters_make(m, RANKS, address);
    m[0].late_ms = 200;
    meeters_run(m, RANKS, WEFT_OK, NULL);
    CHECK(access(path, F_OK) != 0 && errno == ENOENT); /* and this one leaves none */
}

/* ------------------------------------------------------------------------------------------- hostile clients */

typedef struct attack {
    const char *name;
    void (*body)(const char *address);
} attack;

static void say(int fd, const void *bytes, size_t count)
{
    (void)!send(fd, bytes, count, MSG_NOSIGNAL);
}

static void garbage(const char *address)
{
    unsigned seed = 7;
    unsigned char bytes[512];
    for (;;) {
        int fd = connect_to(address);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)rand_r(&seed);
        say(fd, bytes, 1 + (size_t)rand_r(&seed) % sizeof bytes);
        close(fd);
    }
}

/* More of them than the table has room for, and they stay. */
static void half_open(const char *address)
{
    int fds[200];
    for (size_t i = 0; i < 200; i++)
        fds[i] = connect_to(address);
    for (;;)
        for (size_t i = 0; i < 200; usleep(500), i++) {
            struct pollfd p = {.fd = fds[i], .events = POLLIN};
            if (poll(&p, 1, 0) > 0) {
                close(fds[i]);
                fds[i] = connect_to(address);
            }
        }
}

static void slow(const char *address)
{
    static const unsigned char start[] = "wfthello";
    for (;;) {
        int fd = connect_to(address);
        for (size_t i = 0; i < sizeof start - 1; i++, usleep(1000000))
            say(fd, &start[i], 1);
        close(fd);
    }
}

static void other_protocol(const char *address)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (;;) {
        char answer[64];
        int fd = connect_to(address);
        say(fd, request, sizeof request - 1);
        CHECK(recv(fd, answer, sizeof answer, 0) <= 0); /* not a word */
        usleep(1000);
        close(fd);
    }
}

static void reset(const char *address)
{
    for (;; usleep(200)) {
        int fd = connect_to(address);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(fd);
    }
}

static void wrong_key(const char *address)
{
    struct {
        uint64_t magic, key;
        uint32_t words[4];
    } hello = {0x6f6c6c6568746677ull, KEY + 9, {WEFT__HELLO_PROTOCOL, 1, RANKS, 1}};
    for (;; usleep(200)) {
        int fd = connect_to(address);
        say(fd, &hello, sizeof hello);
        close(fd);
    }
}

/* Knows the key, as a rank does that gives up and tries again: it never comes in. */
static void come_and_go(const char *address)
{
    struct {
        uint64_t magic, key;
        uint32_t words[4];
    } hello = {0x6f6c6c6568746677ull, KEY, {WEFT__HELLO_PROTOCOL, 1, RANKS, 1}};
    for (;; usleep(200)) {
        int fd = connect_to(address);
        say(fd, &hello, sizeof hello);
        close(fd);
    }
}

static const attack attacks[] = {
    {"garbage", garbage},     {"half open", half_open},     {"slow", slow}, {"http", other_protocol}, {"reset", reset},
    {"wrong key", wrong_key}, {"come and go", come_and_go},
};

static pid_t start_attack(const attack *a, const char *address)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
        a->body(address);
    }
    return pid;
}

static void meet_under(size_t first, size_t last, size_t kind)
{
    const char *address = place(kind);
    pid_t pids[8];
    meeter m[RANKS];
    if (!address)
        return;
    meeters_make(m, RANKS, address);
    m[4].late_ms = 150;
    meeting_run run = meeters_start(m, RANKS);
    for (size_t i = first; i <= last; i++)
        pids[i] = start_attack(&attacks[i], address);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_OK, NULL);
    for (size_t i = first; i <= last; i++)
        kill(pids[i], SIGKILL);
}

TEST_LIMIT(hostile_clients_do_not_keep_ranks_from_meeting, 60)
{
    static const size_t kinds[] = {0, 2, 5};
    size_t count = sizeof attacks / sizeof *attacks;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < count; i++)
            meet_under(i, i, kinds[k]);
        meet_under(0, count - 1, kinds[k]);
    }
}

TEST(hostile_clients_do_not_hide_who_is_missing)
{
    const char *address = place(2);
    meeter m[RANKS];
    meeters_make(m, RANKS, address);
    for (int i = 0; i < RANKS; i++)
        m[i].timeout_ms = 1500;
    meeting_run run = meeters_start(m, RANKS - 1);
    pid_t pids[8];
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        pids[i] = start_attack(&attacks[i], address);
    meeters_wait(&run);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        kill(pids[i], SIGKILL);
    meeters_expect(&run, WEFT_E_TIMEOUT, "4 of 5 ranks came; missing: 4");
}

/* Room for the listener and for one or two links. */
static void have_few_descriptors(void)
{
    struct rlimit few;
    int next = dup(0);
    CHECK(next >= 0 && getrlimit(RLIMIT_NOFILE, &few) == 0);
    close(next);
    few.rlim_cur = (rlim_t)next + 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
}

TEST_LIMIT(want_of_descriptors_is_everybodys_verdict, 25)
{
    meeter m[RANKS];
    meeters_make(m, RANKS, place(2));
    m[0].before = have_few_descriptors;
    meeters_run(m, RANKS, WEFT_E_SYSTEM, "rank 0 cannot take a link to every rank (ulimit -n): Too many open files");
}

TEST(strangers_do_not_take_the_descriptors_of_ranks)
{
    const char *address = place(2);
    meeter m[2];
    meeters_make(m, 2, address);
    m[0].before = have_few_descriptors;
    m[1].late_ms = 200;
    meeting_run run = meeters_start(m, 2);
    int fds[8];
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        fds[i] = connect_to(address);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_OK, NULL);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
}
