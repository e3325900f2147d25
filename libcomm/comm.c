/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: their end, and questions to them. How they are made is in comm_create.c and comm_meet.c, how
 * they fail in comm_fail.c. */
#include "comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reserved.h"
#include "base/sized.h"
#include "control.h"
#include "device/gpu.h"

/* ------------------------------------------------------------------------------------------- the end */

/* Works that nobody will finish: say so, end them, and forget them. In the seat. */
static void drop_works(weft_comm *comm)
{
    char works[256];
    if (weft__work_describe_unfinished(comm->slots, works, sizeof works))
        weft__log(WEFT_LOG_ERROR, "comm %s is destroyed: %s", comm->name, works);
    for (uint32_t i = 0; i < comm->slots->count; i++) {
        weft__work *work = weft__work_at(comm->slots, i);
        if (!weft__work_is_free(work) && !weft__work_ended(work))
            weft__progress_done(&work->op, WEFT_E_ABORTED);
    }
    weft__seat_drop_held(comm);
    weft__work_pool_give(comm->slots);
}

/* A member that comes only now sees that this rank has left, and does not connect. */
static bool all_have_left(const weft_comm *comm)
{
    weft_world *world = comm->world;
    for (int i = 0; comm->card && i < comm->size; i++) { /* without a card nobody has heard of it */
        const weft__board *board = world->boards[comm->ranks[i]];
        bool gone = comm->ranks[i] == world->rank || atomic_load(&world->lost[comm->ranks[i]]) ||
                    atomic_load(&board->state) == WEFT__RANK_CLOSED ||
                    weft__board_has_left(board, comm->key, comm->incarnation);
        if (!gone)
            return false;
    }
    return true;
}

/* Give up what others may still look at, if they have all gone. In the seat. */
static bool bury(weft_comm *comm, bool force)
{
    if (!force && !all_have_left(comm))
        return false;
    if (comm->backend_comm)
        weft__wire_call(comm->instance)->comm_destroy(comm->backend_comm);
    if (comm->card && !force) /* else a member that is late must still find out that this rank was here */
        weft__board_remove(comm->card, weft__now_ns());
    if (comm->gpu_word)
        weft__gpu_word_give(comm->world, comm->gpu_word, atomic_load(&comm->verdict) == WEFT_OK);
    free(comm->ranks);
    free(comm->peers);
    free(comm->is_peer);
    free(comm->cards);
    free(comm->seen);
    free(comm->messages);
    free(comm);
    return true;
}

void weft__comms_bury(weft_world *world, bool force)
{
    for (weft_comm **link = &world->destroyed; *link;) {
        weft_comm *comm = *link, *next = comm->next;
        if (bury(comm, force))
            *link = next;
        else
            link = &comm->next;
    }
}

void weft_comm_destroy(weft_comm *comm)
{
    if (!comm || weft__world_alive(comm->world) != WEFT_OK)
        return;
    weft_world *world = comm->world;
    weft__last_error said = weft__error_keep();
    (void)weft__comm_comes_to_rest(comm);
    weft__progress_enter(world);
    for (weft_comm **link = &world->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
    if (atomic_load(&comm->verdict) != WEFT_OK && !comm->aborted)
        weft__comm_carry_out_verdict(comm);
    if (comm->backend_comm)
        weft__wire_call(comm->instance)->comm_leave(comm->backend_comm);
    if (comm->slots)
        drop_works(comm);
    weft__comm_forget_failure(comm);
    if (comm->use)
        comm->use->in_use = false;
    comm->incarnation = comm->use ? comm->use->count : 0;
    if (comm->card && comm->connected)
        weft__board_leave(comm->card);
    else if (comm->card)
        weft__comm_give_up(comm);
    if (comm->card)
        weft__control_tell_card(world, comm->card, &comm->terms, comm->ranks, comm->size);
    comm->next = world->destroyed;
    world->destroyed = comm;
    weft__comms_bury(world, false);
    weft__progress_leave(world);
    weft__error_restore(&said);
}

/* ------------------------------------------------------------------------------------------- questions */

int weft_comm_rank(const weft_comm *comm)
{
    return comm->rank;
}

int weft_comm_size(const weft_comm *comm)
{
    return comm->size;
}

int weft_comm_world_rank(const weft_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size ? comm->ranks[rank] : -1;
}

const char *weft_comm_name(const weft_comm *comm)
{
    return comm->name;
}

const char *weft_comm_backend(const weft_comm *comm)
{
    return comm->backend->name;
}

weft_result weft_comm_config_get(const weft_comm *comm, weft_comm_config *config_out)
{
    if (!comm || !config_out)
        return weft__fail(WEFT_E_INVALID, "the config of a comm without a comm, or without a place for it");
    weft_comm_config config = comm->config;
    config.backend = comm->backend->name;
    config.flags &= ~(WEFT__COMM_OWN | WEFT__COMM_NATIVE);
    return weft__give_sized(config_out, &config, sizeof config, "weft_comm_config");
}

weft_queues weft_comm_queues(const weft_comm *comm)
{
    return comm->facts.queues;
}

weft_result weft_comm_native(weft_comm *comm, void **native_out)
{
    if (!comm || !native_out)
        return weft__fail(WEFT_E_INVALID, "a native communicator without a comm, or without a place for it");
    WEFT_TRY(weft__comm_usable(comm, comm->facts.caps));
    weft__progress_enter(comm->world); /* whoever aborts the comm is there too */
    void *native = comm->backend->native(comm->backend_comm);
    weft__progress_leave(comm->world);
    WEFT_TRY(weft__comm_usable(comm, comm->facts.caps));
    if (!native)
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: backend %s has no communicator of a library to give",
                          comm->name, comm->backend->name);
    *native_out = native;
    return WEFT_OK;
}

uint32_t weft__reserved_number(weft_comm *comm)
{
    return comm->numbers++;
}

weft_world *weft_comm_world(const weft_comm *comm)
{
    return comm->world;
}
