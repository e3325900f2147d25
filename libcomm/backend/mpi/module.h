/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the backend over MPI. A comm of weft is one communicator: collectives are its non-blocking ones, one at
 * a time; messages of a channel have a tag of their own. Nothing wakes a rank that waits for MPI, so a timer does. */
#ifndef WEFT_BACKEND_MPI_MODULE_H
#define WEFT_BACKEND_MPI_MODULE_H
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>
#include <weft/log.h>
#include <weft/trace.h>

#define WEFT__MPI_COMPARED 32                 /* operations of a comm that are compared before they begin */
#define WEFT__MPI_INLINE   512                /* bytes of a message that go with its header */
#define WEFT__MPI_STAGED   ((size_t)64 << 10) /* elements of a piece that goes through memory of the comm's own */

enum { WEFT__MPI_TAG_NOTE = 1 << 10, WEFT__MPI_TAGS_OF_CHANNEL = 2 }; /* channels have those below */

/* ------------------------------------------------------------------------------------------- the world */

typedef struct weft__mpi {
    weft_world *world;
    int rank, size;  /* of MPI_COMM_WORLD */
    int timer_fd;    /* can be read while something is to be polled */
    bool timer_runs; /* as it was armed */
    int busy;        /* operations in flight */
    struct weft__mpi_comm *comms;
} weft__mpi;

weft_result weft__mpi_open(weft_world *world, void **state_out);
void weft__mpi_close(void *state);
/* May communicators be made in threads of their own? Else making one waits for its members. */
bool weft__mpi_has_threads(void);

/* ------------------------------------------------------------------------------------------- comms */

typedef enum weft__mpi_phase { WEFT__MPI_BEGIN, WEFT__MPI_COMPARE, WEFT__MPI_PIECE, WEFT__MPI_MOVE } weft__mpi_phase;

/* What a member has to say beside operations: that it has failed, or that it has left. */
typedef struct weft__mpi_note {
    int32_t result;       /* WEFT_OK: it has left, */
    int32_t unused;       /* */
    uint64_t collectives; /* after so many */
    char text[240];
} weft__mpi_note;

typedef struct weft__mpi_comm {
    weft__mpi *mpi;
    struct weft__mpi_comm *next;
    weft_comm *comm;
    char name[WEFT_COMM_NAME_MAX + 1];
    int rank, count;
    const int *ranks; /* of the world */
    bool check;       /* compare all operations */
    bool connected;

    MPI_Comm handle;
    int *members; /* in MPI_COMM_WORLD */
    int tag;      /* for making it */
    pthread_t maker;
    _Atomic int making; /* weft__mpi_making */
    int make_code;

    /* Collectives: the head is under way. */
    weft_op *head, **tail;
    weft__mpi_phase phase;
    MPI_Request request;
    weft_asked *asked, own_asked; /* of all members; of this one */
    unsigned char *staging;
    size_t done, piece; /* elements of each part: moved, and being moved */
    bool is_direct;     /* MPI reaches into the caller's memory */
    uint64_t last_number;

    /* Messages. */
    struct weft__mpi_batch *batches, *spare;

    /* Failing and leaving. */
    weft__mpi_note heard, said[2];
    MPI_Request heard_request, *said_requests[2];
    uint64_t *left_after; /* [member]: collectives; UINT64_MAX: it is there */
    int left;             /* members that have */
    int rounds_alone;     /* since the last one did */
    bool failed, aborted;
    weft_result verdict;
    uint64_t aborted_ticks;
} weft__mpi_comm;

enum weft__mpi_making { WEFT__MPI_UNMADE, WEFT__MPI_IN_THE_MAKING, WEFT__MPI_MADE };

typedef struct weft__mpi_card {
    int32_t rank, size, tag, check;
} weft__mpi_card;

weft_result weft__mpi_comm_create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card);
weft_result weft__mpi_comm_connect(void *comm, const unsigned char *cards);
void weft__mpi_comm_leave(void *comm);
void weft__mpi_comm_destroy(void *comm);

/* ------------------------------------------------------------------------------------------- operations */

weft_result weft__mpi_collective_start(weft__mpi_comm *mc, weft_op *op);
unsigned weft__mpi_collectives(weft__mpi_comm *mc);
/* Give back the head. */
void weft__mpi_collective_end(weft__mpi_comm *mc, weft_result result);

weft_result weft__mpi_batch_start(weft__mpi_comm *mc, weft_op *op);
unsigned weft__mpi_batches(weft__mpi_comm *mc);
/* Give up the receives of a failed comm; end all batches that MPI has let go of, or all. */
void weft__mpi_batches_cancel(weft__mpi_comm *mc);
void weft__mpi_batches_end(weft__mpi_comm *mc, weft_result result, bool all);
/* A message to or from a member that has left, or -1. */
int weft__mpi_batches_miss(const weft__mpi_comm *mc);
void weft__mpi_batches_explain(const weft__mpi_comm *mc, const weft_op *op, char *text, size_t bytes);
void weft__mpi_batches_free(weft__mpi_comm *mc);

/* ------------------------------------------------------------------------------------------- failing */

/* Did the call go well? If not, the comm fails. */
bool weft__mpi_well(weft__mpi_comm *mc, int code, const char *call);
void weft__mpi_fail(weft__mpi_comm *mc, weft_result result, const char *format, ...) WEFT_PRINTF(3, 4);
void weft__mpi_comm_abort(void *comm, weft_result result, const char *text);
/* Listen to what members say, and find out whether one that is needed has left. */
void weft__mpi_listen(weft__mpi_comm *mc);
void weft__mpi_tell(weft__mpi_comm *mc, weft_result result, const char *text);
/* Take messages that nobody wants any more. */
void weft__mpi_absorb(weft__mpi_comm *mc);
/* Of an aborted comm: what can be given back now. */
unsigned weft__mpi_give_back(weft__mpi_comm *mc);

/* ------------------------------------------------------------------------------------------- numbers */

/* How MPI adds up what weft calls so. 16-bit types are fp32 to it. */
typedef struct weft__mpi_sum {
    MPI_Datatype type;
    MPI_Op op;
    bool is_wide; /* elements are converted */
} weft__mpi_sum;

weft__mpi_sum weft__mpi_sum_of(weft_dtype dtype, weft_reduction reduction);
void weft__mpi_widen(const void *from, weft_dtype dtype, float *to, size_t count);
void weft__mpi_narrow(const float *from, float divisor, void *to, weft_dtype dtype, size_t count);
void weft__mpi_divide(void *values, weft_dtype dtype, size_t count, int divisor);
/* So many bytes as MPI counts them: `type`, `count` times. Given back with weft__mpi_bytes_free(). */
typedef struct weft__mpi_bytes {
    MPI_Datatype type;
    int count;
} weft__mpi_bytes;
weft__mpi_bytes weft__mpi_bytes_of(size_t bytes);
void weft__mpi_bytes_free(weft__mpi_bytes *bytes);

#endif
