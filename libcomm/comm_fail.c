/* SPDX-License-Identifier: Apache-2.0 */
/* How comms fail: the first verdict on a comm is its last, and is taken to its backend by whoever is in the seat. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/reserved.h"
#include "comm.h"
#include "control.h"

/* Add it to the failed ones of its world, and then tell. Locked. */
static void note_verdict(weft_comm *comm, weft_result result, const char *text)
{
    weft_world *world = comm->world;
    snprintf(comm->verdict_text, sizeof comm->verdict_text, "%s", text);
    if (!comm->forgotten) {
        weft_comm **link = &world->failed;
        while (*link)
            link = &(*link)->next_failed;
        *link = comm;
        comm->failure = ++world->failures;
    }
    atomic_store(&comm->verdict, (int32_t)result);
}

bool weft__comm_fail(weft_comm *comm, weft_result result, const char *text)
{
    pthread_mutex_lock(&comm->world->error_lock);
    bool first = atomic_load(&comm->verdict) == WEFT_OK;
    if (first)
        note_verdict(comm, result, text);
    if (result == WEFT_E_STUCK && !atomic_load(&comm->stuck)) {
        snprintf(comm->stuck_text, sizeof comm->stuck_text, "%s", text);
        atomic_store(&comm->stuck, true);
        if (comm->gpu)
            atomic_store(&comm->world->gpu_stuck, true);
    }
    pthread_mutex_unlock(&comm->world->error_lock);
    return first;
}

void weft__comm_forget_failure(weft_comm *comm)
{
    weft_world *world = comm->world;
    pthread_mutex_lock(&world->error_lock);
    comm->forgotten = true;
    for (weft_comm **link = &world->failed; *link; link = &(*link)->next_failed)
        if (*link == comm) {
            *link = comm->next_failed;
            break;
        }
    if (comm->failure > world->checked && (!world->gone_failure || comm->failure < world->gone_failure)) {
        world->gone_failure = comm->failure;
        world->gone.result = atomic_load(&comm->verdict);
        snprintf(world->gone.text, sizeof world->gone.text, "%s", comm->verdict_text);
    }
    pthread_mutex_unlock(&world->error_lock);
}

weft_result weft__comms_check(weft_world *world)
{
    weft__verdict first = {0};
    pthread_mutex_lock(&world->error_lock);
    const weft_comm *comm = world->failed;
    if (world->gone_failure && (!comm || world->gone_failure < comm->failure)) {
        first = world->gone;
    } else if (comm) {
        first.result = atomic_load(&comm->verdict);
        snprintf(first.text, sizeof first.text, "%s", comm->verdict_text);
    }
    world->checked = world->failures;
    world->gone_failure = 0;
    pthread_mutex_unlock(&world->error_lock);
    return weft__verdict_result(&first);
}

void weft__comms_tell_failure(weft_world *world, const weft_comm *comm, weft_result result, char *text, size_t bytes)
{
    *text = 0;
    pthread_mutex_lock(&world->error_lock);
    for (const weft_comm *failed = world->failed; failed; failed = failed->next_failed)
        if (failed == comm)
            snprintf(text, bytes, "%s", result == WEFT_E_STUCK ? weft__comm_failure(comm, result) : comm->verdict_text);
    pthread_mutex_unlock(&world->error_lock);
}

/* What comes from backends and peers may be anything; a comm that failed with "OK" would not have. */
static weft_result known_failure(weft_result result, char *text, size_t bytes)
{
    if (weft__is_failure((int)result))
        return result;
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, " (told as result %d, which is no failure)", (int)result);
    return WEFT_E_BUG;
}

void weft_backend_fail(weft_comm *comm, weft_result result, const char *format, ...)
{
    char text[sizeof comm->verdict_text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    result = known_failure(result, text, sizeof text);
    bool first = weft__comm_fail(comm, result, text);
    if (first || result == WEFT_E_STUCK)
        weft__log(WEFT_LOG_ERROR, "%s (%s)", text, weft_result_string(result));
    if (first)
        weft__progress_alarm(comm->world);
}

const char *weft__comm_failure(const weft_comm *comm, weft_result result)
{
    if ((weft_result)atomic_load(&comm->verdict) == result)
        return comm->verdict_text;
    return result == WEFT_E_STUCK && atomic_load(&comm->stuck) ? comm->stuck_text : "";
}

bool weft__comm_comes_to_rest(weft_comm *comm)
{
    while (comm->slots && weft__work_await_left(comm->slots))
        ;
    return !atomic_load(&comm->stuck);
}

void weft__comm_carry_out_verdict(weft_comm *comm)
{
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    comm->aborted = true;
    if (comm->backend_comm) /* connected or not: members may have connected already */
        weft__wire_call(comm->instance)->comm_abort(comm->backend_comm, verdict, comm->verdict_text);
    if (comm->connected && comm->card) { /* before, the card is being made, outside the seat */
        weft__card_say_why(&comm->terms, verdict, comm->verdict_text);
        weft__board_fail(comm->card, &comm->terms);
        weft__control_tell_card(comm->world, comm->card, &comm->terms, comm->ranks, comm->size);
    }
    /* Held works end as they are looked at: see try_to_begin() in seat.c. */
}

weft_result weft__comm_usable(weft_comm *comm, uint64_t cap)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "no comm");
    WEFT_TRY(weft__world_alive(comm->world));
    weft_result verdict = (weft_result)atomic_load_explicit(&comm->verdict, memory_order_acquire);
    if (verdict != WEFT_OK)
        return weft__fail_quietly(verdict, comm->verdict_text);
    if (!comm->connected)
        return weft__fail(WEFT_E_STATE, "comm %s is not made yet: weft_comm_create_finish() comes first", comm->name);
    if (!(comm->facts.caps & cap))
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: backend %s carries no %s", comm->name, comm->backend->name,
                          cap == WEFT_CAP_P2P ? "p2p messages" : "collectives");
    return WEFT_OK;
}

weft_result weft_comm_error(const weft_comm *comm, char *text, size_t text_bytes)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "the error of no comm");
    weft_result verdict = (weft_result)atomic_load(&comm->verdict);
    if (text && text_bytes)
        snprintf(text, text_bytes, "%s", verdict == WEFT_OK ? "" : comm->verdict_text);
    return verdict;
}

weft_result weft_comm_abort(weft_comm *comm)
{
    return weft_comm_abort_because(comm, NULL);
}

weft_result weft_comm_abort_because(weft_comm *comm, const char *why)
{
    if (!comm)
        return weft__fail(WEFT_E_INVALID, "no comm to abort");
    WEFT_TRY(weft__world_alive(comm->world));
    weft__last_error said = weft__error_keep();
    bool told = why && *why;
    weft_backend_fail(comm, WEFT_E_ABORTED, "comm %s was aborted by rank %d%s%s", comm->name, comm->world->rank,
                      told ? ": " : "", told ? why : "");
    weft__error_restore(&said);
    return WEFT_OK;
}
