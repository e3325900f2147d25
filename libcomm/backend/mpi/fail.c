/* SPDX-License-Identifier: Apache-2.0 */
/* Failure: how it is noticed and told, and when what was taken can be given back. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mpi/module.h"

enum { STUCK_MS = 5000, ROUNDS_ALONE = 1000 }; /* turns in which what a member sent before it left has come */

void weft__mpi_fail(weft__mpi_comm *mc, weft_result result, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mc->failed = true;
    weft_backend_fail(mc->comm, result, "%s", text);
}

bool weft__mpi_well(weft__mpi_comm *mc, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, text, &length);
    weft__mpi_fail(mc, WEFT_E_SYSTEM, "comm %s: %s: %.180s", mc->name, call, text);
    return false;
}

/* ------------------------------------------------------------------------------------------- telling and hearing */

void weft__mpi_tell(weft__mpi_comm *mc, weft_result result, const char *text)
{
    int which = result == WEFT_OK;
    weft__mpi_note *note = &mc->said[which];
    note->result = (int32_t)result;
    note->collectives = mc->last_number;
    snprintf(note->text, sizeof note->text, "%s", text);
    for (int m = 0; m < mc->count; m++)
        if (m != mc->rank)
            MPI_Isend(note, (int)sizeof *note, MPI_BYTE, m, WEFT__MPI_TAG_NOTE, mc->handle,
                      &mc->said_requests[which][m]);
}

static void take_note(weft__mpi_comm *mc, int from)
{
    const weft__mpi_note *note = &mc->heard;
    if (note->result != WEFT_OK && !mc->failed)
        weft__mpi_fail(mc, (weft_result)note->result, "%.*s", (int)sizeof note->text, note->text);
    if (note->result != WEFT_OK)
        return;
    mc->left_after[from] = note->collectives;
    mc->left++;
    mc->rounds_alone = 0;
}

/* What a member did before it left still counts. */
static void look_who_has_left(weft__mpi_comm *mc)
{
    int missed = weft__mpi_batches_miss(mc);
    for (int m = 0; m < mc->count && mc->head; m++)
        if (mc->left_after[m] < mc->head->number)
            missed = m;
    if (missed >= 0 && ++mc->rounds_alone > ROUNDS_ALONE)
        weft__mpi_fail(mc, WEFT_E_PEER_LOST, "rank %d has destroyed comm %s, which others still use", mc->ranks[missed],
                       mc->name);
}

void weft__mpi_listen(weft__mpi_comm *mc)
{
    for (int flag = 1; flag;) {
        MPI_Status status;
        if (mc->heard_request == MPI_REQUEST_NULL)
            MPI_Irecv(&mc->heard, (int)sizeof mc->heard, MPI_BYTE, MPI_ANY_SOURCE, WEFT__MPI_TAG_NOTE, mc->handle,
                      &mc->heard_request);
        MPI_Test(&mc->heard_request, &flag, &status);
        if (flag)
            take_note(mc, status.MPI_SOURCE);
    }
    if (mc->left && !mc->failed)
        look_who_has_left(mc);
}

/* ------------------------------------------------------------------------------------------- giving back */

/* Take messages that nobody wants any more, so that their senders get their buffers back. */
void weft__mpi_absorb(weft__mpi_comm *mc)
{
    enum { ROUNDS = 1000 };
    for (;;) {
        int flag = 0, bytes;
        MPI_Message message;
        MPI_Status status;
        MPI_Request request;
        weft__mpi_listen(mc); /* what members say is not among them */
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, mc->handle, &flag, &message, &status);
        if (!flag)
            return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        void *memory = bytes == MPI_UNDEFINED ? NULL : malloc((size_t)bytes + 1);
        if (!memory || MPI_Imrecv(memory, bytes, MPI_BYTE, &message, &request) != MPI_SUCCESS)
            return;
        for (int round = 0; round < ROUNDS && request != MPI_REQUEST_NULL; round++)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (request != MPI_REQUEST_NULL)
            return; /* the memory is MPI's */
        free(memory);
    }
}

/* The head goes on in MPI, which cannot be stopped: while it moves the caller's memory, that must wait. */
static bool head_is_held(weft__mpi_comm *mc)
{
    int flag = 1;
    if (!mc->head || mc->phase != WEFT__MPI_MOVE || !mc->is_direct)
        return false;
    return MPI_Test(&mc->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag;
}

static bool is_stuck(const weft__mpi_comm *mc)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    double most_ms = STUCK_MS;
    if (weft_comm_config_get(mc->comm, &config) == WEFT_OK && config.timeout_ms < STUCK_MS)
        most_ms = config.timeout_ms;
    return weft_trace_ns(mc->mpi->world, weft_trace_now(mc->mpi->world) - mc->aborted_ticks) > most_ms * 1e6;
}

static void end_rest(weft__mpi_comm *mc, weft_result result)
{
    while (mc->head)
        weft__mpi_collective_end(mc, result);
}

unsigned weft__mpi_give_back(weft__mpi_comm *mc)
{
    if (!mc->head && !mc->batches)
        return 0;
    weft__mpi_batches_end(mc, mc->verdict, false);
    if (!head_is_held(mc))
        end_rest(mc, mc->verdict);
    if ((mc->head || mc->batches) && is_stuck(mc)) {
        weft_backend_fail(mc->comm, WEFT_E_STUCK,
                          "comm %s: MPI has not let go of the buffers of rank %d since the comm has failed", mc->name,
                          mc->ranks[mc->rank]);
        weft__mpi_batches_end(mc, WEFT_E_STUCK, true);
        end_rest(mc, WEFT_E_STUCK);
    }
    return mc->head || mc->batches ? 0 : WEFT_PROGRESS_MOVED;
}

void weft__mpi_comm_abort(void *comm, weft_result result, const char *text)
{
    weft__mpi_comm *mc = comm;
    mc->failed = mc->aborted = true;
    mc->verdict = result;
    mc->aborted_ticks = weft_trace_now(mc->mpi->world);
    if (!mc->connected)
        return;
    weft__mpi_tell(mc, result, text);
    weft__mpi_batches_cancel(mc);
    weft__mpi_absorb(mc);
    (void)weft__mpi_give_back(mc);
}
