/* SPDX-License-Identifier: Apache-2.0 */
/* The door of the backend tcp: ranks come in, whoever else knocks there meanwhile; and it is where WEFT_IFACE says.
 * What operations and failures are like over it: net/. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft/info.h>

#include "backend/tcp/tcp.h"
#include "base/clock.h"
#include "bootstrap/socket.h"
#include "harness/ranks.h"
#include "tcp.h"
#include "world.h"

/* ------------------------------------------------------------------------------------------- strangers */

static int knock_and_say(uint16_t port, const void *what, size_t bytes)
{
    int fd = knock(port);
    CHECK(send(fd, what, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    return fd;
}

/* A hello with the key of this world, which a stranger cannot know, but who may not come in. */
static int knock_as(const weft__tcp *tcp, int rank, int size)
{
    const struct {
        weft__hello hello;
        unsigned char coming;
    } all = {weft__hello_make(tcp->card.key, rank, size), WEFT__HELLO_COMING};
    return knock_and_say(tcp->card.port, &all, sizeof all.hello + 1);
}

/* It was heard, perhaps welcomed, and has no place here. */
static void expect_the_end(int fd)
{
    char byte;
    while (weft__socket_receive(fd, &byte, 1, weft__now_ns() + PATIENCE_NS) == WEFT__IO_DONE)
        ;
    CHECK_MSG(weft__socket_receive(fd, &byte, 1, weft__now_ns() + PATIENCE_NS) != WEFT__IO_LATE, "it was let in");
    close(fd);
}

static void strangers_come(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), silent[SILENT], refused[6], count = 0;
    weft_comm *early = first_two(world);
    if (early)
        check_sum(early);
    if (rank == 0) {
        const weft__tcp *tcp = tcp_of(world);
        uint16_t port = tcp->card.port;
        const weft__hello foreign = weft__hello_make(tcp->card.key + 1, 2, 3);
        for (int i = 0; i < SILENT; i++)
            silent[i] = knock(port);
        refused[count++] = knock_and_say(port, "GET / HTTP/1.1\r\n\r\n", 18);
        refused[count++] = knock_and_say(port, &foreign, sizeof foreign);
        refused[count++] = knock_as(tcp, 0, 3);  /* itself */
        refused[count++] = knock_as(tcp, 1, 3);  /* it is there */
        refused[count++] = knock_as(tcp, 3, 3);  /* no such rank */
        refused[count++] = knock_as(tcp, -1, 3); /* nor that */
    }
    weft_comm *all = comm_of(world, "all", NULL, 0);
    check_sum(all);
    for (int i = 0; i < count; i++)
        expect_the_end(refused[i]);
    if (early)
        check_sum(early);
    for (int i = 0; rank == 0 && i < SILENT; i++)
        close(silent[i]);
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(strangers_at_the_door_hold_nobody_up)
{
    ranks_as_processes(3, NULL, strangers_come, NULL);
}

/* ------------------------------------------------------------------------------------------- silence */

TEST(silence_is_told_from_an_end)
{
    static const int silence[] = {ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN};
    static const int end[] = {0, ECONNRESET, EPIPE, ECONNREFUSED};
    for (size_t i = 0; i < sizeof silence / sizeof *silence; i++)
        CHECK_INT(weft__tcp_result_of(silence[i]), WEFT_E_TIMEOUT);
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        CHECK_INT(weft__tcp_result_of(end[i]), WEFT_E_PEER_LOST);
}

/* ------------------------------------------------------------------------------------------- places */

static void only_loopback(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_of(world, "loopback", NULL, 0);
    const weft__tcp *tcp = tcp_of(world);
    for (int i = 0; i < tcp->card.places; i++) {
        const weft__tcp_place *place = &tcp->card.place[i];
        CHECK(place->is_ipv6 ? IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)place->address)
                             : place->address[0] == 127);
    }
    CHECK(tcp->card.places >= 1);
    check_sum(comm);
    weft_comm_destroy(comm);
}

TEST(ranks_are_reached_where_WEFT_IFACE_says)
{
    setenv("WEFT_IFACE", "=lo", 1);
    ranks_as_processes(2, NULL, only_loopback, NULL);
    unsetenv("WEFT_IFACE");
}

/* ------------------------------------------------------------------------------------------- congestion */

static void expect_control(int fd, const char *wanted)
{
    char name[32] = "";
    socklen_t length = sizeof name - 1;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0);
    CHECK_STR(name, wanted);
}

static void look_for_control(void *found, const weft_info *info)
{
    if (strcmp(info->name, "TCP, congestion control") == 0)
        *(bool *)found = strcmp(info->value, "reno") == 0;
}

/* Whoever connects and whoever is connected to. */
static void use_reno(weft_world *world, void *argument)
{
    bool found = false;
    (void)argument;
    CHECK_OK(weft_info_tell(world, look_for_control, &found));
    CHECK(found);
    weft_comm *comm = comm_of(world, "reno", NULL, 0);
    check_sum(comm);
    expect_control(tcp_of(world)->ways[1 - weft_world_rank(world)].fd, "reno");
    check_sum(comm); /* nobody has gone before both have looked */
    weft_comm_destroy(comm);
}

TEST(congestion_is_avoided_as_the_environment_says)
{
    setenv("WEFT_TCP_CONGESTION", "reno", 1); /* the kernel always has it, for everybody */
    ranks_as_processes(2, NULL, use_reno, NULL);
    unsetenv("WEFT_TCP_CONGESTION");
}

static void use_none(weft_world *world, void *argument)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm;
    (void)argument;
    config.backend = "tcp";
    CHECK_INT(weft_comm_create(world, "none", NULL, 0, &config, &comm), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "WEFT_TCP_CONGESTION is 'dreams', which this rank cannot have: ");
}

TEST(a_way_to_avoid_congestion_that_the_kernel_lacks_is_named)
{
    quiet();
    setenv("WEFT_TCP_CONGESTION", "dreams", 1);
    ranks_as_processes(2, NULL, use_none, NULL);
    unsetenv("WEFT_TCP_CONGESTION");
}

/* ------------------------------------------------------------------------------------------- wrong places */

/* A place where nobody is: the next one is tried. */
static void one_place_is_wrong(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *early = first_two(world);
    if (weft_world_rank(world) == 0) { /* rank 2 is going to read this */
        weft__tcp_card *card = &tcp_of(world)->card;
        memmove(&card->place[1], &card->place[0], (WEFT__TCP_PLACES - 1) * sizeof *card->place);
        card->place[0] = (weft__tcp_place){.address = {127, 99, 99, 99, 0}};
        card->places += card->places < WEFT__TCP_PLACES;
        card->place[0].is_ipv6 = 1; /* an address that is none of this host's */
    }
    weft_comm *all = comm_of(world, "all", NULL, 0);
    check_sum(all);
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(a_place_where_a_rank_is_not_is_passed_over)
{
    ranks_as_processes(3, NULL, one_place_is_wrong, NULL);
}

static void cannot_be_reached(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *early = first_two(world);
    if (rank == 0) { /* nobody listens there, and that is all that rank 2 hears of */
        at_loopback_alone(world)->card.port = 1;
    }
    weft_comm *all = comm_of(world, "all", NULL, 0);
    float *v = calloc(COUNT, sizeof *v); /* in two steps, so that no rank can be done before all are heard of */
    CHECK_INT(weft_all_reduce_run(all, v, v, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
    free(v);
    CHECK_HAS(weft_last_error(),
              "the way to rank 0 is lost, and comm all with it: it cannot be reached at 127.0.0.1:1: ");
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(a_rank_that_cannot_be_reached_is_named_to_all)
{
    quiet();
    ranks_as_processes(3, NULL, cannot_be_reached, NULL);
}

/* Nobody else could pass on what one of two knows. */
static void only_two_are_concerned(weft_world *world, void *argument)
{
    static const int ends[] = {0, 2};
    (void)argument;
    int rank = weft_world_rank(world);
    float v = 1;
    weft_comm *early = first_two(world);
    if (rank == 0) { /* nobody listens there, and that is all that rank 2 hears of */
        at_loopback_alone(world)->card.port = 1;
    }
    weft_comm *two = rank == 1 ? NULL : comm_of(world, "two", ends, 2);
    if (two) {
        CHECK_INT(weft_all_reduce_run(two, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
        CHECK_HAS(weft_last_error(), "the way to rank 0 is lost, and comm two with it: it cannot be reached");
    }
    if (rank == 2) /* it lives on */
        nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    weft_comm_destroy(two);
    weft_comm_destroy(early);
}

TEST(a_rank_that_cannot_be_reached_hears_of_it)
{
    quiet();
    ranks_as_processes(3, NULL, only_two_are_concerned, NULL);
}

/* ------------------------------------------------------------------------------------------- memory that is none */

static void one_sends_what_it_cannot_read(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = comm_of(world, "pair", NULL, 0);
    unsigned char bytes[4096] = {0};
    void *none = mmap(NULL, sizeof bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(none != MAP_FAILED);
    weft_p2p message = {.kind = rank ? WEFT_RECV : WEFT_SEND,
                        .peer = 1 - rank,
                        .buffer = rank ? bytes : none,
                        .count = sizeof bytes,
                        .dtype = WEFT_UINT8};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = &message;
    batch.count = 1;
    uint64_t begin = weft__now_ns();
    CHECK_INT(weft_p2p_run(comm, &batch, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
    CHECK(weft__now_ns() - begin < PATIENCE_NS);
    if (rank == 0)
        CHECK_HAS(weft_last_error(), "Bad address");
    munmap(none, sizeof bytes);
    weft_comm_destroy(comm);
}

TEST(what_cannot_be_sent_is_not_taken_for_sent)
{
    quiet();
    ranks_as_processes(2, NULL, one_sends_what_it_cannot_read, NULL);
}

/* ------------------------------------------------------------------------------------------- patience */

/* As if it was stopped, or the link down, for longer than a round through all places takes. */
static void listens_late(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *early = first_two(world);
    weft__tcp *tcp = rank == 0 ? at_loopback_alone(world) : NULL;
    if (early)
        check_sum(early);
    if (tcp) {
        CHECK(weft__tcp_watch(tcp, tcp->listener, 0, WEFT__TCP_LISTENER, 0));
    }
    weft_comm *all = comm_of(world, "all", NULL, 0);
    if (tcp) {
        sleep_ms(7500);
        CHECK(weft__tcp_watch(tcp, tcp->listener, EPOLLIN, WEFT__TCP_LISTENER, 0));
    }
    check_sum(all);
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(a_rank_that_is_silent_for_a_while_is_waited_for)
{
    quiet();
    ranks_as_processes(3, NULL, listens_late, NULL);
}

/* It never does. */
static void listens_never(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *early = first_two(world);
    if (early) /* rank 1 has a way, and tells rank 0 */
        check_sum(early);
    if (rank == 0) {
        weft__tcp *tcp = at_loopback_alone(world);
        CHECK(weft__tcp_watch(tcp, tcp->listener, 0, WEFT__TCP_LISTENER, 0));
    }
    weft_comm *all = comm_of(world, "all", NULL, 0);
    float *v = calloc(COUNT, sizeof *v);
    CHECK_INT(weft_all_reduce_run(all, v, v, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
    free(v);
    CHECK_HAS(weft_last_error(), "the way to rank 0 is lost");
    CHECK_HAS(weft_last_error(), "whoever is there does not answer");
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(a_rank_that_stays_silent_is_given_up_when_making_comms_is_late)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 8000;
    quiet();
    ranks_as_processes(3, &config, listens_never, NULL);
}

/* ------------------------------------------------------------------------------------------- children */

static pid_t child_that_sleeps(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child)
        return child;
    alarm(60);
    pause();
    _exit(0);
}

/* The child has the connection to rank 1, which ends, and that of a stranger who is sent away. */
static void has_a_child(weft_world *world, void *argument)
{
    static const int pair[] = {0, 2};
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *all = comm_of(world, "all", NULL, 0);
    weft_comm *rest = rank != 1 ? comm_of(world, "rest", pair, 2) : NULL;
    pid_t child = -1;
    alarm(60); /* it must not hang */
    check_sum(all);
    if (rank == 0) {
        int stranger = knock(tcp_of(world)->card.port);
        sleep_ms(50);
        child = child_that_sleeps();
        CHECK(send(stranger, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
        close(stranger);
    }
    check_sum(all);
    weft_comm_destroy(all);
    if (rank == 1)
        return;
    sleep_ms(500); /* rank 1 goes */
    expect_rest(500);
    check_sum(rest);
    weft_comm_destroy(rest);
    if (child >= 0) {
        CHECK(kill(child, SIGKILL) == 0);
        CHECK(waitpid(child, NULL, 0) == child);
    }
}

TEST(a_child_that_lives_on_keeps_nobody_busy)
{
    ranks_as_processes(3, NULL, has_a_child, NULL);
}

/* Its child keeps all its connections open, and says nothing. */
static void is_killed_with_a_child(weft_world *world, void *argument)
{
    pid_t *child = argument;
    weft_comm *comm = comm_of(world, "all", NULL, 0);
    float v = 0;
    alarm(60); /* it must not hang */
    check_sum(comm);
    if (weft_world_rank(world) == 1) {
        *child = child_that_sleeps();
        raise(SIGKILL);
    }
    CHECK_INT(weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 1 has ended");
    weft_comm_destroy(comm);
    uint64_t begin = weft__now_ns();
    weft_world_close(world);
    CHECK_MSG(weft__now_ns() - begin < 4000000000u, "closing waited for the child");
    exit(0);
}

TEST(a_killed_rank_whose_child_keeps_its_connections_is_named)
{
    quiet();
    pid_t *child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(child != MAP_FAILED);
    rank_group group = ranks_start(2, NULL, is_killed_with_a_child, child);
    ranks_wait(&group, 1);
    ranks_expect_passed(&group, 0);
    CHECK(*child > 0 && kill(*child, SIGKILL) == 0);
}
