/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that meet, at every kind of place, and what becomes of those who cannot. Deadlines are far above what a meeting
 * takes, and limits of tests below them where something has to be known at once. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/hello.h"
#include "bootstrap/socket.h"
#include "bootstrap/tree.h"
#include "meeting.h"

enum { RANKS = 5, PLACES = 6 };

TEST(ranks_meet_at_every_kind_of_place)
{
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

/* Rank 4 is left out, or the meeting may be over before the other rank 3 comes. */
TEST_LIMIT(two_processes_of_one_rank_are_everybodys_verdict, 25)
{
    meeting_run runs[PLACES];
    const char *address;
    int count = 0;
    for (; (address = place((size_t)count)); count++) {
        meeter m[RANKS];
        meeters_make(m, RANKS, address);
        m[4] = m[3];
        m[1].late_ms = 150; /* it comes when all is lost */
        runs[count] = meeters_start(m, RANKS);
    }
    for (int i = 0; i < count; i++) {
        meeters_wait(&runs[i]);
        meeters_expect(&runs[i], WEFT_E_MISMATCH, "two processes say that they are rank 3 (one is pid ");
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
    int port = reserve_port();
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
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d?iface=^eth,lo0", reserve_port());
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_OK, NULL);
    snprintf(address, sizeof address, "%s?iface==lo", place(4));
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_OK, NULL);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d?iface==no-such", reserve_port());
    meeters_make(m, RANKS, address);
    meeters_run(m, RANKS, WEFT_E_NOT_FOUND, "WEFT_IFACE '=no-such' allows no interface that is up; there are: ");
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
    meeters_expect(&run, WEFT_E_MISMATCH, "rank 2 speaks protocol 6, rank 0 protocol 5: different versions of weft");
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

/* With two children a rank: 1 and 4 are children of 0 ... */
static void check_tree(weft__meeting *meeting)
{
    exchange_numbers(meeting);
    int *links = meeting->calls->take_links(meeting), rank = meeting->rank, size = meeting->size;
    weft__place own = weft__tree_place(rank, size);
    for (int r = 0; r < size; r++) {
        bool is_neighbour = r == own.parent || (r != rank && weft__tree_place(r, size).parent == rank);
        CHECK_INT(links[r] >= 0, r != rank && (rank == 0 || r == 0 || is_neighbour));
    }
    free(links);
}

TEST(ranks_are_connected_in_a_tree_wherever_they_meet)
{
    const char *address;
    weft__tree_fan = 2;
    for (size_t kind = 0; (address = place(kind)); kind++) {
        meeter m[12];
        meeters_make(m, 12, address);
        for (int i = 0; i < 12; i++)
            m[i].body = check_tree;
        meeters_run(m, 12, WEFT_OK, NULL);
    }
}

/* Nobody can listen beside so long a path: all stay with rank 0. */
TEST(ranks_that_cannot_reach_their_parents_meet_all_the_same)
{
    char address[110];
    int used = snprintf(address, sizeof address, "/tmp/weft-test-far-%d-", (int)getpid());
    memset(address + used, 'x', 106 - (size_t)used);
    address[106] = 0;
    weft__tree_fan = 2;
    meeter m[12];
    meeters_make(m, 12, address);
    meeting_run run = meeters_start(m, 12);
    meeters_wait(&run);
    meeters_expect(&run, WEFT_OK, NULL);
    for (int i = 0; i < run.count; i++) {
        bool is_below = i > 0 && weft__tree_place(i, 12).parent > 0;
        CHECK_INT(strstr(run.outcomes[i].warned, "and has rank 0 pass on what others say") != NULL, is_below);
    }
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
