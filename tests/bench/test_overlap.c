/* SPDX-License-Identifier: Apache-2.0 */
/* Hidden and exposed time of made-up traces, against a count of every tick. */
#include "harness/test.h"
#include "overlap.h"

static weft_trace_record operation(uint64_t start, uint64_t last, uint64_t wait, uint64_t go)
{
    return (weft_trace_record){.kind = WEFT_TRACE_COLLECTIVE, .start = start, .last = last, .wait = wait, .go = go};
}

static overlap split(const weft_trace_record *records, size_t count, uint64_t begin, uint64_t end)
{
    overlap_space space;
    CHECK(overlap_space_open(&space, count));
    overlap o = overlap_of(&space, records, count, begin, end);
    overlap_space_close(&space);
    CHECK_INT(o.window, o.computing + o.hidden + o.exposed + o.idle);
    return o;
}

static void expect(overlap o, uint64_t computing, uint64_t hidden, uint64_t exposed, uint64_t idle)
{
    CHECK_INT(o.computing, computing);
    CHECK_INT(o.hidden, hidden);
    CHECK_INT(o.exposed, exposed);
    CHECK_INT(o.idle, idle);
}

TEST(overlapping_operations_count_once)
{
    /* [10, 30) and [20, 40) communicate: 30, not 40; the caller waits in [25, 45): 15 of it exposed, 5 idle. */
    weft_trace_record r[] = {operation(10, 30, 25, 30), operation(20, 40, 28, 45)};
    expect(split(r, 2, 0, 100), 65, 15, 15, 5);
}

TEST(what_lies_outside_the_window_does_not_count)
{
    weft_trace_record r[] = {operation(10, 60, 50, 60)};
    expect(split(r, 1, 40, 55), 0, 10, 5, 0);
    expect(split(r, 1, 60, 80), 20, 0, 0, 0);
    expect(split(r, 1, 0, 10), 10, 0, 0, 0);
}

TEST(an_operation_in_flight_runs_until_the_end)
{
    weft_trace_record r[] = {operation(10, 0, 0, 0), operation(0, 0, 0, 0)};
    expect(split(r, 2, 0, 50), 10, 40, 0, 0);
    r[0].wait = 30;
    expect(split(r, 2, 0, 50), 10, 20, 20, 0);
    r[1].ready = 5; /* when it started is not known before it is finished */
    expect(split(r, 2, 0, 50), 5, 25, 20, 0);
}

TEST(spans_and_steps_are_not_communication)
{
    weft_trace_record r[] = {operation(10, 20, 12, 20), {.kind = WEFT_TRACE_SPAN, .start = 0, .last = 50}};
    expect(split(r, 2, 0, 50), 40, 2, 8, 0);
    expect(split(r, 0, 0, 50), 50, 0, 0, 0);
}

/* Against a count of every tick. */
TEST(any_intervals_split_as_ticks_do)
{
    uint64_t state = 12345;
    for (int round = 0; round < 200; round++) {
        enum { COUNT = 12, WINDOW = 200 };
        weft_trace_record r[COUNT];
        bool communicates[WINDOW] = {0}, waits[WINDOW] = {0};
        for (int i = 0; i < COUNT; i++) {
            uint64_t v[4];
            for (int k = 0; k < 4; k++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                v[k] = 1 + (state >> 40) % 250;
            }
            r[i] = operation(v[0], v[0] + v[1] % 40 + 1, v[2], v[2] + v[3] % 30 + 1);
            for (uint64_t t = 0; t < WINDOW; t++) {
                communicates[t] |= t >= r[i].start && t < r[i].last;
                waits[t] |= t >= r[i].wait && t < r[i].go;
            }
        }
        uint64_t n[4] = {0};
        for (int t = 0; t < WINDOW; t++)
            n[communicates[t] * 2 + waits[t]]++;
        expect(split(r, COUNT, 0, WINDOW), n[0], n[2], n[3], n[1]);
    }
}
