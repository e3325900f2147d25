/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that meet, at every kind of place, and what becomes of those who cannot. Deadlines are far above what a meeting
 * takes, and limits of tests below them where something has to be known at once. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/hello.h"
#include "bootstrap/socket.h"
#include "meeting.h"

enum { RANKS = 5, PLACES = 6 };

static void note_ipv6(void)
{
    if (!has_ipv6())
        test_note("no IPv6 here: [::1] is left out");
}

TEST(ranks_meet_at_every_kind_of_place)
{
    note_ipv6();
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        meeters_run(m, RANKS, WEFT_OK, NULL);
    }
}

TEST(rank_0_may_be_the_last)
{
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        m[0].late_ms = 150;
        m[2].late_ms = 300;
        meeters_run(m, RANKS, WEFT_OK, NULL);
    }
}

TEST_LIMIT(two_processes_of_one_rank_are_everybodys_verdict, 25)
{
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS + 1];
        meeters_make(m, RANKS, address);
        m[RANKS] = m[3];
        m[4].late_ms = 150; /* it comes when all is lost */
        meeters_run(m, RANKS + 1, WEFT_E_MISMATCH, "two processes say that they are rank 3 (one is pid ");
    }
}

/* Rank 1 is left out, or the meeting may be over before the other rank 0 comes. */
TEST_LIMIT(two_processes_of_rank_0_are_everybodys_verdict, 25)
{
    static const size_t kinds[] = {0, 1, 2, 3, 5};
    meeting_run runs[5];
    int count = has_ipv6() ? 5 : 4;
    for (int i = 0; i < count; i++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, place(kinds[i]));
        m[1] = m[0];
        m[1].late_ms = 150;
        runs[i] = meeters_start(m, RANKS);
    }
    for (int i = 0; i < count; i++) {
        meeters_wait(&runs[i]);
        meeters_expect(&runs[i], WEFT_E_MISMATCH, "two processes say that they are rank 0 (one is pid ");
    }
}

TEST_LIMIT(another_size_is_everybodys_verdict, 25)
{
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        m[2].size = 9;
        meeters_run(m, RANKS, WEFT_E_MISMATCH, "rank 2 was told of 9 ranks, rank 0 of 5");
    }
}

TEST_LIMIT(a_rank_outside_the_world_is_everybodys_verdict, 25)
{
    meeter m[RANKS];
    meeters_make(m, RANKS, place(2));
    m[2].rank = 7;
    meeters_run(m, RANKS, WEFT_E_MISMATCH, "a process says that it is rank 7 of 5 (pid ");
}

TEST(missing_ranks_are_named_at_the_deadline)
{
    meeting_run runs[PLACES];
    const char *address;
    size_t count = 0;
    for (; (address = place(count)); count++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        for (int i = 0; i < 3; i++)
            m[i].timeout_ms = 1500;
        runs[count] = meeters_start(m, 3);
    }
    for (size_t i = 0; i < count; i++) {
        meeters_wait(&runs[i]);
        meeters_expect(&runs[i], WEFT_E_TIMEOUT, "3 of 5 ranks came; missing: 3, 4");
    }
}

TEST(ranks_are_called_as_the_caller_says)
{
    static const int names[] = {4, 9, 11};
    meeter m[3];
    meeters_make(m, 3, place(2));
    for (int i = 0; i < 3; i++) {
        m[i].world_ranks = names;
        m[i].timeout_ms = 400;
    }
    meeting_run run = meeters_start(m, 2);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_TIMEOUT, "2 of 3 ranks came; missing: 11");
    run = meeters_start(m + 1, 1);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_TIMEOUT, "rank 4 is missing: nobody listens at 127.0.0.1:");
}

TEST(a_missing_rank_0_is_named_with_the_places_that_were_tried)
{
    meeter m[2];
    char address[128], want[128];
    int port = free_port();
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", port);
    meeters_make(m, 2, address);
    m[1].timeout_ms = 300;
    meeting_run run = meeters_start(m + 1, 1);
    meeters_wait(&run);
    snprintf(want, sizeof want, "127.0.0.1:%d (from lo, 127.0.0.1:", port);
    meeters_expect(&run, WEFT_E_TIMEOUT, want);
    CHECK_HAS(run.outcomes[0].text, "Connection refused)");
    meeters_make(m, 2, "tcp://no-such-host.invalid:4000");
    m[1].timeout_ms = 300;
    run = meeters_start(m + 1, 1);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_TIMEOUT, "rank 0 is missing: nobody listens at tcp://no-such-host.invalid:4000: ");
}

TEST_LIMIT(the_missing_are_named_after_five_seconds, 30)
{
    meeter m[3], lonely[2];
    char address[128];
    snprintf(address, sizeof address, "%s", place(2));
    meeters_make(m, 3, address);
    meeters_make(lonely, 2, place(0));
    m[0].timeout_ms = m[1].timeout_ms = lonely[1].timeout_ms = 6000;
    meeting_run run = meeters_start(m, 2), alone = meeters_start(lonely + 1, 1);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_TIMEOUT, "2 of 3 ranks came; missing: 2");
    CHECK_STR(strstr(run.outcomes[0].warned, "2 of 3"), "2 of 3 ranks are here; waiting for 2\n"); /* once */
    meeters_wait(&alone);
    meeters_expect(&alone, WEFT_E_TIMEOUT, "rank 0 is missing: nobody listens at @weft-test-meet-");
    CHECK_HAS(alone.outcomes[0].warned, "waiting for rank 0 at @weft-test-meet-");
}

TEST(ranks_meet_through_the_interface_that_is_asked_for)
{
    char address[128];
    meeter m[RANKS];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d?iface=^eth,lo0", free_port());
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_OK, NULL);
    snprintf(address, sizeof address, "%s?iface==lo", place(4));
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_OK, NULL);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d?iface==no-such", free_port());
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_E_NOT_FOUND, "WEFT_IFACE '=no-such' allows no interface that is up; there are: ");
}

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
    int first = free_port();
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", first);
    meeters_make(yesterday, 2, address);
    yesterday[0].key = KEY + 5;
    yesterday[0].timeout_ms = 1000;
    meeting_run stale = meeters_start(yesterday, 1);
    int fd = connect_to(address); /* it listens */
    char candidates[128];
    snprintf(candidates, sizeof candidates, "tcp://127.0.0.1:%d,%d", first, free_port());
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
        int port = free_port();
        CHECK(weft__endpoint_numeric("127.0.0.1", (uint16_t)port, &where));
        int listener = weft__endpoint_listen(&where);
        CHECK(listener >= 0);
        pid_t pid = fork();
        if (pid == 0)
            serve(listener, (stranger)kind);
        close(listener);
        snprintf(address, sizeof address, "tcp://127.0.0.1:%d,%d", port, free_port());
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
        CHECK_HAS(run.outcomes[0].warned, "a process of another job does");
        meeters_wait(&stale);
    }
}

TEST(a_file_that_an_earlier_job_left_does_no_harm)
{
    const char *address = place(4);
    char path[128];
    snprintf(path, sizeof path, "%s/weft-%016x", address + 7, KEY);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "weft rendezvous %016x\n127.0.0.1:%d\nend\n", KEY, free_port());
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
    } hello = {0x6f6c6c6568746677ull, KEY + 9, {3, 1, RANKS, 1}};
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
    } hello = {0x6f6c6c6568746677ull, KEY, {3, 1, RANKS, 1}};
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
    note_ipv6();
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

/* ------------------------------------------------------------------------------------------- ends and signals */

/* The test itself is rank 2: it comes in, and ends. */
TEST_LIMIT(a_rank_that_ends_while_the_others_come_is_known_at_once, 20)
{
    const char *address = place(2);
    weft__welcome welcome;
    const weft__hello hello = weft__hello_make(KEY, 2, RANKS);
    meeter m[RANKS];
    meeters_make(m, RANKS, address);
    m[2] = m[3];
    meeting_run run = meeters_start(m, 3);
    uint64_t end_ns = weft__now_ns() + 10000000000u;
    int fd = connect_to(address);
    CHECK(weft__socket_send(fd, &hello, sizeof hello, end_ns) == WEFT__IO_DONE);
    CHECK(weft__socket_receive(fd, &welcome, sizeof welcome, end_ns) == WEFT__IO_DONE);
    CHECK(weft__welcome_judge(&welcome, sizeof welcome, KEY) == WEFT__HEARD_ALL);
    CHECK(weft__socket_send(fd, "!", 1, end_ns) == WEFT__IO_DONE);
    close(fd);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_E_PEER_LOST, "rank 2 ended while the ranks met");
}

TEST_LIMIT(another_protocol_is_everybodys_verdict, 20)
{
    const char *address = place(2);
    weft__hello hello = weft__hello_make(KEY, 2, RANKS);
    meeter m[RANKS];
    meeters_make(m, RANKS, address);
    hello.protocol++;
    m[2] = m[3];
    meeting_run run = meeters_start(m, 3);
    int fd = connect_to(address);
    CHECK(weft__socket_send(fd, &hello, sizeof hello, weft__now_ns() + 10000000000u) == WEFT__IO_DONE);
    meeters_wait(&run);
    close(fd);
    meeters_expect(&run, WEFT_E_MISMATCH, "rank 2 speaks protocol 4, rank 0 protocol 3: different versions of weft");
}

static void on_alarm(int signal)
{
    (void)signal;
}

static void prepare_alarms(void)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    struct itimerval each_ms = {{0, 1000}, {0, 1000}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &each_ms, NULL) == 0);
}

static void exchange_often(weft__meeting *meeting)
{
    for (int i = 0; i < 20; i++)
        exchange_numbers(meeting);
}

TEST_LIMIT(a_signal_each_millisecond_does_not_hurt, 40)
{
    note_ipv6();
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        for (int i = 0; i < RANKS; i++)
            m[i].body = exchange_often, m[i].before = prepare_alarms;
        m[0].late_ms = 100;
        m[3].late_ms = 200;
        meeting_run run = meeters_start(m, RANKS);
        meeters_wait(&run);
        meeters_expect(&run, WEFT_OK, NULL);
    }
}

/* ------------------------------------------------------------------------------------------- afterwards */

static void check_option(int fd, int level, int name)
{
    int value = 0;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, level, name, &value, &length) == 0);
    CHECK_INT(value, 1);
}

static void use_links(weft__meeting *meeting)
{
    int rank = meeting->rank, size = meeting->size;
    exchange_numbers(meeting);
    int *links = meeting->calls->take_links(meeting);
    CHECK(links != NULL);
    for (int r = 0; r < size; r++) {
        CHECK((links[r] >= 0) == (rank == 0 ? r > 0 : r == 0));
        if (links[r] < 0)
            continue;
        CHECK(fcntl(links[r], F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(links[r], F_GETFD) & FD_CLOEXEC);
        if (!weft__endpoint_is_unix(links[r])) {
            check_option(links[r], IPPROTO_TCP, TCP_NODELAY);
            check_option(links[r], SOL_SOCKET, SO_KEEPALIVE);
        }
        char word = (char)('a' + rank), heard = 0;
        CHECK(send(links[r], &word, 1, MSG_NOSIGNAL) == 1);
        struct pollfd p = {.fd = links[r], .events = POLLIN};
        CHECK(poll(&p, 1, DEADLINE_MS) == 1);
        CHECK(recv(links[r], &heard, 1, 0) == 1);
        CHECK_INT(heard, 'a' + r);
    }
    /* They are closed by the end of the process, behind the end of the meeting. */
    free(links);
}

TEST(links_are_handed_over)
{
    const char *address;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        for (int i = 0; i < RANKS; i++)
            m[i].body = use_links;
        meeters_run(m, RANKS, WEFT_OK, NULL);
    }
}

static void share_nothing(weft__meeting *meeting)
{
    weft__segment mine = {0}, *segments[3], *owned;
    size_t reserves[3] = {0};
    CHECK_RESULT(meeting->calls->share(meeting, &mine, reserves, segments, &owned), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "tcp://127.0.0.1:");
    exchange_numbers(meeting);
}

TEST(memory_is_not_shared_over_tcp)
{
    meeter m[3];
    meeters_make(m, 3, place(2));
    for (int i = 0; i < 3; i++)
        m[i].body = share_nothing;
    meeters_run(m, 3, WEFT_OK, NULL);
}
