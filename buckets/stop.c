/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what is in flight when a set goes: quietly if it has ended by itself, else for all ranks, with the reason. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "set.h"

/* Operations that are in flight. */
typedef struct in_flight {
    uint32_t reductions, gathers;
} in_flight;

/* What to do with one. True: it still is in flight. */
typedef bool (*visitor)(weft__op *op, const char *why);

static bool finish_if_ended(weft__op *op, const char *why)
{
    (void)why;
    if (weft_work_test(op->work) != WEFT_OK)
        return true;
    (void)weft__op_finish(op, WEFT_STREAM_HOST);
    return false;
}

static bool abort_comm(weft__op *op, const char *why)
{
    (void)weft_comm_abort_because(op->comm, why);
    return true;
}

static bool finish(weft__op *op, const char *why)
{
    (void)why;
    (void)weft__op_finish(op, WEFT_STREAM_HOST);
    return false;
}

static in_flight each_in_flight(weft_buckets *set, visitor visit, const char *why)
{
    in_flight left = {0, 0};
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        weft__bucket *bucket = &set->buckets[i];
        for (uint32_t k = 0; k < bucket->reduce_count; k++)
            left.reductions += bucket->reduce[k].work.value && visit(&bucket->reduce[k], why);
        left.gathers += bucket->gather.work.value && visit(&bucket->gather, why);
    }
    return left;
}

/* "3 gathers", behind " and " if it is not the first; nothing for 0. */
static void add_count(char *text, size_t bytes, uint32_t count, const char *what)
{
    size_t used = strlen(text);
    if (count)
        snprintf(text + used, bytes - used, "%s%u %s%s", used ? " and " : "", count, what, count > 1 ? "s" : "");
}

void weft__stop(weft_buckets *set, const char *said)
{
    in_flight left = each_in_flight(set, finish_if_ended, NULL);
    char counts[64] = "", why[sizeof(weft__last_error) + 128];
    add_count(counts, sizeof counts, left.reductions, "reduction");
    add_count(counts, sizeof counts, left.gathers, "gather");
    if (!*counts)
        return;
    weft__log(WEFT_LOG_WARN, "set '%s': destroyed with %s in flight%s", set->name, counts,
              left.gathers ? ": weft_buckets_acquire() them first" : "");
    snprintf(why, sizeof why, "%s%sset '%.32s': destroyed with %s in flight", said, *said ? "; " : "", set->name,
             counts);
    each_in_flight(set, abort_comm, why);
    each_in_flight(set, finish, NULL); /* works of an aborted comm end at once */
}
