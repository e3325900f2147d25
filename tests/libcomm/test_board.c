/* SPDX-License-Identifier: Apache-2.0 */
/* Boards: a card is found by what it is for, and nobody ever takes half of one and half of another. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "harness/test.h"
#include "shared/board.h"

static weft__board *new_board(void)
{
    return weft__map_pages(sizeof(weft__board));
}

static void free_board(weft__board *board)
{
    weft__unmap_pages(board, sizeof *board);
}

static const weft__card_key key = {11, 22}, other_key = {11, 33}, third_key = {44, 22};

/* Terms in which every field follows from 1p number. */
static weft__card_terms terms_of(uint32_t number)
{
    weft__card_terms terms = {.weft_version = number,
                              .works = number,
                              .p2p_channels = number,
                              .timeout_ms = number,
                              .flags = number,
                              .backend_card_bytes = 64 + number % 1500};
    snprintf(terms.ranks, sizeof terms.ranks, "%u, %u, %u, %u", number, number, number, number);
    memset(terms.backend_card, (int)(number % 251), terms.backend_card_bytes);
    return terms;
}

static void expect_number(const weft__card_terms *terms, uint32_t number)
{
    weft__card_terms want = terms_of(number);
    CHECK_INT(terms->weft_version, number);
    CHECK_STR(terms->ranks, want.ranks);
    CHECK_INT(terms->flags, number);
    CHECK_INT(terms->backend_card_bytes, want.backend_card_bytes);
    for (uint32_t i = 0; i < want.backend_card_bytes; i++)
        CHECK_INT(terms->backend_card[i], want.backend_card[i]);
}

static void post(weft__board *board, weft__card **card, weft__card_key k, uint32_t number)
{
    weft__card_terms terms = terms_of(number);
    *card = weft__board_take(board);
    CHECK(*card != NULL);
    weft__board_post(*card, k, number, &terms);
}

/* ------------------------------------------------------------------------------------------- finding */

TEST(a_card_is_found_by_key_and_number_or_the_latest_is)
{
    weft__board *board = new_board();
    weft__card *first, *second, *other;
    weft__card_view view;
    CHECK(!weft__board_look(board, key, 1, &view));
    CHECK_INT(weft__board_latest(board, key), 0);
    post(board, &first, key, 1);
    post(board, &other, other_key, 9);
    post(board, &second, key, 2);
    CHECK(weft__board_look(board, key, 1, &view));
    expect_number(&view.terms, 1);
    CHECK_INT(view.left, WEFT__CARD_STAYS);
    CHECK(weft__board_look(board, key, 5, &view));
    CHECK_INT(view.incarnation, 2);
    expect_number(&view.terms, 2);
    CHECK(!weft__board_look(board, third_key, 1, &view));
    CHECK_INT(weft__board_latest(board, key), 2);
    weft__board_leave(first);
    weft__board_remove(first, 1);
    CHECK(weft__board_look(board, key, 1, &view));
    CHECK_INT(view.incarnation, 2);
    free_board(board);
}

TEST(a_card_says_why_once_it_does_not_stay)
{
    weft__board *board = new_board();
    weft__card *card;
    weft__card_view view;
    post(board, &card, key, 1);
    CHECK(weft__board_look(board, key, 1, &view) && !weft__card_says_why(&view));
    weft__card_terms terms = terms_of(1);
    weft__card_say_why(&terms, WEFT_E_TIMEOUT, "too late");
    weft__board_fail(card, &terms);
    CHECK(weft__board_look(board, key, 1, &view) && weft__card_says_why(&view));
    CHECK(!weft__board_has_left(board, key, 1));
    weft__board_leave(card); /* it says so until the last */
    CHECK(weft__board_look(board, key, 1, &view) && weft__card_says_why(&view));
    CHECK_INT(view.terms.verdict, WEFT_E_TIMEOUT);
    CHECK_STR(view.terms.verdict_text, "too late");
    CHECK(weft__board_has_left(board, key, 1));
    CHECK(weft__board_has_left(board, key, 2));
    free_board(board);
}

TEST(rivals_are_comms_of_the_same_name_with_this_rank)
{
    weft__board *board = new_board();
    weft__card *card = weft__board_take(board);
    weft__card_terms terms = terms_of(1);
    weft__card_name_members(&terms, (int[]){5, 9000}, 2);
    weft__board_post(card, other_key, 3, &terms);
    weft__card_key rival;
    weft__card_view view;
    CHECK(!weft__board_find_rival(board, key, 4, 0, &rival, &view));
    CHECK(!weft__board_find_rival(board, other_key, 5, 0, &rival, &view));
    CHECK(!weft__board_find_rival(board, third_key, 5, 0, &rival, &view));
    CHECK(!weft__board_find_rival(board, key, 8999, 0, &rival, &view));
    CHECK(weft__board_find_rival(board, key, 9000, 0, &rival, &view));
    CHECK(weft__board_find_rival(board, key, 5, 0, &rival, &view));
    CHECK_INT(rival.ranks, other_key.ranks);
    CHECK_INT(view.incarnation, 3);
    terms.given_up_ns = 100;
    terms.verdict = WEFT_E_ABORTED;
    weft__board_give_up(card, &terms);
    CHECK(weft__board_find_rival(board, key, 5, 100, &rival, &view));
    CHECK(!weft__board_find_rival(board, key, 5, 101, &rival, &view));
    weft__board_leave(card);
    CHECK(!weft__board_find_rival(board, key, 5, 0, &rival, &view));
    free_board(board);
}

TEST(cards_run_out_and_those_that_were_spent_first_are_had_again)
{
    weft__board *board = new_board();
    weft__card *cards[WEFT__CARDS];
    for (uint32_t i = 0; i < WEFT__CARDS; i++)
        post(board, &cards[i], (weft__card_key){1000 + i, 1}, 1);
    CHECK(weft__board_take(board) == NULL);
    weft__card_terms terms = terms_of(1);
    weft__board_give_up(cards[7], &terms);
    weft__board_remove(cards[7], 50);
    weft__board_give_up(cards[9], &terms);
    weft__board_remove(cards[9], 40);
    weft__card_view view;
    CHECK(weft__board_look(board, (weft__card_key){1007, 1}, 1, &view)); /* who is late still sees it */
    CHECK(weft__board_take(board) == cards[9]);
    CHECK(!weft__board_look(board, (weft__card_key){1009, 1}, 1, &view));
    CHECK(weft__board_take(board) == cards[7]);
    CHECK(weft__board_take(board) == NULL);
    free_board(board);
}

/* Cards lie far apart, and a comm may have a thousand members whose boards are looked at: whoever looks reads none of
 * another name. */
TEST(who_looks_reads_no_cards_of_other_names)
{
    weft__board *board = new_board();
    weft__card *card;
    weft__card_view view;
    weft__card_key rival;
    for (int i = 0; i < WEFT__CARDS; i++)
        post(board, &card, key, (uint32_t)i + 1);
    size_t head = offsetof(weft__board, cards) / WEFT__PAGE * WEFT__PAGE + WEFT__PAGE;
    CHECK(mprotect((char *)board + head, sizeof *board / WEFT__PAGE * WEFT__PAGE - head, PROT_NONE) == 0);
    CHECK(!weft__board_look(board, third_key, 1, &view));
    CHECK(weft__board_has_left(board, third_key, 1));
    CHECK_INT(weft__board_latest(board, third_key), 0);
    CHECK(!weft__board_find_rival(board, third_key, 0, 0, &rival, &view));
    CHECK(mprotect((char *)board + head, sizeof *board / WEFT__PAGE * WEFT__PAGE - head, PROT_READ | PROT_WRITE) == 0);
    CHECK(weft__board_look(board, key, 200, &view) && view.incarnation == 200);
    free_board(board);
}

/* Who watches for reasons looks at one number a board. */
TEST(a_board_counts_the_reasons_on_its_cards)
{
    weft__board *board = new_board();
    weft__card *card;
    weft__card_terms terms = terms_of(1);
    post(board, &card, key, 1);
    weft__board_renew(card, &terms);
    CHECK_INT(atomic_load(&board->reasons), 0);
    weft__card_say_why(&terms, WEFT_E_ABORTED, "because");
    weft__board_fail(card, &terms);
    CHECK_INT(atomic_load(&board->reasons), 1);
    weft__board_leave(card);
    CHECK_INT(atomic_load(&board->reasons), 1);
    weft__board_copy(board, 5, key, 2, WEFT__CARD_STAYS, 2, &terms);
    CHECK_INT(atomic_load(&board->reasons), 1);
    weft__board_copy(board, 5, key, 2, WEFT__CARD_GAVE_UP, 3, &terms);
    CHECK_INT(atomic_load(&board->reasons), 2);
    weft__board_copy(board, 5, key, 2, WEFT__CARD_LEFT, 4, NULL);
    CHECK_INT(atomic_load(&board->reasons), 2);
    free_board(board);
}

/* ------------------------------------------------------------------------------------------- copies */

TEST(a_copy_says_what_the_card_says)
{
    weft__board *board = new_board();
    weft__card_terms terms = terms_of(4);
    weft__card_view view;
    weft__board_copy(board, 17, key, 4, WEFT__CARD_LEFT, 5, NULL); /* of a card that was not heard of */
    CHECK(!weft__board_look(board, key, 4, &view));
    weft__board_copy(board, 17, key, 4, WEFT__CARD_STAYS, 6, &terms);
    CHECK(weft__board_look(board, key, 4, &view));
    expect_number(&view.terms, 4);
    weft__board_copy(board, 17, key, 4, WEFT__CARD_LEFT, 7, NULL);
    CHECK(weft__board_look(board, key, 4, &view));
    expect_number(&view.terms, 4);
    CHECK_INT(view.left, WEFT__CARD_LEFT);
    terms = terms_of(5);
    weft__board_copy(board, 17, key, 5, WEFT__CARD_STAYS, 8, &terms); /* the same comm, made again */
    CHECK(weft__board_look(board, key, 4, &view));
    CHECK_INT(view.incarnation, 5);
    expect_number(&view.terms, 5);
    terms = terms_of(6);
    weft__board_copy(board, 17, third_key, 6, WEFT__CARD_STAYS, 9, &terms); /* and another one */
    CHECK(!weft__board_look(board, key, 5, &view));
    CHECK(weft__board_look(board, third_key, 6, &view));
    free_board(board);
}

/* Letters may come by several ways. */
TEST(a_copy_takes_no_older_word_for_a_later_one)
{
    weft__board *board = new_board();
    weft__card_terms terms = terms_of(4), later = terms_of(5);
    weft__card_view view;
    weft__board_copy(board, 17, key, 5, WEFT__CARD_STAYS, 8, &later);
    weft__board_copy(board, 17, key, 4, WEFT__CARD_STAYS, 7, &terms);
    weft__board_copy(board, 17, key, 5, WEFT__CARD_FAILED, 8, &later);
    CHECK(weft__board_look(board, key, 5, &view) && view.incarnation == 5);
    expect_number(&view.terms, 5);
    CHECK_INT(view.left, WEFT__CARD_STAYS);
    weft__board_copy(board, 17, key, 5, WEFT__CARD_LEFT, 9, NULL);
    weft__board_copy(board, 17, key, 5, WEFT__CARD_STAYS, 8, &later);
    CHECK(weft__board_look(board, key, 5, &view) && view.left == WEFT__CARD_LEFT);
    free_board(board);
}

/* ------------------------------------------------------------------------------------------- at the same time */

typedef struct race {
    weft__board *board;
    bool copies;
    _Atomic bool stop;
    _Atomic long looks;
} race;

/* Numbers of one key and of another one, in the same place one after the other, as soon as possible. */
static void *write_cards(void *argument)
{
    race *r = argument;
    weft__card_terms gone;
    for (uint32_t n = 1; !atomic_load(&r->stop); n++) {
        weft__card_terms terms = terms_of(n);
        weft__card_key k = n % 3 ? key : third_key;
        if (r->copies) {
            weft__board_copy(r->board, 0, k, n, WEFT__CARD_STAYS, 3 * n, &terms);
            weft__card_say_why(&terms, -1 - (int)(n % 20), terms.ranks);
            weft__board_copy(r->board, 0, k, n, WEFT__CARD_FAILED, 3 * n + 1, &terms);
            weft__board_copy(r->board, 0, k, n, WEFT__CARD_LEFT, 3 * n + 2, NULL);
        } else {
            weft__card *card = weft__board_take(r->board);
            weft__board_post(card, k, n, &terms);
            gone = terms;
            weft__card_say_why(&gone, -1 - (int)(n % 20), terms.ranks);
            weft__board_give_up(card, &gone);
            weft__board_remove(card, 0); /* the next one takes it again */
            if (n == 1)                  /* only one place is left */
                for (int i = 1; i < WEFT__CARDS; i++)
                    r->board->cards[i].use = WEFT__CARD_TAKEN;
        }
    }
    return NULL;
}

static void look_while_written(bool copies)
{
    race r = {.board = new_board(), .copies = copies};
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, write_cards, &r) == 0);
    long seen = 0, wanted = test_is_slow() ? 500 : 5000;
    uint32_t latest = 0;
    while (seen < wanted) {
        weft__card_view view;
        weft__card_key k = seen % 2 ? key : third_key;
        if (!weft__board_look(r.board, k, latest, &view)) {
            sched_yield(); /* the writer may want this core */
            continue;
        }
        seen++;
        expect_number(&view.terms, view.incarnation);
        CHECK_INT(view.incarnation % 3 != 0, k.name == key.name);
        CHECK(view.incarnation >= latest);
        latest = view.incarnation;
        if (weft__card_says_why(&view)) {
            CHECK_INT(view.terms.verdict, -1 - (int)(view.incarnation % 20));
            CHECK_STR(view.terms.verdict_text, view.terms.ranks);
        }
        if (view.left == WEFT__CARD_GAVE_UP || view.left == WEFT__CARD_FAILED)
            CHECK(weft__card_says_why(&view));
    }
    atomic_store(&r.stop, true);
    pthread_join(writer, NULL);
    free_board(r.board);
}

TEST(a_card_that_changes_is_never_taken_half)
{
    look_while_written(false);
}

TEST(a_copy_that_changes_is_never_taken_half)
{
    look_while_written(true);
}

/* ------------------------------------------------------------------------------------------- many */

static long resident_kib(void)
{
    struct rusage use;
    CHECK(getrusage(RUSAGE_SELF, &use) == 0);
    return use.ru_maxrss;
}

/* 1000 ranks on other machines, with a comm each: the copies of their boards take about as much as they say. */
TEST(boards_take_the_memory_of_what_is_on_them)
{
    enum { RANKS = 1000 };
    if (test_is_slow())
        test_skip("sanitizers have memory of their own");
    weft__board *boards = weft__map_pages(RANKS * sizeof *boards);
    CHECK(boards != NULL);
    CHECK(madvise(boards, RANKS * sizeof *boards, MADV_NOHUGEPAGE) == 0);
    long before = resident_kib();
    weft__card_terms terms = terms_of(1);
    weft__card_view view;
    for (int r = 0; r < RANKS; r++) {
        weft__board_copy(&boards[r], 0, key, 1, WEFT__CARD_STAYS, 13, &terms);
        CHECK(!weft__board_look(&boards[r], third_key, 1, &view)); /* all cards were looked at */
    }
    long used = resident_kib() - before;
    test_note("%d boards of %zu KiB: %ld KiB in use", RANKS, sizeof *boards / 1024, used);
    CHECK_MSG(used < RANKS * 32L, "%ld KiB", used);
    weft__unmap_pages(boards, RANKS * sizeof *boards);
}
