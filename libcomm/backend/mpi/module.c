/* SPDX-License-Identifier: Apache-2.0 */
/* The module: how MPI is begun and ended, the timer, and the table of the backend. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "backend/mpi/module.h"

enum { POLL_NS = 50000, SIGNALS = 32 };

/* ------------------------------------------------------------------------------------------- MPI as a whole */

static _Atomic bool in_use; /* by a world: MPI has one set of ranks for a process */

static bool is_launched(void)
{
    static const char *const told[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (getenv(told[i]))
            return true;
    return false;
}

static void finalize(void)
{
    int finalized = 1;
    MPI_Finalized(&finalized);
    if (!finalized)
        MPI_Finalize();
}

/* Its handlers of signals are not the program's. */
static void initialize(void)
{
    struct sigaction kept[SIGNALS];
    int provided;
    for (int s = 1; s < SIGNALS; s++)
        sigaction(s, NULL, &kept[s]);
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    for (int s = 1; s < SIGNALS; s++)
        if (s != SIGKILL && s != SIGSTOP)
            sigaction(s, &kept[s], NULL);
    if (code == MPI_SUCCESS)
        atexit(finalize); /* launchers take a rank that ends without for one that has failed */
}

bool weft__mpi_has_threads(void)
{
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    return provided == MPI_THREAD_MULTIPLE;
}

/* NULL: MPI serves this world. */
static const char *why_not(const weft_world *world)
{
    int flag = 0, size = 0, provided = MPI_THREAD_SINGLE;
    if (weft_world_size(world) == 1)
        return "the world has one rank";
    MPI_Finalized(&flag);
    if (flag)
        return "MPI is finalized";
    MPI_Initialized(&flag);
    if (!flag && !is_launched())
        return "no launcher of MPI has started this process";
    if (!flag)
        initialize();
    MPI_Initialized(&flag);
    if (!flag)
        return "MPI_Init_thread() has failed";
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_SERIALIZED)
        return "MPI was initialized for one thread";
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != weft_world_size(world))
        return "MPI has another number of ranks";
    return NULL;
}

weft_result weft__mpi_open(weft_world *world, void **state_out)
{
    const char *why = atomic_exchange(&in_use, true) ? "another world of this process has MPI" : NULL;
    bool taken = !why;
    if (!why)
        why = why_not(world);
    weft__mpi *mpi = why ? NULL : calloc(1, sizeof *mpi);
    if (!mpi) {
        if (taken)
            atomic_store(&in_use, false);
        weft_backend_log(WEFT_LOG_DEBUG, "backend mpi is not for this world: %s", why ? why : "no memory");
        return why ? WEFT_E_UNSUPPORTED : weft_backend_error(WEFT_E_NO_MEMORY, "backend mpi: no memory for a world");
    }
    mpi->world = world;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi->size);
    mpi->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (mpi->timer_fd < 0) {
        weft__mpi_close(mpi);
        return weft_backend_error(WEFT_E_SYSTEM, "backend mpi: no timer: %s", strerror(errno));
    }
    if (mpi->rank != weft_world_rank(world))
        weft_backend_log(WEFT_LOG_INFO, "rank %d is rank %d to MPI", weft_world_rank(world), mpi->rank);
    *state_out = mpi;
    return WEFT_OK;
}

void weft__mpi_close(void *state)
{
    weft__mpi *mpi = state;
    if (mpi->timer_fd >= 0)
        close(mpi->timer_fd);
    free(mpi);
    atomic_store(&in_use, false);
}

/* ------------------------------------------------------------------------------------------- the timer */

static int descriptor(void *state)
{
    return ((weft__mpi *)state)->timer_fd;
}

static weft_result arm(void *state)
{
    weft__mpi *mpi = state;
    struct itimerspec in = {.it_value.tv_nsec = mpi->busy ? POLL_NS : 0};
    if (timerfd_settime(mpi->timer_fd, 0, &in, NULL) != 0)
        return WEFT_AGAIN; /* it is polled all the time then */
    mpi->timer_runs = mpi->busy;
    return WEFT_OK;
}

static void hear_timer(weft__mpi *mpi)
{
    uint64_t times;
    if (mpi->timer_runs)
        (void)!read(mpi->timer_fd, &times, sizeof times);
    mpi->timer_runs = false;
}

/* ------------------------------------------------------------------------------------------- the table */

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P;
    facts->queues = WEFT_QUEUES_DIRECTION;
    facts->score = question->count > 1 ? WEFT_SCORE_NONE + 1 : WEFT_SCORE_NONE; /* for comms that name it */
    facts->card_bytes = sizeof(weft__mpi_card);
    return WEFT_OK;
}

static weft_result start(void *comm, weft_op *op)
{
    weft__mpi_comm *mc = comm;
    return op->is_p2p ? weft__mpi_batch_start(mc, op) : weft__mpi_collective_start(mc, op);
}

static unsigned take_turn(weft__mpi_comm *mc)
{
    if (mc->aborted)
        return weft__mpi_give_back(mc);
    if (!mc->head && !mc->batches)
        return 0;
    unsigned answer = weft__mpi_collectives(mc) | weft__mpi_batches(mc);
    if (!answer && !mc->failed)
        weft__mpi_listen(mc);
    return answer;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    weft__mpi *mpi = state;
    unsigned answer = 0;
    (void)slice_ticks; /* a turn is short */
    hear_timer(mpi);
    if (!mpi->busy)
        return 0;
    for (weft__mpi_comm *mc = mpi->comms, *next; mc; mc = next) {
        next = mc->next;
        answer |= take_turn(mc);
    }
    return answer | (mpi->busy ? WEFT_PROGRESS_ATTENTION : 0);
}

static void explain(void *comm, const weft_op *op, char *text, size_t text_bytes)
{
    const weft__mpi_comm *mc = comm;
    if (op->is_p2p)
        weft__mpi_batches_explain(mc, op, text, text_bytes);
    else if (op != mc->head)
        snprintf(text, text_bytes, "it waits for operation %llu of this comm", (unsigned long long)mc->head->number);
    else if (mc->phase == WEFT__MPI_COMPARE)
        snprintf(text, text_bytes, "MPI has not brought what all ranks ask for");
    else
        snprintf(text, text_bytes, "MPI has moved %zu of %zu elements, and does not say who is missing", mc->done,
                 op->what.count);
}

WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;

const weft_backend *WEFT_BACKEND_MODULE(void)
{
    static const weft_backend table = {
        .abi_major = WEFT_BACKEND_ABI,
        .size = sizeof table,
        .name = "mpi",
        .query = query,
        .open = weft__mpi_open,
        .close = weft__mpi_close,
        .comm_create = weft__mpi_comm_create,
        .comm_connect = weft__mpi_comm_connect,
        .comm_abort = weft__mpi_comm_abort,
        .comm_leave = weft__mpi_comm_leave,
        .comm_destroy = weft__mpi_comm_destroy,
        .start = start,
        .progress = progress,
        .explain = explain,
        .fd = descriptor,
        .arm = arm,
    };
    return &table;
}
