/* SPDX-License-Identifier: Apache-2.0 */
/* The backend tcp without descriptors, and at the end of its turn: it waits for what it lacks, keeps nobody busy by
 * that, and writes no longer than it may. */
#include <sys/resource.h>

#include "tcp.h"

/* ------------------------------------------------------------------------------------------- want */

static void has_no_descriptors(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), taken[1024], count = 0;
    weft_comm *early = first_two(world), *all;
    quiet();
    alarm(60); /* it must not hang */
    if (early)
        check_sum(early);
    if (rank == 0) {
        int stranger = knock(tcp_of(world)->card.port);
        close(stranger); /* it has waited before the others */
        struct rlimit few = {.rlim_cur = 256, .rlim_max = 256};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        while (count < 1024 && (taken[count] = dup(0)) >= 0)
            count++;
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons(tcp_of(world)->card.port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        CHECK(connect(stranger, (struct sockaddr *)&to, sizeof to) == 0);
        expect_rest(500);
        check_sum(early);
        close(stranger);
        while (count)
            close(taken[--count]);
    } else if (early) {
        check_sum(early);
    }
    all = comm_of(world, "all", NULL, 0); /* there are some again */
    check_sum(all);
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(want_of_descriptors_keeps_nobody_busy)
{
    ranks_as_processes(3, NULL, has_no_descriptors, NULL);
}

/* The other way round: rank 2 is to connect to rank 0, and cannot for a while. */
static void cannot_connect_yet(weft_world *world, void *argument)
{
    static const int last[] = {1, 2};
    (void)argument;
    int rank = weft_world_rank(world), taken[1024], count = 0;
    weft_comm *early = rank ? comm_of(world, "early", last, 2) : NULL, *all;
    quiet();
    alarm(60); /* it must not hang */
    if (early)
        check_sum(early);
    if (rank == 2) {
        struct rlimit few = {.rlim_cur = 256, .rlim_max = 256};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        while (count < 1024 && (taken[count] = dup(0)) >= 0)
            count++;
    }
    all = comm_of(world, "all", NULL, 0);
    if (rank == 2) {
        expect_rest(500);
        check_sum(early);
        while (count)
            close(taken[--count]);
    } else if (early) {
        check_sum(early);
    }
    check_sum(all);
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(who_has_no_descriptor_to_connect_waits_for_one)
{
    ranks_as_processes(3, NULL, cannot_connect_yet, NULL);
}

static void can_never_connect(weft_world *world, void *argument)
{
    static const int last[] = {1, 2};
    (void)argument;
    int rank = weft_world_rank(world);
    float *v = calloc(COUNT, sizeof *v); /* in two steps, so that no rank can be done before all are heard of */
    weft_comm *early = rank ? comm_of(world, "early", last, 2) : NULL, *all;
    if (early) /* they have a way, by which rank 1 is told */
        check_sum(early);
    struct rlimit usual, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    few = usual, few.rlim_cur = 3;
    if (rank == 2)
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    all = comm_of(world, "all", NULL, 0);
    CHECK_INT(weft_all_reduce_run(all, v, v, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_SYSTEM);
    free(v);
    CHECK_HAS(weft_last_error(),
              "the way to rank 0 is lost, and comm all with it: this rank cannot open a connection: ");
    CHECK_HAS(weft_last_error(), "(ulimit -n)");
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0); /* who looks for leaks at the end wants some */
    weft_comm_destroy(all);
    weft_comm_destroy(early);
}

TEST(who_never_has_a_descriptor_to_connect_says_so_when_making_comms_is_late)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 2000;
    quiet();
    ranks_as_processes(3, &config, can_never_connect, NULL);
}

/* ------------------------------------------------------------------------------------------- turns */

enum { RECORDS = 100, RECORD_BYTES = 64 };

/* Whoever writes looks at the clock as whoever reads: when the turn is over, one call ends it. */
TEST(writing_ends_with_the_turn)
{
    static unsigned char heads[RECORDS][WEFT__NET_HEAD_BYTES], payload[RECORD_BYTES];
    weft__net net = {.turn_end = 0};
    weft__tcp tcp = {.net = &net, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    weft__tcp_way way = {.tcp = &tcp, .state = WEFT__TCP_OPEN};
    weft__net_comm nc = {.net = &net, .held = RECORDS};
    weft__net_slot slots[RECORDS];
    int ends[2], turns = 0;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    way.fd = ends[0];
    tcp.ways = &way;
    CHECK(weft__tcp_watch(&tcp, way.fd, EPOLLIN, WEFT__TCP_WAY, 0));
    for (int i = 0; i < RECORDS; i++) {
        slots[i] = (weft__net_slot){.nc = &nc,
                                    .record = heads[i],
                                    .payload = payload,
                                    .bytes = RECORD_BYTES,
                                    .busy = true,
                                    .next = &slots[i + 1]};
        way.last = &slots[i];
    }
    slots[RECORDS - 1].next = NULL;
    way.first = slots;
    for (struct epoll_event event; weft__tcp_has_to_send(&way); turns++) {
        int before = nc.held;
        weft__tcp_write(&way);
        CHECK_MSG(before - nc.held > 0 && before - nc.held < 10, "%d records in a turn that is over", before - nc.held);
        if (weft__tcp_has_to_send(&way)) /* it is heard of in the next one */
            CHECK(epoll_wait(tcp.epoll_fd, &event, 1, 0) == 1 && event.events == EPOLLOUT);
    }
    CHECK(turns >= RECORDS / 10 && nc.held == 0 && !way.wants_room);
    static unsigned char all[RECORDS * (WEFT__NET_HEAD_BYTES + RECORD_BYTES) + 1];
    CHECK_INT(recv(ends[1], all, sizeof all, 0), sizeof all - 1);
    close(ends[0]);
    close(ends[1]);
    close(tcp.epoll_fd);
}
