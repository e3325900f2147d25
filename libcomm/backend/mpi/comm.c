/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: a communicator of the members, made by them alone, in a thread since that waits for all of them. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mpi/module.h"

enum { COMMS_OF_RANK = 1024, DRAIN_ROUNDS = 100000 };

/* ------------------------------------------------------------------------------------------- parts */

static void free_parts(weft__mpi_comm *mc)
{
    weft__mpi_batches_free(mc);
    free(mc->members);
    free(mc->asked);
    free(mc->staging);
    free(mc->left_after);
    free(mc->said_requests[0]);
    free(mc->said_requests[1]);
    free(mc);
}

static bool alloc_parts(weft__mpi_comm *mc)
{
    size_t count = (size_t)mc->count, staged = WEFT__MPI_STAGED > count * 1024 ? WEFT__MPI_STAGED : count * 1024;
    mc->members = calloc(count, sizeof *mc->members);
    mc->asked = calloc(count, sizeof *mc->asked);
    mc->staging = malloc(staged * sizeof(double));
    mc->left_after = malloc(count * sizeof *mc->left_after);
    mc->said_requests[0] = malloc(count * sizeof(MPI_Request));
    mc->said_requests[1] = malloc(count * sizeof(MPI_Request));
    if (!mc->members || !mc->asked || !mc->staging || !mc->left_after || !mc->said_requests[0] || !mc->said_requests[1])
        return false;
    for (int m = 0; m < mc->count; m++) {
        mc->said_requests[0][m] = mc->said_requests[1][m] = MPI_REQUEST_NULL;
        mc->left_after[m] = UINT64_MAX;
    }
    return true;
}

/* A tag for making a communicator, as no other that this rank makes at the time has it. */
static int next_tag(const weft__mpi *mpi)
{
    static _Atomic unsigned made;
    int *highest, has;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &has);
    int limit = has ? *highest : SHRT_MAX;
    return (int)(((unsigned)mpi->rank * COMMS_OF_RANK + atomic_fetch_add(&made, 1) % COMMS_OF_RANK) % (unsigned)limit);
}

weft_result weft__mpi_comm_create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card)
{
    weft__mpi *mpi = state;
    weft__mpi_comm *mc = calloc(1, sizeof *mc);
    if (!mc)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for it", what->name);
    mc->mpi = mpi;
    mc->comm = what->comm;
    mc->rank = what->rank, mc->count = what->count, mc->ranks = what->ranks;
    mc->handle = MPI_COMM_NULL;
    mc->request = mc->heard_request = MPI_REQUEST_NULL;
    mc->tail = &mc->head;
    mc->tag = next_tag(mpi);
    snprintf(mc->name, sizeof mc->name, "%s", what->name);
    if (!alloc_parts(mc)) {
        free_parts(mc);
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for %d members", what->name, what->count);
    }
    weft__mpi_card own = {mpi->rank, mpi->size, mc->tag, what->check != 0};
    memcpy(card, &own, sizeof own);
    *comm_out = mc;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- connecting */

static weft_result read_cards(weft__mpi_comm *mc, const unsigned char *cards)
{
    for (int m = 0; m < mc->count; m++) {
        weft__mpi_card theirs;
        memcpy(&theirs, cards + (size_t)m * sizeof theirs, sizeof theirs);
        if (theirs.size != mc->mpi->size)
            return weft_backend_error(WEFT_E_MISMATCH, "comm %s: MPI has %d ranks to rank %d, %d to rank %d", mc->name,
                                      theirs.size, mc->ranks[m], mc->mpi->size, mc->ranks[mc->rank]);
        for (int other = 0; other < m; other++)
            if (mc->members[other] == theirs.rank)
                return weft_backend_error(WEFT_E_MISMATCH, "comm %s: ranks %d and %d are both rank %d to MPI", mc->name,
                                          mc->ranks[other], mc->ranks[m], theirs.rank);
        mc->members[m] = theirs.rank;
        mc->tag = m ? mc->tag : theirs.tag;
        mc->check |= theirs.check;
    }
    return WEFT_OK;
}

static int make_communicator(weft__mpi_comm *mc)
{
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, mc->count, mc->members, &group);
    int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, mc->tag, &mc->handle);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return code;
}

static void *maker_main(void *comm)
{
    weft__mpi_comm *mc = comm;
    mc->make_code = make_communicator(mc);
    atomic_store(&mc->making, WEFT__MPI_MADE);
    return NULL;
}

static weft_result start_maker(weft__mpi_comm *mc)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&mc->making, WEFT__MPI_IN_THE_MAKING);
    int failed = pthread_create(&mc->maker, NULL, maker_main, mc);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return WEFT_PENDING;
    atomic_store(&mc->making, WEFT__MPI_UNMADE);
    return weft_backend_error(WEFT_E_SYSTEM, "comm %s: cannot start a thread: %s", mc->name, strerror(failed));
}

static weft_result finish_making(weft__mpi_comm *mc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (mc->make_code != MPI_SUCCESS) {
        MPI_Error_string(mc->make_code, text, &length);
        return weft_backend_error(WEFT_E_SYSTEM, "comm %s: MPI_Comm_create_group: %.180s", mc->name, text);
    }
    MPI_Comm_set_errhandler(mc->handle, MPI_ERRORS_RETURN);
    mc->connected = true;
    mc->next = mc->mpi->comms;
    mc->mpi->comms = mc;
    return WEFT_OK;
}

weft_result weft__mpi_comm_connect(void *comm, const unsigned char *cards)
{
    weft__mpi_comm *mc = comm;
    int making = atomic_load(&mc->making);
    if (making == WEFT__MPI_UNMADE) {
        weft_result result = read_cards(mc, cards);
        if (result != WEFT_OK)
            return result;
        if (weft__mpi_has_threads())
            return start_maker(mc);
        mc->make_code = make_communicator(mc);
        return finish_making(mc);
    }
    if (making == WEFT__MPI_IN_THE_MAKING)
        return WEFT_PENDING;
    pthread_join(mc->maker, NULL);
    atomic_store(&mc->making, WEFT__MPI_UNMADE); /* joined */
    return finish_making(mc);
}

/* ------------------------------------------------------------------------------------------- the end */

void weft__mpi_comm_leave(void *comm)
{
    weft__mpi_comm *mc = comm;
    char text[160];
    if (!mc->connected)
        return;
    for (weft__mpi_comm **link = &mc->mpi->comms; *link; link = &(*link)->next)
        if (*link == mc) {
            *link = mc->next;
            break;
        }
    snprintf(text, sizeof text, "rank %d has destroyed comm %s with operations in flight", mc->ranks[mc->rank],
             mc->name);
    if ((mc->head || mc->batches) && !mc->aborted)
        weft__mpi_tell(mc, WEFT_E_ABORTED, text);
    mc->failed |= mc->head || mc->batches;
    weft__mpi_batches_cancel(mc);
    weft__mpi_batches_end(mc, WEFT_E_ABORTED, true);
    while (mc->head)
        weft__mpi_collective_end(mc, WEFT_E_ABORTED);
    if (mc->failed)
        weft__mpi_absorb(mc);
    weft__mpi_tell(mc, WEFT_OK, "");
}

static bool all_said(weft__mpi_comm *mc)
{
    bool all = true;
    for (int m = 0; m < 2 * mc->count; m++) {
        int flag = 0;
        all &= MPI_Test(&mc->said_requests[m % 2][m / 2], &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag;
    }
    return all;
}

/* All members have left, and have said so: take that up, so that nothing is on its way when the communicator goes. */
static bool drain(weft__mpi_comm *mc)
{
    bool all = false;
    for (int round = 0; round < DRAIN_ROUNDS && !all; round++) {
        weft__mpi_listen(mc);
        all = all_said(mc) && mc->left == mc->count - 1;
    }
    if (mc->heard_request != MPI_REQUEST_NULL) {
        MPI_Cancel(&mc->heard_request);
        MPI_Wait(&mc->heard_request, MPI_STATUS_IGNORE);
    }
    return all;
}

/* What MPI may still write to is left to it. */
void weft__mpi_comm_destroy(void *comm)
{
    weft__mpi_comm *mc = comm;
    int making = atomic_load(&mc->making);
    if (making == WEFT__MPI_IN_THE_MAKING) {
        pthread_detach(mc->maker);
        return;
    }
    if (making == WEFT__MPI_MADE)
        pthread_join(mc->maker, NULL);
    bool clean = mc->connected && drain(mc) && !mc->failed;
    if (clean)
        MPI_Comm_free(&mc->handle);
    if (clean || mc->handle == MPI_COMM_NULL)
        free_parts(mc);
}
