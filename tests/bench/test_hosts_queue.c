/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a link against a plain list: the same frames in the same order, and none lost that had room. */
#include "hosts/queue.h"

#include <stdlib.h>

#include "harness/test.h"

enum { ROOM = 4096, MOST = 1000, ROUNDS = 200000 };

TEST(an_empty_queue_has_no_first)
{
    queue q;
    CHECK(queue_open(&q, ROOM));
    CHECK(!queue_first(&q));
    CHECK(queue_put(&q, 7, "a", 1));
    CHECK_INT(queue_first(&q)->due_ns, 7);
    queue_drop(&q);
    CHECK(!queue_first(&q));
    queue_close(&q);
}

TEST(a_frame_that_is_too_long_is_refused)
{
    static char data[ROOM + 1];
    queue q;
    CHECK(queue_open(&q, ROOM));
    CHECK(!queue_put(&q, 0, data, ROOM));
    CHECK(!queue_put(&q, 0, data, ROOM + 1));
    CHECK(queue_put(&q, 0, data, ROOM / 2));
    CHECK(!queue_put(&q, 0, data, ROOM / 2));
    CHECK_INT(queue_first(&q)->bytes, ROOM / 2);
    queue_close(&q);
}

static void check_first(const queue *q, unsigned number, size_t bytes)
{
    const frame *f = queue_first(q);
    CHECK(f);
    CHECK_INT(f->due_ns, number);
    CHECK_INT(f->bytes, bytes);
    const unsigned char *data = (const unsigned char *)(f + 1);
    for (size_t i = 0; i < bytes; i++)
        CHECK_INT(data[i], (number + i) % 256);
}

/* Frames of every length, put and taken in turns of uneven length, so that the ring wraps in every way. */
TEST(frames_leave_as_they_came)
{
    static size_t lengths[ROUNDS];
    unsigned char data[MOST];
    unsigned put = 0, taken = 0, refused = 0;
    queue q;
    srand(1);
    CHECK(queue_open(&q, ROOM));
    for (int round = 0; put < ROUNDS && round < 4 * ROUNDS; round++) {
        if (rand() % 2) {
            size_t bytes = (size_t)(rand() % 4 ? rand() % 60 : rand() % MOST);
            for (size_t i = 0; i < bytes; i++)
                data[i] = (unsigned char)(put + i);
            lengths[put] = bytes;
            if (queue_put(&q, put, data, bytes))
                put++;
            else
                refused++;
        } else if (taken < put) {
            check_first(&q, taken, lengths[taken]);
            queue_drop(&q);
            taken++;
        } else {
            CHECK(!queue_first(&q));
        }
    }
    for (; taken < put; taken++) {
        check_first(&q, taken, lengths[taken]);
        queue_drop(&q);
    }
    CHECK(!queue_first(&q));
    CHECK(put > 1000 && refused > 100);
    queue_close(&q);
}
