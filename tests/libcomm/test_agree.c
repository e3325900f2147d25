/* SPDX-License-Identifier: Apache-2.0 */
/* Agreeing on how all ranks fared. */
#include "base/error.h"
#include "base/memory.h"
#include "base/reserved.h"
#include "base/verdict.h"
#include "harness/ranks.h"

/* Every rank in turn fails, then it and all above it. */
static void each_fails(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), size = weft_world_size(world);
    weft_comm *comm = all_ranks(world, "all", NULL);
    CHECK_OK(weft_comm_agree(comm, WEFT_OK, NULL));
    CHECK_OK(weft_comm_agree(comm, WEFT_PENDING, "no failure"));
    for (int bad = 0; bad < size; bad++) {
        char want[64];
        if (size > 1)
            snprintf(want, sizeof want, "rank %d: no file %d", bad, bad);
        else
            snprintf(want, sizeof want, "no file %d", bad);
        for (int all_above = 0; all_above < 2; all_above++) {
            bool fails = rank == bad || (all_above && rank > bad);
            char mine[64];
            snprintf(mine, sizeof mine, "no file %d", rank);
            CHECK_RESULT(weft_comm_agree(comm, fails ? WEFT_E_NOT_FOUND - (rank > bad) : WEFT_OK, mine),
                         WEFT_E_NOT_FOUND);
            CHECK_STR(weft_last_error(), want);
        }
    }
    CHECK_OK(weft_comm_agree(comm, WEFT_OK, NULL)); /* the comm lives */
    weft_comm_destroy(comm);
}

TEST(all_ranks_get_the_result_and_the_message_of_the_lowest_that_failed)
{
    quiet();
    for (int ranks = 1; ranks <= 8; ranks *= ranks == 2 ? 4 : 2)
        ranks_both_ways(ranks, each_fails, NULL);
}

/* Ranks count in the order of the comm; in messages they have their numbers in the world. */
static void backwards(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, "backwards", (int[]){2, 1, 0}, 3, NULL, &comm));
    weft_result mine = rank == 1 ? weft__fail(WEFT_E_RANGE, "rank 1 counts to %d", 7) : WEFT_OK;
    CHECK_RESULT(weft_comm_agree(comm, mine, NULL), WEFT_E_RANGE);
    CHECK_STR(weft_last_error(), "rank 1 counts to 7"); /* it names itself */
    mine = rank == 0 ? WEFT_E_RANGE : WEFT_E_STATE;
    CHECK_RESULT(weft_comm_agree(comm, mine, rank == 2 ? "rank 21 is not mine" : "something"), WEFT_E_STATE);
    CHECK_STR(weft_last_error(), "rank 2: rank 21 is not mine");
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK_RESULT(weft_comm_agree(comm, rank == 0 ? WEFT_E_BUG : WEFT_OK, text), WEFT_E_BUG);
    CHECK(strncmp(weft_last_error(), "rank 0: xxx", 11) == 0);
    CHECK_MSG(strlen(weft_last_error()) >= 480, "%zu bytes are left", strlen(weft_last_error()));
    weft_comm_destroy(comm);
}

TEST(the_lowest_is_that_of_the_comm_and_is_named_by_its_number_in_the_world)
{
    quiet();
    ranks_both_ways(3, backwards, NULL);
}

static void aborted(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "all", NULL);
    CHECK_OK(weft_comm_abort(comm));
    CHECK_RESULT(weft_comm_agree(comm, WEFT_OK, NULL), WEFT_E_ABORTED);
    CHECK_RESULT(weft_comm_agree(comm, WEFT_E_RANGE, "my own trouble"), WEFT_E_RANGE);
    CHECK_STR(weft_last_error(), "my own trouble");
    CHECK_RESULT(weft_comm_agree(NULL, WEFT_OK, NULL), WEFT_E_INVALID);
    weft_comm_destroy(comm);
}

TEST(where_the_comm_fails_everyone_keeps_what_it_knows)
{
    quiet();
    ranks_both_ways(2, aborted, NULL);
}

/* Exactly one allocation would fail: the first. None is made. */
static void without_memory(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "all", NULL);
    weft__alloc_fail_at(1);
    void *memory = weft__alloc(10);
    weft__alloc_fail_at(1);
    CHECK_RESULT(weft_comm_agree(comm, memory ? WEFT_OK : WEFT_E_NO_MEMORY, NULL), WEFT_E_NO_MEMORY);
    CHECK_STR(weft_last_error(), "rank 0: no memory for 10 bytes");
    CHECK_INT(weft__alloc_count(), 0);
    weft__alloc_fail_at(0);
    weft_comm_destroy(comm);
}

TEST(want_of_memory_can_be_agreed_on)
{
    quiet();
    ranks_as_processes(2, NULL, without_memory, NULL);
}

/* ------------------------------------------------------------------------------------------- weft's own names */

#define NAME(name, ...)                                     \
    weft__reserved_name((const char *const[]){__VA_ARGS__}, \
                        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), name)

TEST(reserved_names_fit_and_differ)
{
    char name[WEFT_COMM_NAME_MAX + 1], other[WEFT_COMM_NAME_MAX + 1], part[WEFT_COMM_NAME_MAX + 1];
    NAME(name, "cluster");
    CHECK_STR(name, "weft.cluster");
    NAME(name, "dp-cp.3", "model", "reduce");
    CHECK_STR(name, "weft.dp-cp.3/model/reduce");
    /* 5 + 50 + 8 = 63 bytes fit as they are, one more does not: 46 bytes stay, then '~' and 16 digits. */
    memset(part, 'p', 50);
    part[50] = 0;
    NAME(name, part, "set.sum");
    CHECK_INT(strlen(name), 63);
    CHECK(strchr(name, '~') == NULL);
    part[50] = 'p', part[51] = 0;
    NAME(name, part, "set.sum");
    CHECK_INT(strlen(name), 63);
    CHECK_INT(strchr(name, '~') - name, 46);
    NAME(other, part, "set.sun");
    CHECK_INT(strlen(other), 63);
    CHECK(strcmp(name, other) != 0);
    CHECK(strncmp(name, other, 47) == 0);
    /* The same text of other parts. */
    NAME(name, "a/b", "c");
    NAME(other, "a", "b/c");
    CHECK(strcmp(name, other) != 0);
    NAME(other, "a", "b", "c");
    CHECK_STR(other, "weft.a/b/c");
    CHECK(strcmp(name, other) != 0);
}

static void takes_ours(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm, *mine = all_ranks(world, "weft", NULL);
    CHECK_RESULT(weft_comm_create(world, "weft.cluster", (int[]){0, 1}, 2, NULL, &comm), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "comm weft.cluster");
    CHECK_HAS(weft_last_error(), "'weft.'");
    CHECK(comm == NULL);
    weft_comm_destroy(mine);
}

TEST(users_cannot_take_names_of_wefts_own)
{
    quiet();
    ranks_as_threads(2, NULL, takes_ours, NULL);
}
