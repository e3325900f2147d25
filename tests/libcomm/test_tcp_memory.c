/* SPDX-License-Identifier: Apache-2.0 */
/* Comms over tcp where there is little memory to be had for what comes unasked: with less of it they work as well, and
 * without any the message says how much is wanted. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "harness/ranks.h"

/* Longer stretches of addresses than this are not to be had; and the longest that was asked for. */
static _Atomic size_t most = SIZE_MAX, longest;

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_NORESERVE && fd < 0 && bytes > atomic_load(&longest))
        atomic_store(&longest, bytes);
    if (bytes > atomic_load(&most))
        return MAP_FAILED;
    return __real_mmap64(at, bytes, protection, flags, fd, offset);
}

static weft_result make(weft_world *world, const char *name, weft_comm **comm_out)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = "tcp";
    return weft_comm_create(world, name, NULL, 0, &config, comm_out);
}

enum { COUNT = 600000 };

/* Both ways at once: more than is stashed, asked for late on one side. */
static void exchange(weft_comm *comm)
{
    int rank = weft_comm_rank(comm);
    int32_t *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in);
    for (int round = 0; round < 4; round++) {
        weft_work sent;
        for (int i = 0; i < COUNT; i++)
            out[i] = i * (rank + 1) + round;
        weft_p2p send = {WEFT_SEND, 1 - rank, 1, WEFT_INT32, out, COUNT, 0};
        weft_p2p receive = {WEFT_RECV, 1 - rank, 1, WEFT_INT32, in, COUNT, 0};
        CHECK_OK(start_messages(comm, &send, 1, &sent));
        CHECK_OK(weft_all_reduce_run(comm, in, in, COUNT, WEFT_INT32, WEFT_MAX, WEFT_STREAM_HOST));
        CHECK_OK(run_messages(comm, &receive, 1));
        CHECK_OK(weft_work_finish(sent, WEFT_STREAM_HOST));
        for (int i = 0; i < COUNT; i++)
            if (in[i] != i * (2 - rank) + round)
                FAIL("element %d is %d", i, in[i]);
    }
    free(out);
    free(in);
}

static void one_has_less(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    atomic_store(&longest, 0);
    CHECK_OK(make(world, "enough", &comm));
    size_t wanted = atomic_load(&longest);
    exchange(comm);
    weft_comm_destroy(comm);
    if (weft_world_rank(world) == 1)
        atomic_store(&most, wanted - 1);
    CHECK_OK(make(world, "less", &comm));
    atomic_store(&most, SIZE_MAX);
    exchange(comm);
    weft_comm_destroy(comm);
}

TEST(a_comm_with_less_room_for_what_comes_unasked_works_as_well)
{
    ranks_as_processes(2, NULL, one_has_less, NULL);
}

static void one_has_none(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    if (weft_world_rank(world) == 1)
        atomic_store(&most, (size_t)1 << 20);
    CHECK_RESULT(make(world, "none", &comm), WEFT_E_NO_MEMORY);
    CHECK_HAS(weft_last_error(), " MiB of addresses");
    CHECK_HAS(weft_last_error(), "comm none: ");
    atomic_store(&most, SIZE_MAX);
    CHECK_OK(make(world, "none", &comm));
    exchange(comm);
    weft_comm_destroy(comm);
}

TEST(want_of_addresses_is_told_with_their_number)
{
    quiet();
    ranks_as_processes(2, NULL, one_has_none, NULL);
}
