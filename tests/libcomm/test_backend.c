/* SPDX-License-Identifier: Apache-2.0 */
/* Backends from outside the library: what they leave out is E_UNSUPPORTED, and is never a call of nothing. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft/backend.h>
#include <weft/info.h>
#include <weft/trace.h>

#include "backend/registry.h"
#include "harness/ranks.h"

/* ------------------------------------------------------------------------------------------- parts of backends */

static weft_result query_collectives(const weft_backend_question *question, weft_backend_facts *facts)
{
    CHECK(question->size == sizeof *question && facts->size == sizeof *facts);
    facts->caps = WEFT_CAP_COLLECTIVE;
    facts->score = WEFT_SCORE_NONE + 1; /* for comms that name it */
    return WEFT_OK;
}

static weft_result query_p2p(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question;
    facts->caps = WEFT_CAP_P2P;
    facts->score = WEFT_SCORE_NONE + 1;
    return WEFT_OK;
}

static weft_result open_world(weft_world *world, void **state_out)
{
    *state_out = world;
    return WEFT_OK;
}

/* A comm that keeps the one operation it is given. */
typedef struct keeper {
    weft_op *kept;
} keeper;

static weft_result make_keeper(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    (void)state, (void)comm, (void)card;
    *comm_out = calloc(1, sizeof(keeper));
    return *comm_out ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static weft_result connect_all(void *comm, const unsigned char *cards)
{
    (void)comm, (void)cards;
    return WEFT_OK;
}

static weft_result keep(void *comm, weft_op *op)
{
    ((keeper *)comm)->kept = op;
    return WEFT_OK;
}

static void give_back(void *comm, weft_result result, const char *text)
{
    (void)text;
    keeper *k = comm;
    if (k->kept)
        weft_backend_done(k->kept, result);
    k->kept = NULL;
}

#define HEAD(its_name) .abi_major = WEFT_BACKEND_ABI, .size = sizeof(weft_backend), .name = (its_name)

static void mute(void)
{
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
}

/* A comm of both ranks behind @p backend, or how making it failed. */
static weft_result make_comm(weft_world *world, const char *backend, uint32_t timeout_ms, weft_comm **comm_out)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = backend;
    config.timeout_ms = timeout_ms;
    return weft_comm_create(world, "outside", (int[]){0, 1}, 2, &config, comm_out);
}

/* ------------------------------------------------------------------------------------------- hastening */

static _Atomic int hastened;

static void carry_out(void *comm, weft_op *op)
{
    keeper *k = comm;
    CHECK(op == k->kept && op->start > 0 && op->start <= weft_trace_now(NULL));
    atomic_fetch_add(&hastened, 1);
    k->kept = NULL;
    weft_backend_done(op, WEFT_OK);
}

static void waits_at_once_or_later(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    weft_work work;
    weft_trace_record record;
    CHECK_OK(make_comm(world, "hasty", 0, &comm));
    atomic_store(&hastened, 0);
    uint64_t next = weft_trace_count(world);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_INT(atomic_load(&hastened), 1);
    CHECK(weft_trace_read(world, next, &record, 1, NULL) == 1);
    CHECK_INT(record.result, WEFT_OK);
    CHECK(record.start == record.wait && record.wait <= record.last && record.last == record.go);
    CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
    CHECK_RESULT(weft_work_test(work), WEFT_PENDING);
    CHECK_INT(atomic_load(&hastened), 1);
    CHECK_OK(weft_comm_abort(comm));
    CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    weft_comm_destroy(comm);
}

/* The other rank makes the comm, and gives it up. */
static void hasty_or_idle(weft_world *world, void *argument)
{
    weft_comm *comm;
    if (weft_world_rank(world) == 0) {
        waits_at_once_or_later(world, argument);
        return;
    }
    CHECK_OK(make_comm(world, "hasty", 0, &comm));
    weft_comm_destroy(comm);
}

TEST(only_an_operation_that_is_waited_for_at_once_is_hastened)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("hasty"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_abort = give_back, .comm_destroy = free, .start = keep,
                                                   .hasten = carry_out}));
    ranks_as_threads(2, NULL, hasty_or_idle, NULL);
}

/* ------------------------------------------------------------------------------------------- calls left out */

static void cannot_make(weft_world *world, void *name)
{
    weft_comm *comm;
    CHECK_RESULT(make_comm(world, name, 0, &comm), WEFT_E_UNSUPPORTED);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "comm outside: backend %s cannot make it", (char *)name);
    CHECK_HAS(weft_last_error(), wanted);
    CHECK(comm == NULL);
}

TEST(a_backend_without_comm_create_makes_no_comm)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("bare"), .query = query_collectives, .open = open_world}));
    ranks_as_threads(2, NULL, cannot_make, "bare");
}

TEST(a_backend_without_comm_connect_makes_no_comm)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("alone"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_destroy = free}));
    ranks_as_threads(2, NULL, cannot_make, "alone");
}

static void cannot_carry(weft_world *world, void *name)
{
    weft_comm *comm;
    CHECK_RESULT(make_comm(world, name, 0, &comm), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), name);
    CHECK_HAS(weft_last_error(), "can carry these 2 ranks");
}

TEST(a_backend_without_query_or_open_carries_nothing)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("mute"), .open = open_world}));
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("shut"), .query = query_collectives}));
    ranks_as_threads(2, NULL, cannot_carry, "mute");
    ranks_as_threads(2, NULL, cannot_carry, "shut");
}

static void cannot_start(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    float v = 1;
    weft_work work;
    char text[128];
    CHECK_OK(make_comm(world, "idle", 0, &comm));
    CHECK_STR(weft_comm_backend(comm), "idle");
    CHECK_RESULT(weft_isend(comm, &v, 1, WEFT_FP32, 1 - weft_comm_rank(comm), WEFT_STREAM_HOST, &work),
                 WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "comm outside: backend idle carries no p2p messages");
    CHECK_OK(weft_comm_error(comm, NULL, 0)); /* nothing was started, nothing has failed */
    weft_comm *both = all_ranks(world, "both", NULL);
    CHECK_OK(weft_barrier_run(both, WEFT_STREAM_HOST)); /* so much for both, before one fails it for both */
    weft_comm_destroy(both);
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_UNSUPPORTED);
    CHECK_RESULT(weft_comm_error(comm, text, sizeof text), WEFT_E_UNSUPPORTED);
    CHECK_HAS(text, "backend idle did not take an operation");
    weft_comm_destroy(comm);
}

TEST(a_backend_without_start_takes_no_operation)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("idle"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_destroy = free}));
    ranks_as_threads(2, NULL, cannot_start, NULL);
}

static void only_messages(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    CHECK_OK(make_comm(world, "post", 0, &comm));
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "comm outside: backend post carries no collectives");
    weft_comm_destroy(comm);
}

TEST(a_backend_without_the_capability_hears_of_no_collective)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("post"), .query = query_p2p, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_destroy = free, .start = keep}));
    ranks_as_threads(2, NULL, only_messages, NULL);
}

static void never_ends(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    CHECK_OK(make_comm(world, "deaf", 100, &comm));
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "its backend does not say why");
    weft_comm_destroy(comm);
}

TEST(a_backend_without_progress_and_explain_is_late_for_no_reason)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("deaf"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_abort = give_back, .comm_destroy = free, .start = keep}));
    ranks_as_threads(2, NULL, never_ends, NULL);
}

/* ------------------------------------------------------------------------------------------- failing */

/* It tells the others nothing of that, and has no descriptor: they read it on this rank's card. */
static void one_gives_up(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    CHECK_OK(make_comm(world, "secret", 20000, &comm));
    if (weft_world_rank(world) == 1)
        CHECK_OK(weft_comm_abort_because(comm, "of the weather"));
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "was aborted by rank 1: of the weather");
    weft_comm_destroy(comm);
}

TEST(a_failure_is_heard_of_whatever_the_backend_tells)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("secret"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_abort = give_back, .comm_destroy = free, .start = keep}));
    ranks_both_ways(2, one_gives_up, NULL);
}

/* What a backend fails a comm with may come from anywhere. */
static void fails_with_nonsense(weft_world *world, void *argument)
{
    static const int results[] = {WEFT_OK, WEFT_PENDING, 17, -17, -1000};
    (void)argument;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        weft_comm *comm;
        char text[256];
        CHECK_OK(make_comm(world, "nonsense", 20000, &comm));
        weft_backend_fail(comm, (weft_result)results[i], "so it was said");
        CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_BUG);
        CHECK_INT(weft_comm_error(comm, text, sizeof text), WEFT_E_BUG);
        CHECK_HAS(text, "so it was said (told as result ");
        weft_comm_destroy(comm);
    }
}

TEST(a_verdict_that_is_no_failure_is_one)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("nonsense"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_all,
                                                   .comm_abort = give_back, .comm_destroy = free, .start = keep}));
    ranks_as_threads(2, NULL, fails_with_nonsense, NULL);
}

/* ------------------------------------------------------------------------------------------- connecting */

static _Atomic int tries;

static weft_result connect_never(void *comm, const unsigned char *cards)
{
    (void)comm, (void)cards;
    tries++;
    return WEFT_PENDING;
}

static void give_up_while_the_other_connects(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = "slow";
    CHECK_OK(weft_comm_create_start(world, "outside", (int[]){0, 1}, 2, &config, &comm));
    while (weft_world_rank(world) == 0 && tries == 0)
        sched_yield();
    if (weft_world_rank(world) == 1) {
        CHECK_RESULT(weft_comm_create_finish(comm), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "rank 0 gave up making it");
    }
    weft_comm_destroy(comm);
}

TEST(who_connects_hears_of_a_member_that_gives_up)
{
    mute();
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("slow"), .query = query_collectives, .open = open_world,
                                                   .comm_create = make_keeper, .comm_connect = connect_never,
                                                   .comm_destroy = free}));
    ranks_as_threads(2, NULL, give_up_while_the_other_connects, NULL);
}

/* ------------------------------------------------------------------------------------------- other sizes */

TEST(calls_behind_the_size_of_a_table_are_left_out)
{
    mute();
    weft_backend table = {HEAD("idle"),
                          .query = query_collectives,
                          .open = open_world,
                          .comm_create = make_keeper,
                          .comm_connect = connect_all,
                          .comm_destroy = free,
                          .start = keep}; /* would never end */
    table.size = offsetof(weft_backend, start);
    CHECK_OK(weft_backend_register(&table));
    ranks_as_threads(2, NULL, cannot_start, NULL);
}

TEST(a_table_of_a_later_version_is_taken_as_far_as_it_is_known)
{
    mute();
    struct {
        weft_backend table;
        void (*later)(void);
    } given = {{HEAD("bare"), .query = query_collectives, .open = open_world}, mute};
    given.table.size = sizeof given;
    CHECK_OK(weft_backend_register(&given.table));
    ranks_as_threads(2, NULL, cannot_make, "bare");
}

/* ------------------------------------------------------------------------------------------- the choice */

static int started;

static weft_result query_alone(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_IMMEDIATE;
    facts->score = question->count == 1 ? WEFT_SCORE_ALONE + 1 : WEFT_SCORE_NONE;
    return WEFT_OK;
}

static weft_result start_now(void *comm, weft_op *op)
{
    (void)comm;
    started++;
    weft_backend_done(op, WEFT_OK);
    return WEFT_OK;
}

static const weft_backend better = {HEAD("better"),
                                    .query = query_alone,
                                    .open = open_world,
                                    .comm_create = make_keeper,
                                    .comm_connect = connect_all,
                                    .comm_destroy = free,
                                    .start = start_now};

static void choose(const char *wanted, uint32_t flags)
{
    weft_world *world;
    weft_comm *comm;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.flags = flags;
    CHECK_OK(weft_world_open(NULL, &world));
    CHECK_OK(weft_comm_create(world, "one", (int[]){0}, 1, &config, &comm));
    CHECK_STR(weft_comm_backend(comm), wanted);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
    weft_world_close(world);
}

TEST(the_best_backend_is_chosen_unless_its_sums_are_not_exact)
{
    choose("self", 0);
    CHECK_INT(started, 0);
    CHECK_OK(weft_backend_register(&better));
    choose("better", 0);
    CHECK_INT(started, 1);
    choose("self", WEFT_COMM_EXACT); /* it does not say WEFT_CAP_ORDERED */
    CHECK_INT(started, 1);
}

/* ------------------------------------------------------------------------------------------- refusals */

static void refused(weft_backend table, weft_result result, const char *says)
{
    CHECK_RESULT(weft_backend_register(&table), result);
    CHECK_HAS(weft_last_error(), says);
}

static _Atomic bool all_are_known;

/* Somebody asks again and again which backend serves best, outside of the seat, while others become known. */
static void *choose_for_ever(void *argument)
{
    weft_world *world = argument;
    weft__backend_instance *instance;
    weft_backend_facts facts;
    const weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    while (!atomic_load(&all_are_known)) {
        facts.size = sizeof facts;
        CHECK_OK(weft__backends_choose(world, &config, (int[]){0, 1}, 2, &instance, &facts));
        CHECK_STR(instance->table->name, "local");
    }
    return NULL;
}

static weft_result open_nothing(weft_world *world, void **state_out)
{
    *state_out = world;
    return WEFT_OK;
}

static void learn_of_more(weft_world *world, void *argument)
{
    static char names[8][8];
    (void)argument;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, choose_for_ever, world) == 0);
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "late%d", i);
        CHECK_OK(weft_backend_register(&(weft_backend){
            .abi_major = WEFT_BACKEND_ABI, .size = sizeof(weft_backend), .name = names[i], .open = open_nothing}));
        CHECK_OK(weft__backends_renew(world, NULL));
    }
    atomic_store(&all_are_known, true);
    pthread_join(thread, NULL);
}

TEST(a_backend_may_become_known_while_others_are_chosen)
{
    ranks_as_processes(2, NULL, learn_of_more, NULL);
}

/* ------------------------------------------------------------------------------------------- what cannot be opened */

static _Atomic int broken_opened;

static weft_result open_broken(weft_world *world, void **state_out)
{
    (void)world, (void)state_out;
    broken_opened++;
    return weft_backend_error(WEFT_E_SYSTEM, "broken: there is nothing left of it");
}

static void look_for_broken(void *cookie, const weft_info *info)
{
    bool *seen = cookie;
    if (info->kind != WEFT_INFO_BACKEND || strcmp(info->name, "broken") != 0)
        return;
    CHECK_STR(info->value, "left out");
    CHECK_STR(info->note, "broken: there is nothing left of it");
    *seen = true;
}

static void goes_on_without(weft_world *world, void *argument)
{
    (void)argument;
    bool seen = false;
    weft_comm *comm;
    CHECK_INT(broken_opened, 1);
    CHECK_OK(weft_info_tell(world, look_for_broken, &seen));
    CHECK(seen);
    CHECK_INT(broken_opened, 1);
    CHECK_OK(make_comm(world, NULL, 0, &comm));
    weft_comm_destroy(comm);
    CHECK_RESULT(make_comm(world, "broken", 0, &comm), WEFT_E_SYSTEM);
    CHECK_HAS(weft_last_error(), "broken: there is nothing left of it");
}

static void wants_another(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    CHECK_OK(make_comm(world, NULL, 0, &comm));
    CHECK_STR(weft_comm_backend(comm), "local");
    CHECK_INT(broken_opened, 0);
    weft_comm_destroy(comm);
}

static weft_result never(weft_world *world, void *argument)
{
    (void)world, (void)argument;
    return WEFT_E_BUG;
}

TEST(a_backend_that_fails_to_open_is_left_out_unless_it_was_asked_for)
{
    mute();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    CHECK_OK(weft_backend_register(&(weft_backend){HEAD("broken"), .query = query_collectives, .open = open_broken}));
    ranks_as_processes(2, NULL, goes_on_without, NULL);
    config.backend = "local"; /* so nobody looks at others */
    ranks_as_processes(2, &config, wants_another, NULL);
    config.backend = "broken";
    CHECK_RESULT(weft_team_run(2, &config, never, NULL), WEFT_E_SYSTEM);
    CHECK_HAS(weft_last_error(), "broken: there is nothing left of it");
}

/* ------------------------------------------------------------------------------------------- tables */

TEST(tables_that_make_no_sense_are_refused)
{
    mute();
    weft_backend table = better;
    table.abi_major = WEFT_BACKEND_ABI + 1;
    refused(table, WEFT_E_UNSUPPORTED, "speaks abi 2");
    table = better, table.size = 8;
    refused(table, WEFT_E_INVALID, "weft_backend.size is 8");
    table = better, table.name = NULL;
    refused(table, WEFT_E_INVALID, "needs a name");
    table = better, table.name = "a_name_too_long_";
    refused(table, WEFT_E_INVALID, "a_name_too_long_");
    table = better, table.name = "local";
    refused(table, WEFT_E_INVALID, "there is a backend 'local' already");
    static char names[16][16];
    int count = 0;
    weft_result result = WEFT_OK;
    for (; count < 16 && result == WEFT_OK; count++) {
        snprintf(names[count], sizeof names[count], "b%d", count);
        table.name = names[count];
        result = weft_backend_register(&table);
    }
    CHECK_RESULT(result, WEFT_E_BUSY);
    CHECK_INT(count, 14); /* three are built in */
}
