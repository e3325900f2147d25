/* SPDX-License-Identifier: Apache-2.0 */
/* What making a comm of all ranks costs each of them when there are many: control channels of worlds without machines,
 * all in this process, whose letters are counted. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pack.h"
#include "bootstrap/identity.h"
#include "control_parts.h"
#include "harness/test.h"

enum { PER_MACHINE = 8, MOST = 128, CARD_BYTES = 1920, CARD_USED = 120 };

static const weft__card_key key = {77, 78};

typedef struct crowd {
    int size, epoll_fd;
    weft_world *worlds;
    weft__segment segments[MOST];
    weft__card *cards[MOST];
    weft__card_terms terms;
} crowd;

static void open_one(crowd *c, int rank)
{
    weft_world *w = &c->worlds[rank];
    size_t size = (size_t)c->size;
    w->rank = rank;
    w->size = c->size;
    w->config.rendezvous_timeout_ms = 1000;
    w->progress.seat = 1; /* somebody else is in it */
    w->segments = calloc(size, sizeof *w->segments);
    w->boards = calloc(size, sizeof *w->boards);
    w->lost = calloc(size, sizeof *w->lost);
    w->machine_of = calloc(size, sizeof *w->machine_of);
    for (int r = 0; r < c->size; r++) {
        w->machine_of[r] = r / PER_MACHINE;
        if (r / PER_MACHINE != rank / PER_MACHINE)
            continue;
        w->segments[r] = &c->segments[r];
        w->boards[r] = &c->segments[r].header->board;
    }
    w->own = &c->segments[rank];
    CHECK_OK(weft__control_open(w));
    weft__control_watch(w, c->epoll_fd, 0);
}

static void connect_two(int *links, int size, int a, int b)
{
    int pair[2];
    if (links[a * size + b] >= 0)
        return;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    links[a * size + b] = pair[0];
    links[b * size + a] = pair[1];
}

static crowd *open_crowd(int size)
{
    crowd *c = calloc(1, sizeof *c);
    int *links = malloc((size_t)size * (size_t)size * sizeof *links);
    c->size = size;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->worlds = calloc((size_t)size, sizeof *c->worlds);
    CHECK(c->epoll_fd >= 0 && c->worlds && links);
    memset(links, -1, (size_t)size * (size_t)size * sizeof *links);
    for (int r = 0; r < size; r++) {
        c->segments[r].header = weft__map_pages(sizeof *c->segments[r].header);
        CHECK(c->segments[r].header != NULL);
    }
    for (int r = 1; r < size; r++) {
        connect_two(links, size, r, 0);
        connect_two(links, size, r, weft__tree_place(r, size).parent);
    }
    for (int r = 0; r < size; r++) {
        int *own = malloc((size_t)size * sizeof *own);
        memcpy(own, links + r * size, (size_t)size * sizeof *own);
        open_one(c, r);
        CHECK_OK(weft__control_meet(&c->worlds[r], own));
    }
    free(links);
    return c;
}

static void close_crowd(crowd *c)
{
    for (int r = 0; r < c->size; r++) {
        weft_world *w = &c->worlds[r];
        for (int i = 0; i < w->control->count; i++) /* nobody waits for another in here */
            weft__link_close(&w->control->peers[i].link);
        weft__control_close(w);
        free(w->segments);
        free(w->boards);
        free((void *)w->lost);
        free(w->machine_of);
    }
    for (int r = 0; r < c->size; r++)
        weft__unmap_pages(c->segments[r].header, sizeof *c->segments[r].header);
    close(c->epoll_fd);
    free(c->worlds);
    free(c);
}

static uint64_t letters_of(const crowd *c)
{
    uint64_t letters = 0;
    for (int r = 0; r < c->size; r++)
        letters += atomic_load(&c->worlds[r].control->letters);
    return letters;
}

static bool all_is_flushed(const crowd *c)
{
    for (int r = 0; r < c->size; r++)
        for (int i = 0; i < c->worlds[r].control->count; i++)
            if (weft__link_is_behind(&c->worlds[r].control->peers[i].link))
                return false;
    return true;
}

/* Every rank hears all that is on its way. */
static void pump(crowd *c)
{
    uint64_t before;
    int quiet = 0;
    do {
        before = letters_of(c);
        for (int r = 0; r < c->size; r++)
            for (int i = 0; i < c->worlds[r].control->count; i++)
                weft__control_hear(&c->worlds[r], i);
        quiet = letters_of(c) == before && all_is_flushed(c) ? quiet + 1 : 0;
    } while (quiet < 2);
}

static void post_all(crowd *c)
{
    c->terms = (weft__card_terms){.weft_version = 1, .works = 64, .backend_card_bytes = CARD_BYTES};
    int all[MOST];
    for (int r = 0; r < c->size; r++)
        all[r] = r;
    weft__card_name_members(&c->terms, all, c->size);
    for (int r = 0; r < c->size; r++) {
        memset(c->terms.backend_card, r + 1, CARD_USED);
        weft_world *w = &c->worlds[r];
        c->cards[r] = weft__board_take(w->boards[r]);
        weft__board_post(c->cards[r], key, 1, &c->terms);
        weft__control_tell_card(w, c->cards[r], &c->terms, NULL, c->size);
    }
    pump(c);
}

static void expect_cards(const crowd *c, int from)
{
    weft__card_view view;
    for (int r = 0; r < c->size; r++) {
        if (c->worlds[r].control->peers[0].link.fd < 0)
            continue; /* it has ended */
        CHECK_MSG(weft__board_look(c->worlds[r].boards[from], key, 1, &view), "rank %d has not heard of rank %d", r,
                  from);
        CHECK_INT(view.terms.backend_card[CARD_USED - 1], from + 1);
        CHECK_INT(view.terms.backend_card[CARD_USED], 0);
    }
}

static uint64_t bytes_out(const crowd *c, int rank)
{
    return atomic_load(&c->worlds[rank].control->bytes_out);
}

static int links_of(const crowd *c, int rank)
{
    int links = 0;
    for (int i = 0; i < c->worlds[rank].control->count; i++)
        links += c->worlds[rank].control->peers[i].link.fd >= 0;
    return links;
}

TEST(a_comm_of_all_costs_no_rank_more_than_its_size)
{
    enum { LETTER = 480 }; /* bytes, with all that a card says: most of 2.4 KB is zero */
    uint64_t by_root[2], by_most[2] = {0};
    weft__tree_fan = 4;
    for (int i = 0; i < 2; i++) {
        int size = MOST / 2 << i;
        crowd *c = open_crowd(size);
        post_all(c);
        for (int r = 0; r < size; r++) {
            expect_cards(c, r);
            uint64_t bytes = bytes_out(c, r);
            by_most[i] = bytes > by_most[i] ? bytes : by_most[i];
            CHECK(r == 0 || links_of(c, r) <= 2 + weft__tree_fan);
        }
        by_root[i] = bytes_out(c, 0);
        test_note("%d ranks: rank 0 sends %llu bytes, no rank more than %llu", size, (unsigned long long)by_root[i],
                  (unsigned long long)by_most[i]);
        CHECK(by_root[i] <= (uint64_t)(weft__tree_fan * size * LETTER));
        CHECK(by_most[i] <= (uint64_t)((weft__tree_fan + 1) * size * LETTER));
        close_crowd(c);
    }
    CHECK(by_root[1] * 10 <= by_root[0] * 22);
    CHECK(by_most[1] * 10 <= by_most[0] * 22);
}

TEST(members_alone_are_sent_the_cards_of_a_comm)
{
    weft__tree_fan = 4;
    crowd *c = open_crowd(64);
    c->terms = (weft__card_terms){.weft_version = 1, .backend_card_bytes = 8};
    const int members[] = {8, 16};
    for (int i = 0; i < 2; i++) {
        weft_world *w = &c->worlds[members[i]];
        weft__card *card = weft__board_take(w->boards[members[i]]);
        weft__board_post(card, key, 1, &c->terms);
        weft__control_tell_card(w, card, &c->terms, members, 2);
    }
    pump(c);
    CHECK_INT(weft__board_latest(c->worlds[8].boards[16], key), 1);
    CHECK_INT(weft__board_latest(c->worlds[16].boards[8], key), 1);
    uint64_t letters = letters_of(c);
    CHECK_MSG(letters <= 12, "%llu letters", (unsigned long long)letters); /* each up and down three steps at most */
    close_crowd(c);
}

TEST(a_verdict_is_told_once)
{
    weft__tree_fan = 4;
    crowd *c = open_crowd(64);
    post_all(c);
    uint64_t before = letters_of(c), root = atomic_load(&c->worlds[0].control->letters);
    weft__card_say_why(&c->terms, WEFT_E_ABORTED, "because");
    for (int r = 0; r < c->size; r++) { /* the first, and all others that notice it themselves */
        weft__board_fail(c->cards[r], &c->terms);
        weft__control_tell_card(&c->worlds[r], c->cards[r], &c->terms, NULL, c->size);
    }
    pump(c);
    for (int r = 0; r < c->size; r++) {
        int heard = 0;
        for (int s = 0; s < c->size; s++)
            heard += atomic_load(&c->worlds[r].boards[s]->reasons) > 0;
        CHECK_MSG(heard > 1, "rank %d was not told", r);
    }
    uint64_t letters = letters_of(c) - before;
    root = atomic_load(&c->worlds[0].control->letters) - root;
    test_note("%llu letters of %d ranks, %llu of rank 0", (unsigned long long)letters, c->size,
              (unsigned long long)root);
    CHECK(root <= (uint64_t)weft__tree_fan && letters <= 4 * (uint64_t)c->size);
    close_crowd(c);
}

/* What was on its way is lost with it. */
TEST(rank_0_takes_the_place_of_who_passed_on_letters)
{
    weft__tree_fan = 4;
    crowd *c = open_crowd(64);
    int dead = 16, orphan = 17; /* 0 has 1, 16, 32 and 48 */
    CHECK_INT(weft__tree_place(dead, 64).parent, 0);
    CHECK_INT(weft__tree_place(orphan, 64).parent, dead);
    for (int i = 0; i < c->worlds[dead].control->count; i++)
        weft__link_close(&c->worlds[dead].control->peers[i].link);
    post_all(c); /* its own cannot be told */
    for (int r = 0; r < c->size; r++) {
        if (r != dead)
            expect_cards(c, r);
        CHECK_INT(atomic_load(&c->worlds[r].lost[dead]), r == dead ? 0 : WEFT__LOST_ENDED);
    }
    uint64_t before = bytes_out(c, 0);
    for (int r = 0; r < c->size; r++) { /* all goes on */
        if (r == dead)
            continue;
        weft__board_leave(c->cards[r]);
        weft__control_tell_card(&c->worlds[r], c->cards[r], &c->terms, NULL, c->size);
    }
    pump(c);
    for (int r = 0; r < c->size; r++)
        for (int s = 0; s < c->size; s++)
            CHECK(r == dead || s == dead || weft__board_has_left(c->worlds[r].boards[s], key, 1));
    CHECK(bytes_out(c, 0) - before <= (uint64_t)(3 * weft__tree_fan * c->size * 128));
    close_crowd(c);
}

/* ------------------------------------------------------------------------------------------- the parts */

TEST(every_rank_has_its_place_in_the_tree)
{
    static const int sizes[] = {1, 2, 17, 18, 64, 1000, 10000}, depths[] = {0, 1, 1, 2, 2, 3, 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int deepest = 0;
        for (int r = 0; r < sizes[i]; r++) {
            weft__place place = weft__tree_place(r, sizes[i]);
            int depth = 0, next = r + 1;
            CHECK(place.rank == r && place.children <= WEFT__TREE_FAN);
            for (int k = 0; k < place.children; k++) { /* they share out what it stands for */
                CHECK_INT(weft__tree_child(&place, k), next);
                weft__place child = weft__tree_place(next, sizes[i]);
                CHECK_INT(child.parent, r);
                next = child.end;
            }
            CHECK_INT(next, place.end);
            for (int up = r; up > 0; up = weft__tree_place(up, sizes[i]).parent)
                depth++;
            deepest = depth > deepest ? depth : deepest;
        }
        CHECK_INT(deepest, depths[i]);
    }
}

TEST(what_ranks_of_a_machine_say_of_themselves_travels_in_few_bytes)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    weft__identity before = {0}, own, back, copy;
    uint32_t packed[sizeof own / 2];
    size_t words = sizeof own / 4, all = 0;
    CHECK_OK(weft__identity_find(0, 64, &config, &own));
    memset(&back, 0, sizeof back);
    for (int r = 0; r < 64; r++) {
        own.rank = r;
        own.pid = 1000 + r;
        memset(own.cpus, 0, sizeof own.cpus);
        own.cpus[r / 64] = (uint64_t)1 << r % 64;
        own.machine[0] = own.host[0] = (char)('a' + r / PER_MACHINE);
        size_t used = weft__pack(&own, &before, words, packed);
        CHECK_INT(weft__unpack(packed, used, &back, words, &copy), used);
        CHECK(memcmp(&copy, &own, sizeof own) == 0);
        CHECK_INT(weft__unpack(packed, used - 1, &back, words, &copy), 0);
        back = before = own;
        all += used * 4;
    }
    test_note("%zu bytes a rank", all / 64);
    CHECK(all / 64 <= 64);
}

TEST(hosts_are_numbered_by_their_lowest_rank)
{
    enum { RANKS = 10000 };
    weft__identity *all = calloc(RANKS, sizeof *all);
    int *host_of = malloc(RANKS * sizeof *host_of), *machine_of = malloc(RANKS * sizeof *machine_of);
    for (int r = 0; r < RANKS; r++) {
        snprintf(all[r].host, sizeof all[r].host, "host %d", r / PER_MACHINE);
        snprintf(all[r].machine, sizeof all[r].machine, "machine %d", r % 100);
    }
    CHECK_OK(weft__identity_number(all, RANKS, host_of, machine_of));
    for (int r = 0; r < RANKS; r++) {
        CHECK_INT(host_of[r], r / PER_MACHINE);
        CHECK_INT(machine_of[r], r % 100);
    }
    free(all);
    free(host_of);
    free(machine_of);
}

TEST(runs_of_ranks_hold_what_they_were_made_of)
{
    static const struct {
        int ranks[8], count, runs;
    } lists[] = {
        {{0, 1, 2, 3}, 4, 1}, {{5}, 1, 1},          {{0, 8, 16, 24}, 4, 1},      {{3, 2, 1}, 3, 3},
        {{4, 2, 1, 3}, 4, 3}, {{0, 1, 8, 9}, 4, 2}, {{0, 3, 4, 5, 9, 10}, 6, 3}, {{7, 9000}, 2, 1},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        weft__rank_run runs[8], around = weft__runs_around(lists[i].ranks, lists[i].count);
        int count = weft__runs_of(lists[i].ranks, lists[i].count, runs, 8), found = 0;
        CHECK_INT(count, lists[i].runs);
        CHECK_INT(weft__runs_of(lists[i].ranks, lists[i].count, runs, lists[i].runs - 1), 0);
        CHECK(weft__runs_are_sound(runs, count, 9001) && weft__runs_are_sound(&around, 1, 9001));
        for (int r = 0; r < 9001; r++) {
            bool is_one = false;
            for (int k = 0; k < lists[i].count; k++)
                is_one |= lists[i].ranks[k] == r;
            CHECK_INT(weft__runs_meet(runs, count, r, r + 1), is_one);
            CHECK(!is_one || weft__runs_meet(&around, 1, r, r + 1));
            found += is_one;
        }
        CHECK_INT(found, lists[i].count);
        CHECK(!weft__runs_meet(runs, count, 10, 10));
    }
    CHECK(!weft__runs_are_sound(&(weft__rank_run){8, 1, 3}, 1, 10));
    CHECK(!weft__runs_are_sound(&(weft__rank_run){0, INT32_MAX, 1}, 1, 10));
    CHECK(weft__runs_are_sound(&(weft__rank_run){0, 3, 4}, 1, 10));
}

TEST(a_list_that_is_cut_says_so)
{
    char text[40];
    int ranks[20];
    for (int i = 0; i < 20; i++)
        ranks[i] = i;
    weft__ranks_name(ranks, 3, text, sizeof text);
    CHECK_STR(text, "0, 1, 2");
    weft__ranks_name(ranks, 20, text, sizeof text);
    CHECK_STR(text, "0, 1, 2, 3, 4, 5, 6, 7, ...");
}
