/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines, and a rank that says what makes no sense: it is heard no more, and the others go on. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/pack.h"
#include "between.h"
#include "bootstrap/link.h"

/* ------------------------------------------------------------------------------------------- nonsense */

/* The socket of this rank's link to rank 0: the one whose other end has a path. */
static int find_link(void)
{
    for (int fd = 0; fd < 200; fd++) {
        struct sockaddr_un peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sun_family == AF_UNIX &&
            bytes > sizeof peer.sun_family && strncmp(peer.sun_path, "/tmp/weft-test-", 15) == 0)
            return fd;
    }
    FAIL("there is no link");
}

typedef struct nonsense {
    const char *what;
    uint32_t kind;
    int32_t from;
    uint32_t record[16];
    uint32_t words; /* of the record; 0: no content */
    uint32_t bytes; /* those the head says, 0 = as many */
    uint32_t spoil; /* added to the first word of the content: how many words it holds */
    int ints;       /* of runs of addressees */
    int to[6];
} nonsense;

enum { CARD = 1, BOARD = 2, LOST = 3, ADOPT = 4 };
#define EVERYBODY .ints = 3, .to = {0, 1, 4}

static const nonsense all_nonsense[] = {
    {.what = "a head that is too short", .kind = CARD, .from = 2, .bytes = 4},
    {.what = "a head that is too long", .kind = CARD, .from = 2, .bytes = 1u << 30},
    {.what = "an unknown kind", .kind = 77, .from = 2},
    {.what = "another sender", .kind = BOARD, .from = 1, .words = 1, .record = {1}},
    {.what = "a sender that is no rank", .kind = BOARD, .from = 99, .words = 1, .record = {1}},
    {.what = "a negative sender", .kind = BOARD, .from = -5, .words = 1, .record = {1}},
    {.what = "a loss that rank 0 alone tells", .kind = LOST, .from = 2, EVERYBODY, .words = 1, .record = {1}},
    {.what = "an orphan that is another", .kind = ADOPT, .from = 1},
    {.what = "a part of a run", .kind = BOARD, .from = 2, .ints = 2, .to = {1, 1}, .words = 1, .record = {1}},
    {.what = "a run past the last", .kind = BOARD, .from = 2, .ints = 3, .to = {1, 2, 3}, .words = 1, .record = {1}},
    {.what = "a run of none", .kind = BOARD, .from = 2, .ints = 3, .to = {1, 1, 0}, .words = 1, .record = {1}},
    {.what = "a run downwards", .kind = BOARD, .from = 2, .ints = 3, .to = {3, -1, 2}, .words = 1, .record = {1}},
    {.what = "a board of nothing", .kind = BOARD, .from = 2, EVERYBODY},
    {.what = "a board that is too long", .kind = BOARD, .from = 2, EVERYBODY, .words = 1, .record = {1}, .spoil = 99},
    {.what = "words that are missing", .kind = BOARD, .from = 2, EVERYBODY, .words = 1, .record = {1}, .spoil = 32},
    {.what = "a card without terms", .kind = CARD, .from = 2, .ints = 3, .to = {1, 1, 1}, .words = 8, .record = {0, 1}},
    {.what = "a slot that is none", .kind = CARD, .from = 2, EVERYBODY, .words = 8, .record = {256, 1, 1, 1}},
    {.what = "a way to leave that is none", .kind = CARD, .from = 2, EVERYBODY, .words = 8, .record = {0, 1, 4, 1}},
    {.what = "why without a failure",
     .kind = CARD,
     .from = 2,
     EVERYBODY,
     .words = 16,
     .record = {0, 1, 3, 1, [15] = 1}},
    {.what = "a state that is none", .kind = BOARD, .from = 2, EVERYBODY, .words = 1, .record = {2}},
    {.what = "an abort that is no failure", .kind = BOARD, .from = 2, EVERYBODY, .words = 2, .record = {0, 5}},
};

static void say_nonsense(const nonsense *n)
{
    static _Alignas(8) unsigned char bytes[4096];
    uint32_t packed[64] = {n->words + n->spoil};
    size_t content = n->words ? 4 * (1 + weft__pack(n->record, NULL, n->words, packed + 1)) : 0;
    weft__letter head = {.kind = n->kind, .from = n->from, .addressees = n->ints};
    size_t to = (size_t)n->ints * sizeof *n->to, all = sizeof head + to + content;
    head.bytes = n->bytes ? n->bytes : (uint32_t)all;
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, n->to, to);
    memcpy(bytes + sizeof head + to, packed, content);
    CHECK(send(find_link(), bytes, all, MSG_NOSIGNAL) == (ssize_t)all);
}

/* Rank 2 says it: rank 0 hears of it no more, and for the others it has ended. They go on. */
static void one_talks_nonsense(weft_world *world, void *argument)
{
    int rank = weft_world_rank(world);
    weft_comm *all = all_ranks(world, "all", NULL), *rest = NULL;
    if (rank != 2)
        rest = comm_of(world, "rest", (int[]){0, 1, 3}, 3);
    CHECK_OK(barrier(all));
    if (rank == 2)
        say_nonsense(argument);
    weft_result result = WEFT_OK;
    while (result == WEFT_OK) /* until it was heard of; the sender hears that its link has ended */
        result = barrier(all);
    CHECK_MSG(result == WEFT_E_PEER_LOST, "after %s: %s", ((nonsense *)argument)->what, weft_last_error());
    CHECK_HAS(weft_last_error(), rank == 2 ? "rank 0 has ended" : "rank 2 has ended");
    if (rank != 2) {
        CHECK_OK(barrier(rest));
        weft_comm *later = comm_of(world, "later", (int[]){3, 1, 0}, 3);
        CHECK_OK(barrier(later));
        weft_comm_destroy(later);
    }
    weft_comm_destroy(all);
    weft_comm_destroy(rest);
}

TEST(a_rank_that_talks_nonsense_is_heard_no_more)
{
    quiet();
    for (size_t i = 0; i < sizeof all_nonsense / sizeof *all_nonsense; i++) {
        nonsense one = all_nonsense[i];
        machines_run(4, two_and_two, NULL, one_talks_nonsense, &one);
    }
}

/* Letters by chance, from all sides: whatever comes of it, rank 0 and those who behave go on together. */
static void one_talks_at_random(weft_world *world, void *argument)
{
    int rank = weft_world_rank(world);
    weft_comm *rest = rank == 2 ? NULL : comm_of(world, "rest", (int[]){0, 1, 3}, 3);
    uint64_t seed = *(uint64_t *)argument;
    if (rank == 2) {
        unsigned char bytes[1024];
        uint32_t record[97], packed[128];
        int fd = dup(find_link()); /* its engine closes its own when rank 0 has had enough */
        for (int i = 0; i < 200; i++) {
            for (size_t b = 0; b < sizeof bytes; b++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                bytes[b] = (unsigned char)(seed >> 56) & (b < 16 ? 3 : 255);
            }
            const int to[] = {seed % 3 ? 0 : 1, 1, seed % 3 ? 4 : 1};
            uint32_t words = 1 + seed % 97;
            weft__letter head = {.kind = 1 + seed / 256 % 2, .from = 2, .addressees = 3};
            memcpy(record, bytes + 32, sizeof record);
            record[0] &= seed % 5 ? 255 : UINT32_MAX;
            record[2] &= seed % 5 ? 3 : UINT32_MAX;
            packed[0] = words;
            size_t content = 4 * (1 + weft__pack(record, NULL, words, packed + 1));
            head.bytes = (uint32_t)(sizeof head + sizeof to + content);
            memcpy(bytes, &head, sizeof head);
            memcpy(bytes + sizeof head, to, sizeof to);
            memcpy(bytes + sizeof head + sizeof to, packed, content);
            if (send(fd, bytes, head.bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                break;
        }
        close(fd);
    }
    for (int i = 0; i < 10 && rank != 2; i++) {
        weft_comm *later = comm_of(world, "later", (int[]){3, 1, 0}, 3);
        CHECK_OK(barrier(later));
        CHECK_OK(barrier(rest));
        weft_comm_destroy(later);
    }
    weft_comm_destroy(rest);
}

TEST(a_rank_that_talks_at_random_disturbs_nobody)
{
    quiet();
    for (uint64_t seed = 1; seed <= 20; seed++)
        machines_run(4, two_and_two, NULL, one_talks_at_random, &seed);
}
