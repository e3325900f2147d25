/* SPDX-License-Identifier: Apache-2.0 */
/* Letters over a socket pair: whole, in order and unchanged, however the bytes come; garbage ends what follows it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/log.h>

#include "base/memory.h"
#include "bootstrap/link.h"
#include "harness/test.h"

static void quiet_line(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

/* A link, and the other end of its socket. */
typedef struct ends {
    weft__link link;
    int raw;
} ends;

static ends open_ends(void)
{
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    ends e = {.raw = fds[1]};
    CHECK(fcntl(e.raw, F_SETFL, O_NONBLOCK) == 0);
    e.link.fd = fds[0]; /* opened where it stays, by the caller */
    return e;
}

#define OPEN_ENDS(e)      \
    ends e = open_ends(); \
    weft__link_open(&e.link, e.link.fd)

static void close_ends(ends *e)
{
    weft__link_close(&e->link);
    close(e->raw);
}

static uint64_t seed = 1;

static uint32_t random_below(uint32_t most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % most;
}

/* ------------------------------------------------------------------------------------------- letters to compare */

/* Letter @p number: everything in it follows from its number. */
static weft__letter head_of(uint32_t number, uint32_t most_content)
{
    uint32_t words = number * 2654435761u % (most_content / 4 + 1);
    int addressees = (int)(number % 5);
    return (weft__letter){.bytes = (uint32_t)sizeof(weft__letter) + 4 * ((uint32_t)addressees + words),
                          .kind = number,
                          .from = (int32_t)(number ^ 0x55),
                          .addressees = addressees};
}

static void fill(uint32_t number, const weft__letter *head, int *addressees, uint32_t *content)
{
    for (int i = 0; i < head->addressees; i++)
        addressees[i] = (int)number + i;
    for (size_t i = 0; i < weft__letter_content_bytes(head) / 4; i++)
        content[i] = number * 31 + (uint32_t)i;
}

static bool send_number(weft__link *link, uint32_t number, uint32_t most, bool at_once)
{
    static uint32_t content[WEFT__LETTER_MOST / 4];
    int addressees[4];
    weft__letter head = head_of(number, most);
    fill(number, &head, addressees, content);
    return (at_once ? weft__link_send : weft__link_put)(link, &head, addressees, content);
}

static void expect_number(const weft__letter *letter, uint32_t number, uint32_t most)
{
    weft__letter want = head_of(number, most);
    CHECK(memcmp(letter, &want, sizeof want) == 0);
    for (int i = 0; i < want.addressees; i++)
        CHECK_INT(weft__letter_addressees(letter)[i], (int)number + i);
    CHECK_INT(weft__letter_content_bytes(letter), weft__letter_content_bytes(&want));
    const uint32_t *content = weft__letter_content(letter);
    for (size_t i = 0; i < weft__letter_content_bytes(&want) / 4; i++)
        CHECK_INT(content[i], number * 31 + (uint32_t)i);
}

/* Take all that are there, from number @p from on; returns the next. */
static uint32_t take_numbers(weft__link *link, uint32_t from, uint32_t most)
{
    bool sound;
    const weft__letter *letter;
    while ((letter = weft__link_next(link, &sound)))
        expect_number(letter, from++, most);
    CHECK(sound);
    return from;
}

/* ------------------------------------------------------------------------------------------- reading */

static size_t write_number(unsigned char *bytes, uint32_t number, uint32_t most)
{
    weft__letter head = head_of(number, most);
    memcpy(bytes, &head, sizeof head);
    int *addressees = (int *)(bytes + sizeof head);
    fill(number, &head, addressees, (uint32_t *)(addressees + head.addressees));
    return head.bytes;
}

TEST(letters_may_come_in_pieces_of_any_size)
{
    enum { COUNT = 60, MOST = 300 };
    static _Alignas(8) unsigned char bytes[COUNT * (MOST + 64)];
    size_t all = 0;
    for (uint32_t n = 0; n < COUNT; n++)
        all += write_number(bytes + all, n, MOST);
    for (size_t piece = 1; piece < 40; piece++) {
        OPEN_ENDS(e);
        uint32_t next = 0;
        for (size_t at = 0; at < all; at += piece) {
            size_t n = all - at < piece ? all - at : piece;
            CHECK(write(e.raw, bytes + at, n) == (ssize_t)n);
            CHECK(weft__link_receive(&e.link));
            next = take_numbers(&e.link, next, MOST);
        }
        CHECK_INT(next, COUNT);
        CHECK(e.link.in.bytes == NULL); /* between bursts a link holds no memory */
        close_ends(&e);
    }
}

TEST(letters_that_came_before_the_end_are_there)
{
    OPEN_ENDS(e);
    static _Alignas(8) unsigned char bytes[4096];
    size_t whole = write_number(bytes, 3, 300), more = write_number(bytes + whole, 4, 300);
    CHECK(write(e.raw, bytes, whole + more - 1) == (ssize_t)(whole + more - 1));
    close(e.raw);
    CHECK(!weft__link_receive(&e.link));
    CHECK_INT(take_numbers(&e.link, 3, 300), 4); /* the cut one never comes */
    weft__link_close(&e.link);
    CHECK(!weft__link_receive(&e.link));
    CHECK(!send_number(&e.link, 1, 300, true));
    CHECK(weft__link_flush(&e.link));
    weft__link_close(&e.link); /* once more is fine */
}

TEST(heads_that_make_no_sense_are_told)
{
    static const weft__letter bad[] = {
        {.bytes = 0},
        {.bytes = sizeof(weft__letter) - 4},
        {.bytes = sizeof(weft__letter) + 1},
        {.bytes = WEFT__LETTER_MOST + 4},
        {.bytes = UINT32_MAX & ~3u},
        {.bytes = sizeof(weft__letter), .addressees = 1},
        {.bytes = sizeof(weft__letter) + 4, .addressees = -1},
        {.bytes = sizeof(weft__letter) + 4, .addressees = 2},
        {.bytes = sizeof(weft__letter) + 4, .addressees = INT32_MAX},
        {.bytes = sizeof(weft__letter) + 4, .addressees = INT32_MIN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        OPEN_ENDS(e);
        static _Alignas(8) unsigned char bytes[4096];
        size_t good = write_number(bytes, 9, 100);
        memcpy(bytes + good, &bad[i], sizeof bad[i]);
        CHECK(write(e.raw, bytes, good + sizeof bad[i]) == (ssize_t)(good + sizeof bad[i]));
        CHECK(weft__link_receive(&e.link));
        bool sound;
        expect_number(weft__link_next(&e.link, &sound), 9, 100);
        CHECK(sound);
        CHECK(!weft__link_next(&e.link, &sound));
        CHECK_MSG(!sound, "head %zu was taken", i);
        close_ends(&e);
    }
    /* The largest that makes sense. */
    OPEN_ENDS(e);
    weft__letter head = {.bytes = WEFT__LETTER_MOST};
    CHECK(write(e.raw, &head, sizeof head) == sizeof head);
    CHECK(weft__link_receive(&e.link));
    bool sound;
    CHECK(!weft__link_next(&e.link, &sound));
    CHECK(sound);
    close_ends(&e);
}

TEST(one_turn_of_reading_is_bounded)
{
    OPEN_ENDS(e);
    weft__link other;
    weft__link_open(&other, e.raw);
    for (uint32_t n = 0; n < 200; n++)
        CHECK(send_number(&other, n * 5, 1 << 16, true));
    uint32_t next = 0;
    size_t most = 0;
    while (next < 200) {
        (void)weft__link_flush(&other);
        CHECK(weft__link_receive(&e.link));
        most = e.link.in.room > most ? e.link.in.room : most;
        bool sound;
        for (const weft__letter *letter; (letter = weft__link_next(&e.link, &sound)); next++)
            expect_number(letter, next * 5, 1 << 16);
        CHECK(sound);
    }
    CHECK(most <= 4 * WEFT__LETTER_MOST);
    weft__link_close(&other);
    weft__link_close(&e.link);
}

/* ------------------------------------------------------------------------------------------- writing */

TEST(what_a_full_socket_does_not_take_waits_in_memory)
{
    OPEN_ENDS(e);
    weft__link other;
    weft__link_open(&other, e.raw);
    int small = 4096;
    CHECK(setsockopt(e.link.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    enum { COUNT = 2000, MOST = 3000 };
    for (uint32_t n = 0; n < COUNT; n++)
        CHECK(send_number(&e.link, n, MOST, n % 3 != 0));
    CHECK(weft__link_is_behind(&e.link));
    CHECK(!weft__link_flush(&e.link));
    uint32_t next = 0;
    while (next < COUNT) {
        (void)weft__link_flush(&e.link);
        CHECK(weft__link_receive(&other));
        next = take_numbers(&other, next, MOST);
    }
    CHECK(weft__link_flush(&e.link));
    CHECK(e.link.out.bytes == NULL && other.in.bytes == NULL);
    weft__link_close(&other);
    weft__link_close(&e.link);
}

/* A letter of 1000 bytes that says which it is. */
static bool send_about(weft__link *link, int from, uint32_t topic, uint32_t number)
{
    uint32_t content[250] = {number};
    weft__letter head = {
        .bytes = sizeof head + sizeof(int) + sizeof content, .kind = 7, .from = from, .addressees = 1, .topic = topic};
    return weft__link_send(link, &head, &(int){(int)topic % 2}, content);
}

/* Three senders talk about four topics again and again, and now and then about none. Whatever was dropped meanwhile,
 * the last word of each on each is there, all that has no topic, and everything in its order. */
TEST(of_letters_on_one_topic_the_last_one_waits)
{
    enum { COUNT = 60000, FROM = 3, TOPICS = 5, APART = 1000 };
    OPEN_ENDS(e);
    weft__link other;
    weft__link_open(&other, e.raw);
    uint32_t last[FROM][TOPICS] = {{0}}, none = 0, wanted_none = 0, heard = 0;
    size_t most = 0;
    for (uint32_t n = 1; n <= COUNT; n++) {
        int from = (int)random_below(FROM);
        uint32_t topic = n % APART == 0 ? 0 : 1 + random_below(TOPICS - 1);
        wanted_none += topic == 0;
        last[from][topic] = n;
        CHECK(send_about(&e.link, from, topic, n));
        most = e.link.out.room > most ? e.link.out.room : most;
    }
    CHECK_MSG(most < 512 << 10, "%zu bytes for letters of which most say nothing any more", most);
    bool behind = true;
    while (behind) {
        behind = !weft__link_flush(&e.link);
        CHECK(weft__link_receive(&other));
        bool sound;
        for (const weft__letter *letter; (letter = weft__link_next(&other, &sound));) {
            uint32_t number = *(const uint32_t *)weft__letter_content(letter);
            CHECK(number > heard);
            heard = number;
            none += letter->topic == 0;
            if (last[letter->from][letter->topic] == number)
                last[letter->from][letter->topic] = 0;
        }
        CHECK(sound);
    }
    CHECK_INT(none, wanted_none);
    for (int from = 0; from < FROM; from++)
        for (int topic = 1; topic < TOPICS; topic++)
            CHECK_INT(last[from][topic], 0);
    weft__link_close(&other);
    weft__link_close(&e.link);
}

TEST(a_reader_that_lets_too_much_wait_is_given_up)
{
    OPEN_ENDS(e);
    e.link.most = 256 << 10;
    uint32_t n = 1;
    while (n < 100000 && send_about(&e.link, 0, n, n))
        n++;
    CHECK(e.link.overrun);
    size_t waits = e.link.out.end - e.link.out.begin;
    CHECK_MSG(waits <= 258 << 10 && waits > 250 << 10, "%zu bytes wait", waits);
    CHECK(!weft__link_receive(&e.link)); /* and so its owner learns of it */
    close_ends(&e);
}

TEST(a_letter_that_the_socket_takes_needs_no_memory)
{
    OPEN_ENDS(e);
    long before = weft__alloc_count();
    CHECK(send_number(&e.link, 4, 300, true));
    CHECK_INT(weft__alloc_count(), before);
    CHECK(!weft__link_is_behind(&e.link));
    close_ends(&e);
}

TEST(want_of_memory_ends_the_link)
{
    weft_log_set(WEFT_LOG_ERROR, quiet_line, NULL);
    OPEN_ENDS(e);
    weft__alloc_fail_at(1);
    CHECK(!send_number(&e.link, 4, 300, false));
    weft__alloc_fail_at(0);
    char byte;
    CHECK_INT(read(e.raw, &byte, 1), 0); /* the other end is told */
    CHECK(!weft__link_receive(&e.link));
    close_ends(&e);
    OPEN_ENDS(f);
    CHECK(write(f.raw, &byte, 1) == 1);
    weft__alloc_fail_at(1);
    CHECK(!weft__link_receive(&f.link));
    weft__alloc_fail_at(0);
    close_ends(&f);
}

TEST(a_reader_that_has_gone_is_found_out_by_reading)
{
    OPEN_ENDS(e);
    close(e.raw);
    CHECK(send_number(&e.link, 1, 300, true)); /* and no SIGPIPE */
    CHECK(send_number(&e.link, 2, 300, false));
    CHECK(weft__link_flush(&e.link));
    CHECK(!weft__link_receive(&e.link));
    weft__link_close(&e.link);
}

/* ------------------------------------------------------------------------------------------- chance */

/* Two links send each other letters of any size, in any order of writing, queueing, flushing and reading. */
TEST(links_carry_everything_whatever_comes_first)
{
    int rounds = test_is_slow() ? 10 : 60;
    for (int round = 0; round < rounds; round++) {
        seed = (uint64_t)round + 1;
        OPEN_ENDS(e);
        weft__link other, *links[2] = {&e.link, &other};
        weft__link_open(&other, e.raw);
        uint32_t sent[2] = {0}, taken[2] = {0}, most = round % 7 == 0 ? 200000 : 600;
        for (int i = 0; i < 400 || taken[0] < sent[1] || taken[1] < sent[0]; i++) {
            uint32_t who = random_below(2), what = random_below(i < 400 ? 4 : 2);
            if (what == 0)
                (void)weft__link_flush(links[who]);
            else if (what == 1 && weft__link_receive(links[who]))
                taken[who] = take_numbers(links[who], taken[who], most);
            else if (what > 1)
                CHECK(send_number(links[who], sent[who]++, most, what == 2));
        }
        weft__link_close(&e.link);
        weft__link_close(&other);
    }
}

/* Bytes by chance, most of them nearly a letter: nothing is read that is not there, and all ends. */
TEST(garbage_is_survived)
{
    int rounds = test_is_slow() ? 500 : 5000;
    int told = 0;
    for (int round = 0; round < rounds; round++) {
        seed = (uint64_t)round + 77;
        OPEN_ENDS(e);
        static _Alignas(8) unsigned char bytes[1 << 14];
        size_t all = 0;
        for (uint32_t n = random_below(8); n > 0; n--)
            all += write_number(bytes + all, n, 600);
        for (uint32_t n = random_below(6); n > 0 && all > 0; n--)
            bytes[random_below((uint32_t)all)] = (unsigned char)random_below(256);
        for (uint32_t n = random_below(64); n > 0; n--)
            bytes[all++] = (unsigned char)random_below(256);
        bool sound = true;
        for (size_t at = 0; at < all && sound;) {
            size_t n = 1 + random_below((uint32_t)(all - at));
            CHECK(write(e.raw, bytes + at, n) == (ssize_t)n);
            at += n;
            CHECK(weft__link_receive(&e.link));
            for (const weft__letter *letter; (letter = weft__link_next(&e.link, &sound));) {
                uint32_t sum = 0; /* the sanitizer looks at every byte */
                for (size_t i = 0; i < letter->bytes; i++)
                    sum += ((const unsigned char *)letter)[i];
                CHECK(sum < UINT32_MAX);
            }
        }
        told += !sound;
        close_ends(&e);
    }
    CHECK(told > rounds / 10);
}

/* ------------------------------------------------------------------------------------------- children */

/* As the workers that load data: they outlive a parent that is killed. */
TEST_LIMIT(a_child_does_not_keep_a_link_open, 10)
{
    OPEN_ENDS(e);
    int go[2];
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(e.link.fd == -1);
        char byte;
        close(go[1]);
        close(e.raw);
        CHECK(read(go[0], &byte, 1) == 0);
        weft__link_close(&e.link);
        _exit(0);
    }
    CHECK(send_number(&e.link, 1, 300, true)); /* it is still the parent's */
    weft__link_close(&e.link);
    char bytes[1024];
    ssize_t n;
    CHECK(fcntl(e.raw, F_SETFL, 0) == 0); /* the child may be a little late */
    while ((n = read(e.raw, bytes, sizeof bytes)) > 0)
        ;
    CHECK_INT(n, 0);
    close(go[1]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    close(e.raw);
}
