/* SPDX-License-Identifier: Apache-2.0 */
/* Works among each other, and comms beside each other: what must wait does, and nothing else. */
#include <stdio.h>

#include "perf/conform/conform.h"

enum { ELEMENTS = 4097, IN_FLIGHT = 60 };

static void must_be(const char *what, const int64_t *got, size_t count, int64_t want, conform_verdict *verdict)
{
    for (size_t i = 0; i < count && verdict->kind == CONFORM_WELL; i++)
        if (got[i] != want)
            conform_say(verdict, CONFORM_WRONG, "%s: element %zu is %lld, not %lld", what, i, (long long)got[i],
                        (long long)want);
}

static weft_result start_sum(weft_comm *comm, int64_t *values, size_t count, weft_work after, weft_work *work)
{
    weft_collective what = WEFT_COLLECTIVE_INIT;
    what.kind = WEFT_ALL_REDUCE, what.dtype = WEFT_INT64, what.reduction = WEFT_SUM;
    what.send = values, what.recv = values, what.count = count;
    what.after = after;
    *work = WEFT_WORK_NONE;
    return weft_collective_start(comm, &what, WEFT_STREAM_HOST, work);
}

/* Sums of sums, in turn on two comms, each behind the one before: n ranks make 1 to n^k. */
static void chain(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    enum { LINKS = 6 };
    int64_t values[ELEMENTS], want = 1;
    weft_work works[LINKS] = {{0}};
    weft_comm *comms[2] = {c->comm, NULL};
    if (!CONFORM_OK(verdict, conform_comm_beside(c, &comms[1])))
        return;
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = 1;
    for (int i = 0; i < LINKS; i++) {
        weft_work before = i ? works[i - 1] : WEFT_WORK_NONE;
        CONFORM_OK(verdict, start_sum(comms[i % 2], values, ELEMENTS, before, &works[i]));
        want *= weft_comm_size(c->comm);
    }
    for (int i = LINKS; i-- > 0;)
        conform_finish(works[i], verdict);
    must_be("sum of sums", values, ELEMENTS, want, verdict);
    weft_comm_destroy(comms[1]);
}

/* As many works as fit, finished last first. */
static void many(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int64_t values[IN_FLIGHT];
    weft_work works[IN_FLIGHT];
    int ranks = weft_comm_size(c->comm), self = weft_comm_rank(c->comm);
    for (int i = 0; i < IN_FLIGHT; i++) {
        values[i] = self + i;
        CONFORM_OK(verdict, start_sum(c->comm, &values[i], 1, WEFT_WORK_NONE, &works[i]));
    }
    for (int i = IN_FLIGHT; i-- > 0;)
        conform_finish(works[i], verdict);
    for (int i = 0; i < IN_FLIGHT; i++)
        must_be("one of many", &values[i], 1, (int64_t)ranks * (ranks - 1) / 2 + (int64_t)ranks * i, verdict);
}

/* Odd ranks start on the second comm first, and wait there before they start on the first. */
static void other_order(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int64_t values[2] = {1, 2};
    weft_work works[2] = {{0}, {0}};
    weft_comm *comms[2] = {c->comm, NULL};
    int ranks = weft_comm_size(c->comm), first = weft_comm_rank(c->comm) % 2;
    if (!CONFORM_OK(verdict, conform_comm_beside(c, &comms[1])))
        return;
    for (int i = 0; i < 2; i++) {
        int which = (first + i) % 2;
        CONFORM_OK(verdict, start_sum(comms[which], &values[which], 1, WEFT_WORK_NONE, &works[which]));
    }
    conform_finish(works[1], verdict);
    conform_finish(works[0], verdict);
    must_be("first comm", &values[0], 1, ranks, verdict);
    must_be("second comm", &values[1], 1, 2 * ranks, verdict);
    weft_comm_destroy(comms[1]);
}

/* A comm of the ranks first ... first + count - 1 of the one under test. */
static weft_result make_part(const conform *c, int first, int count, weft_comm **comm_out)
{
    char name[64];
    int ranks[CONFORM_RANKS_MOST];
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = conform_backend(c);
    for (int i = 0; i < count && i < CONFORM_RANKS_MOST; i++)
        ranks[i] = weft_comm_world_rank(c->comm, first + i);
    snprintf(name, sizeof name, "part %d of %s", first, weft_comm_name(c->comm));
    return weft_comm_create_start(c->world, name, ranks, count, &config, comm_out);
}

/* Every rank is in a pair with each neighbour; sums go through all pairs at once. */
static void overlapping(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int self = weft_comm_rank(c->comm), ranks = weft_comm_size(c->comm);
    weft_comm *pairs[2] = {NULL, NULL}; /* with the one before, with the one behind */
    weft_work works[2] = {{0}, {0}};
    int64_t values[2] = {self, self};
    for (int i = 0; i < 2; i++)
        if (self - 1 + i >= 0 && self + i < ranks)
            CONFORM_OK(verdict, make_part(c, self - 1 + i, 2, &pairs[i]));
    for (int i = 0; i < 2; i++)
        if (pairs[i] && CONFORM_OK(verdict, weft_comm_create_finish(pairs[i])))
            CONFORM_OK(verdict, start_sum(pairs[i], &values[i], 1, WEFT_WORK_NONE, &works[i]));
    for (int i = 2; i-- > 0;)
        conform_finish(works[i], verdict);
    for (int i = 0; i < 2; i++)
        if (pairs[i])
            must_be("pair", &values[i], 1, 2 * self - 1 + 2 * i, verdict);
    weft_comm_destroy(pairs[1]);
    weft_comm_destroy(pairs[0]);
}

static const struct {
    const char *line;
    conform_body body;
} cases[] = {
    {"works: each behind the one before, on two comms in turn", chain},
    {"works: sixty in flight", many},
    {"comms: two, which ranks use in different order", other_order},
    {"comms: pairs that overlap", overlapping},
};

weft_result conform_orders(conform *c)
{
    weft_result result = WEFT_OK;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && result == WEFT_OK; i++)
        result = conform_try_sizes(c, 2, cases[i].line, cases[i].body, NULL);
    return result;
}
