/* SPDX-License-Identifier: Apache-2.0 */
/* The module: what a world has of NCCL, the timer by which events are looked at, and the table of the backend. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "backend/nccl/nccl_backend.h"

enum { POLL_NS = 200000 }; /* a GPU tells nobody when an event comes */

/* ------------------------------------------------------------------------------------------- worlds */

static weft_result open_world(weft_world *world, void **state_out)
{
    weft__nccl *nccl = calloc(1, sizeof *nccl);
    if (!nccl)
        return weft_backend_error(WEFT_E_NO_MEMORY, "backend nccl: no memory for a world");
    nccl->world = world;
    nccl->device = -1;
    nccl->helpers = weft__nccl_helpers_open();
    nccl->timer_fd = nccl->helpers ? timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) : -1;
    if (nccl->timer_fd < 0) {
        weft_result result = nccl->helpers ? WEFT_E_SYSTEM : WEFT_E_NO_MEMORY;
        free(nccl->helpers);
        free(nccl);
        return weft_backend_error(result, "backend nccl: no timer: %s", strerror(errno));
    }
    *state_out = nccl;
    return WEFT_OK;
}

static void close_world(void *state)
{
    weft__nccl *nccl = state;
    int left = weft__nccl_helpers_close(nccl->helpers, nccl->stuck_ns); /* CUDA may be gone once the program ends */
    if (left)
        weft_backend_log(WEFT_LOG_WARN, "backend nccl: the world is closed while %d communicators are being ended",
                         left);
    close(nccl->timer_fd);
    free(nccl);
}

static weft_result create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card)
{
    weft__nccl *nccl = state;
    if (nccl->device < 0) {
        weft_result result = weft_world_device(nccl->world, WEFT_DEVICE_CUDA, &nccl->device);
        if (result != WEFT_OK)
            return result;
        int before = weft__nccl_enter(nccl), least = 0;
        (void)cudaDeviceGetStreamPriorityRange(&least, &nccl->greatest);
        weft__nccl_leave(before);
        weft__nccl_log_settings();
    }
    return weft__nccl_comm_create(state, what, comm_out, card);
}

/* ------------------------------------------------------------------------------------------- progress */

static bool is_busy(const weft__nccl *nccl)
{
    for (const weft__nccl_comm *nc = nccl->comms; nc; nc = nc->next)
        if (!nc->left &&
            (weft__nccl_has_queued(nc) || nc->phase == WEFT__NCCL_ENDING || nc->phase == WEFT__NCCL_CONNECTING))
            return true;
    return false;
}

static int descriptor(void *state)
{
    return ((weft__nccl *)state)->timer_fd;
}

static weft_result arm(void *state)
{
    weft__nccl *nccl = state;
    bool busy = is_busy(nccl);
    struct itimerspec in = {.it_value.tv_nsec = busy ? POLL_NS : 0};
    if (timerfd_settime(nccl->timer_fd, 0, &in, NULL) != 0)
        return WEFT_AGAIN; /* it is polled all the time then */
    nccl->timer_runs = busy;
    return WEFT_OK;
}

static void hear_timer(weft__nccl *nccl)
{
    uint64_t times;
    if (nccl->timer_runs)
        (void)!read(nccl->timer_fd, &times, sizeof times);
    nccl->timer_runs = false;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    weft__nccl *nccl = state;
    bool moved = false;
    (void)slice_ticks; /* a look is short */
    hear_timer(nccl);
    /* Another thread may be capturing a stream: to look at events does not disturb that, so it is not to be refused. */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    for (weft__nccl_comm *nc = nccl->comms, *next; nc; nc = next) {
        next = nc->next;
        if (nc->left)
            continue;
        if (nc->phase == WEFT__NCCL_ENDING)
            moved |= weft__nccl_end_aborted(nc);
        else if (weft__nccl_has_queued(nc))
            moved |= weft__nccl_look(nc);
        else if (nc->phase == WEFT__NCCL_READY) /* a graph is nobody's operation: it is found within a second */
            weft__nccl_tell_difference(nc);
    }
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return (moved ? WEFT_PROGRESS_MOVED : 0) | (is_busy(nccl) ? WEFT_PROGRESS_ATTENTION : 0);
}

static void explain(void *comm, const weft_op *op, char *text, size_t text_bytes)
{
    const weft__nccl_comm *nc = comm;
    if (op != nc->queues[WEFT__NCCL_COLLECTIVES].head && op != nc->queues[WEFT__NCCL_MESSAGES].head)
        snprintf(text, text_bytes, "it is queued behind others on the GPU");
    else
        snprintf(text, text_bytes, "the GPU has not come to its end; NCCL does not say whom it waits for");
}

/* ------------------------------------------------------------------------------------------- the table */

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    if (question->device != WEFT_DEVICE_CUDA)
        return WEFT_OK; /* with no score */
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_STREAMS;
    facts->queues = WEFT_QUEUES_ONE;
    facts->score = WEFT_SCORE_SAME_HOST;
    facts->op_bytes = sizeof(weft__nccl_op);
    facts->card_bytes = weft__nccl_card_bytes(question->count);
    return WEFT_OK;
}

WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;

const weft_backend *WEFT_BACKEND_MODULE(void)
{
    static const weft_backend table = {
        .abi_major = WEFT_BACKEND_ABI,
        .size = sizeof table,
        .name = "nccl",
        .query = query,
        .open = open_world,
        .close = close_world,
        .comm_create = create,
        .comm_connect = weft__nccl_comm_connect,
        .comm_abort = weft__nccl_comm_abort,
        .comm_leave = weft__nccl_comm_leave,
        .comm_destroy = weft__nccl_comm_destroy,
        .start = weft__nccl_start,
        .progress = progress,
        .explain = explain,
        .fd = descriptor,
        .arm = arm,
        .order = weft__nccl_order,
        .native = weft__nccl_native,
        .tell = weft__nccl_tell,
        .attach = weft__nccl_attach,
        .admit = weft__nccl_admit,
    };
    return &table;
}
