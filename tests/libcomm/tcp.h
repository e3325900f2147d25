/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the backend tcp share: a look at its inside, sums that must come out, and strangers. */
#ifndef WEFT_TESTS_LIBCOMM_TCP_H
#define WEFT_TESTS_LIBCOMM_TCP_H
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "backend/tcp/tcp.h"
#include "base/clock.h"
#include "harness/ranks.h"
#include "world.h"

enum { SILENT = 100, COUNT = 300000 };
#define PATIENCE_NS 10000000000ull

static inline weft__tcp *tcp_of(const weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++)
        if (strcmp(world->backends[i].table->name, "tcp") == 0)
            return ((const weft__net *)world->backends[i].state)->carries;
    FAIL("the world has no backend tcp");
}

static inline weft_comm *comm_of(weft_world *world, const char *name, const int *ranks, int count)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm;
    config.backend = "tcp";
    CHECK_OK(weft_comm_create(world, name, ranks, count, &config, &comm));
    return comm;
}

/* Ranks 0 and 1 meet over tcp before rank 2 hears where rank 0 is; NULL on the others. */
static inline weft_comm *first_two(weft_world *world)
{
    static const int pair[] = {0, 1};
    return weft_world_rank(world) < 2 ? comm_of(world, "early", pair, 2) : NULL;
}

/* Others are going to be told of one place of this rank. */
static inline weft__tcp *at_loopback_alone(const weft_world *world)
{
    weft__tcp *tcp = tcp_of(world);
    tcp->card.place[0] = (weft__tcp_place){.address = {127, 0, 0, 1}};
    tcp->card.places = 1;
    return tcp;
}

static inline void check_sum(weft_comm *comm)
{
    int *v = malloc(COUNT * sizeof *v), ranks = weft_comm_size(comm), rank = weft_comm_rank(comm);
    for (int i = 0; i < COUNT; i++)
        v[i] = i * (rank + 1);
    CHECK_OK(weft_all_reduce_run(comm, v, v, COUNT, WEFT_INT32, WEFT_SUM, WEFT_STREAM_HOST));
    for (int i = 0; i < COUNT; i++)
        if (v[i] != i * (ranks * (ranks + 1) / 2))
            FAIL("element %d is %d", i, v[i]);
    free(v);
}

static inline int knock(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static inline double cpu_seconds(void)
{
    struct timespec t;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static inline void expect_rest(int ms)
{
    double before = cpu_seconds();
    sleep_ms(ms);
    double used = cpu_seconds() - before;
    CHECK_MSG(used < 0.5e-3 * ms, "while nothing happens, %.2f s of the processor in %d ms", used, ms);
}

#endif
