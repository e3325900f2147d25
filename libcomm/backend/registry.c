/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: the tables of all backends that are known, be they built in, registered or from modules, those that are
 * open in a world, and which of them carries a comm. */
#include "backend/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/modules.h"
#include "base/error.h"
#include "base/log.h"
#include "world.h"

static const weft_backend *const built_in[] = {&weft__backend_self, &weft__backend_local, &weft__backend_host};

enum { BUILT_IN = sizeof built_in / sizeof *built_in };
_Static_assert(BUILT_IN <= WEFT__BACKENDS, "there is room for what is built in");

/* ------------------------------------------------------------------------------------------- gaps in a table */

static weft_result no_query(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question, (void)facts;
    return WEFT_E_UNSUPPORTED;
}

static weft_result no_open(weft_world *world, void **state_out)
{
    (void)world, (void)state_out;
    return WEFT_E_UNSUPPORTED;
}

static void no_close(void *state)
{
    (void)state;
}

static weft_result no_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    (void)state, (void)comm, (void)comm_out, (void)card;
    return WEFT_E_UNSUPPORTED;
}

static weft_result no_comm_connect(void *comm, const unsigned char *cards)
{
    (void)comm, (void)cards;
    return WEFT_E_UNSUPPORTED;
}

static void no_comm_abort(void *comm, weft_result result, const char *text)
{
    (void)comm, (void)result, (void)text;
}

static void no_comm_leave(void *comm)
{
    (void)comm;
}

static void no_comm_destroy(void *comm)
{
    (void)comm;
}

static weft_result no_start(void *comm, weft_op *op)
{
    (void)comm, (void)op;
    return WEFT_E_UNSUPPORTED;
}

static unsigned no_progress(void *state, uint64_t slice_ticks)
{
    (void)state, (void)slice_ticks;
    return 0;
}

static void no_explain(void *comm, const weft_op *op, char *text, size_t text_bytes)
{
    (void)comm, (void)op;
    snprintf(text, text_bytes, "its backend does not say why");
}

static int no_fd(void *state)
{
    (void)state;
    return -1;
}

static weft_result no_arm(void *state)
{
    (void)state;
    return WEFT_AGAIN; /* a descriptor that cannot be armed must be polled */
}

static weft_result no_order(void *comm, const weft_op *op, weft_stream stream)
{
    (void)comm, (void)op, (void)stream;
    return WEFT_E_UNSUPPORTED;
}

static void no_hasten(void *comm, weft_op *op)
{
    (void)comm, (void)op;
}

static void *no_native(void *comm)
{
    (void)comm;
    return NULL;
}

static void no_tell(void *state, weft_backend_tell_line *line, void *cookie)
{
    (void)state, (void)line, (void)cookie;
}

static weft_result no_attach(void *comm, void *memory, size_t bytes)
{
    (void)comm, (void)memory, (void)bytes;
    return WEFT_OK;
}

static weft_result admit_all(void *comm, const weft_collective *what)
{
    (void)comm, (void)what;
    return WEFT_OK;
}

static const weft_backend unsupported = {
    .query = no_query,
    .open = no_open,
    .close = no_close,
    .comm_create = no_comm_create,
    .comm_connect = no_comm_connect,
    .comm_abort = no_comm_abort,
    .comm_leave = no_comm_leave,
    .comm_destroy = no_comm_destroy,
    .start = no_start,
    .progress = no_progress,
    .explain = no_explain,
    .fd = no_fd,
    .arm = no_arm,
    .order = no_order,
    .hasten = no_hasten,
    .native = no_native,
    .tell = no_tell,
    .attach = no_attach,
    .admit = admit_all,
};

/* Behind its head a table is nothing but calls. */
typedef void (*call)(void);
enum { HEAD_BYTES = offsetof(weft_backend, query), CALLS = (sizeof(weft_backend) - HEAD_BYTES) / sizeof(call) };
_Static_assert(HEAD_BYTES + CALLS * sizeof(call) == sizeof(weft_backend), "calls lie side by side");

static void get_calls(const weft_backend *from, call *calls)
{
    size_t bytes = from->size < sizeof *from ? from->size : sizeof *from;
    memcpy(calls, (const char *)from + HEAD_BYTES, bytes - HEAD_BYTES);
}

static void fill_table(const weft_backend *given, weft_backend *table)
{
    call own[CALLS], calls[CALLS] = {0};
    *table = unsupported;
    table->size = sizeof *table;
    get_calls(table, own);
    get_calls(given, calls);
    for (size_t i = 0; i < CALLS; i++)
        own[i] = calls[i] ? calls[i] : own[i];
    memcpy((char *)table + HEAD_BYTES, own, sizeof own);
    table->abi_major = given->abi_major;
    table->name = given->name;
}

/* ------------------------------------------------------------------------------------------- the registry */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to append */
static weft_backend tables[WEFT__BACKENDS];
static _Atomic int table_count;

static bool is_in_table(const char *name)
{
    for (int i = 0; i < atomic_load(&table_count); i++)
        if (strcmp(tables[i].name, name) == 0)
            return true;
    return false;
}

static weft_result refuse_name(const char *name)
{
    char names[WEFT__BACKENDS * (WEFT_BACKEND_NAME_MAX + 2) + 1] = "";
    for (int i = 0, n = 0; i < atomic_load(&table_count); i++)
        n += snprintf(names + n, sizeof names - (size_t)n, "%s%s", i ? ", " : "", tables[i].name);
    return weft__fail(WEFT_E_NOT_FOUND, "there is no backend '%s'; there are: %s", name, names);
}

static weft_result append(const weft_backend *given)
{
    if (is_in_table(given->name))
        return weft__fail(WEFT_E_INVALID, "there is a backend '%s' already", given->name);
    int count = atomic_load(&table_count);
    if (count == WEFT__BACKENDS)
        return weft__fail(WEFT_E_BUSY, "backend %s: there are %d already", given->name, WEFT__BACKENDS);
    fill_table(given, &tables[count]);
    atomic_store(&table_count, count + 1);
    return WEFT_OK;
}

static weft_result check_table(const weft_backend *given)
{
    if (given->abi_major != WEFT_BACKEND_ABI)
        return weft__fail(WEFT_E_UNSUPPORTED, "a backend speaks abi %u, weft %d", given->abi_major, WEFT_BACKEND_ABI);
    if (given->size < HEAD_BYTES || given->size % sizeof(call))
        return weft__fail(WEFT_E_INVALID, "weft_backend.size is %zu: it is sizeof(weft_backend)", given->size);
    if (!given->name || !*given->name || strlen(given->name) > WEFT_BACKEND_NAME_MAX)
        return weft__fail(WEFT_E_INVALID, "a backend needs a name of 1 to %d bytes, not '%s'", WEFT_BACKEND_NAME_MAX,
                          given->name ? given->name : "");
    return WEFT_OK;
}

static void register_built_in(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUILT_IN; i++)
        (void)append(built_in[i]);
    pthread_mutex_unlock(&lock);
}

static void need_built_in(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_built_in);
}

bool weft__backend_is_known(const char *name)
{
    need_built_in();
    return is_in_table(name);
}

weft_result weft_backend_register(const weft_backend *given)
{
    if (!given)
        return weft__fail(WEFT_E_INVALID, "no backend to register");
    WEFT_TRY(check_table(given));
    need_built_in();
    pthread_mutex_lock(&lock);
    weft_result result = append(given);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ------------------------------------------------------------------------------------------- opening and choosing */

static weft_result open_one(weft_world *world, const weft_backend *table)
{
    int index = atomic_load(&world->backend_count);
    weft__backend_instance *instance = &world->backends[index];
    *instance = (weft__backend_instance){.table = table, .wire.fd = -1};
    weft_result result = table->open(world, &instance->state);
    if (result == WEFT_E_UNSUPPORTED)
        return WEFT_OK; /* not in this world */
    if (result != WEFT_OK)
        return result;
    instance->wire.fd = table->fd(instance->state);
    if (world->progress.has_engine)
        result = weft__progress_watch(world, index);
    if (result == WEFT_OK)
        atomic_store(&world->backend_count, index + 1); /* whoever chooses outside the seat sees all of it */
    else
        table->close(instance->state);
    return result;
}

/* It is not in this world, which goes on without: why, is told to those who ask. */
static void leave_out(weft_world *world, int index)
{
    weft__backend_trial *trial = &world->backend_trials[index];
    trial->state = WEFT__BACKEND_LEFT_OUT;
    snprintf(trial->why, sizeof trial->why, "%s", weft_last_error());
    weft__log(WEFT_LOG_WARN, "backend %s is left out: %s", tables[index].name, trial->why);
}

static weft_result try_one(weft_world *world, int index, bool is_needed)
{
    weft__last_error said = weft__error_keep();
    weft_result result = open_one(world, &tables[index]);
    if (result == WEFT_OK) {
        world->backend_trials[index].state = WEFT__BACKEND_TRIED;
        return WEFT_OK;
    }
    if (is_needed)
        return result;
    leave_out(world, index);
    weft__error_restore(&said);
    return WEFT_OK;
}

/* Those that are not open yet and may be wanted: the one of that name, or without a name all of them. `host` takes of
 * them what it can get. */
static weft_result open_new(weft_world *world, const char *name)
{
    bool any = !name || !*name || strcmp(name, weft__backend_host.name) == 0;
    for (int i = 0; i < atomic_load(&table_count); i++) {
        weft__backend_state state = world->backend_trials[i].state;
        bool is_asked_for = name && strcmp(name, tables[i].name) == 0, is_built_in = i < BUILT_IN;
        if ((state == WEFT__BACKEND_NEW && (any || is_built_in)) || (state != WEFT__BACKEND_TRIED && is_asked_for))
            WEFT_TRY(try_one(world, i, is_asked_for || is_built_in));
    }
    return WEFT_OK;
}

static bool spans_hosts(const weft_world *world)
{
    for (int r = 0; world->segments && r < world->size; r++)
        if (!world->segments[r])
            return true;
    return false;
}

weft_result weft__backends_open(weft_world *world)
{
    const char *name = world->config.backend;
    need_built_in();
    if (spans_hosts(world) || (name && *name && !is_in_table(name)))
        weft__backend_modules_load();
    world->backends = weft__alloc(WEFT__BACKENDS * sizeof *world->backends);
    world->backend_trials = weft__alloc(WEFT__BACKENDS * sizeof *world->backend_trials);
    return world->backends && world->backend_trials ? open_new(world, name) : WEFT_E_NO_MEMORY;
}

weft_result weft__backends_renew(weft_world *world, const char *name)
{
    weft__progress_enter(world);
    weft_result result = open_new(world, name);
    weft__progress_leave(world);
    return result;
}

void weft__backends_tell_left_out(const weft_world *world,
                                  void (*tell)(void *cookie, const char *name, const char *why), void *cookie)
{
    for (int i = 0; i < atomic_load(&table_count); i++)
        if (world->backend_trials[i].state == WEFT__BACKEND_LEFT_OUT)
            tell(cookie, tables[i].name, world->backend_trials[i].why);
}

void weft__backends_close(weft_world *world)
{
    while (world->backend_count > 0) {
        weft__backend_instance *b = &world->backends[--world->backend_count];
        b->table->close(b->state);
    }
    free(world->backends);
    free(world->backend_trials);
    world->backends = NULL;
    world->backend_trials = NULL;
}

static bool can_serve(const weft__backend_instance *b, const weft_backend_question *question, uint32_t comm_flags,
                      weft_backend_facts *facts)
{
    *facts = (weft_backend_facts){.size = sizeof *facts};
    return b->table->query(question, facts) == WEFT_OK && facts->score > WEFT_SCORE_NONE &&
           !((comm_flags & WEFT_COMM_EXACT) && !(facts->caps & WEFT_CAP_ORDERED)) &&
           !(facts->caps & WEFT_CAP_STREAMS) == (question->device == WEFT_DEVICE_HOST);
}

/* All members can map each other's memory. */
static bool share_memory(const weft_world *world, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (!world->segments || !world->segments[ranks[i]])
            return false;
    return true;
}

static weft_result find_all(weft_world *world)
{
    weft__backend_modules_load();
    return weft__backends_renew(world, NULL);
}

static weft_result find_modules(weft_world *world, const char *name)
{
    if (!is_in_table(name))
        weft__backend_modules_load();
    if (!is_in_table(name))
        return refuse_name(name);
    return weft__backends_renew(world, name);
}

weft_result weft__backends_choose(weft_world *world, const weft_comm_config *config, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out)
{
    weft_backend_question question = {.size = sizeof question,
                                      .world = world,
                                      .ranks = ranks,
                                      .count = count,
                                      .same_memory = share_memory(world, ranks, count),
                                      .device = config->device};
    const char *name = config->backend;
    weft__backend_instance *best = NULL;
    bool any = !name || !*name;
    if (!any)
        WEFT_TRY(find_modules(world, name));
    else if (config->device != WEFT_DEVICE_HOST) /* their backends are modules */
        WEFT_TRY(find_all(world));
    for (int i = 0; i < world->backend_count; i++) {
        weft__backend_instance *b = &world->backends[i];
        /* A comm of one rank is always its own business. */
        if (!any && count > 1 && strcmp(b->table->name, name) != 0)
            continue;
        weft_backend_facts facts;
        if (!can_serve(b, &question, config->flags, &facts) || (best && facts.score <= facts_out->score))
            continue;
        best = b;
        *facts_out = facts;
    }
    if (!best)
        return weft__fail(WEFT_E_UNSUPPORTED, "no backend%s%s%s can carry these %d ranks", any ? "" : " '",
                          any ? "" : name, any ? "" : "'", count);
    if (facts_out->card_bytes > WEFT_BACKEND_CARD_BYTES)
        return weft__fail(WEFT_E_INVALID, "backend %s wants cards of %zu bytes, more than %d", best->table->name,
                          facts_out->card_bytes, WEFT_BACKEND_CARD_BYTES);
    *instance_out = best;
    return WEFT_OK;
}
