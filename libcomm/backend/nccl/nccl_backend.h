/* SPDX-License-Identifier: Apache-2.0 */
/* The backend over NCCL from inside. A comm is two communicators of its members, each with a stream of its own: a lane
 * for collectives, and one for messages, if there are any. Messages of one batch run together, and batches one after
 * the other, whatever their channels: CUDA does not promise that communicators of a device advance side by side.
 * Between two ranks messages are told apart by their order alone, so in a batch they go by channel. */
#ifndef WEFT_BACKEND_NCCL_NCCL_BACKEND_H
#define WEFT_BACKEND_NCCL_NCCL_BACKEND_H
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>
#include <weft/trace.h>

enum {
    WEFT__NCCL_COLLECTIVES, /* the lanes */
    WEFT__NCCL_MESSAGES,
    WEFT__NCCL_LANES,
    WEFT__NCCL_CONNECTED_MOST = 64, /* members: of more, only pairs that are named are connected */
    WEFT__NCCL_COMPARED = 32,       /* operations of a comm, or all if a member wants that */
    WEFT__NCCL_CAPTURED_MOST = 1024 /* of those, in graphs: what they ask for stays as long as the comm */
};

typedef struct weft__nccl_lane {
    ncclComm_t comm;
    cudaStream_t stream;
    bool is_given; /* the program's communicator: it goes only if the comm fails */
} weft__nccl_lane;

/* What a member asks for, as all tell each other. */
typedef struct weft__nccl_word {
    uint64_t number; /* of the operation */
    weft_asked asked;
    uint64_t captured; /* into a graph */
} weft__nccl_word;

/* What a member tells the others when a comm is made; behind it, a bit a member: whether it names that as a peer. */
typedef struct weft__nccl_card {
    ncclUniqueId ids[WEFT__NCCL_LANES]; /* where communicators meet: of member 0 */
    uint32_t check;                     /* every operation is to be compared */
} weft__nccl_card;

typedef enum weft__nccl_phase {
    WEFT__NCCL_NEW,
    WEFT__NCCL_CONNECTING, /* a helper makes its communicators */
    WEFT__NCCL_READY,
    WEFT__NCCL_ENDING, /* a helper aborts them */
    WEFT__NCCL_ENDED
} weft__nccl_phase;

typedef struct weft__nccl_comm weft__nccl_comm;

/* Those of a world that help: when it is closed they are waited for, and they may outlive it. */
typedef struct weft__nccl_helpers {
    _Atomic int holds; /* of the world, and of each helper; the last one frees it */
} weft__nccl_helpers;

/* One world's. */
typedef struct weft__nccl {
    weft_world *world;
    int device;
    int greatest; /* priority of streams */
    int timer_fd;
    bool timer_runs;
    weft__nccl_comm *comms;
    weft__nccl_helpers *helpers;
    double stuck_ns; /* the most of its comms */
} weft__nccl;

/* What is on a lane, in the order of its start, which is that of its end. */
typedef struct weft__nccl_queue {
    weft_op *head, **tail;
} weft__nccl_queue;

/* One operation, in the memory of a work. Its events are made in the first life of that memory with this comm, and keep
 * what they say until the next. */
typedef struct weft__nccl_op {
    uint64_t owner; /* the comm's serial number, in whose list the events are */
    uint32_t lanes; /* that it is on, as bits */
    bool captured;  /* into a graph: it ends with its start */
    cudaEvent_t ended[WEFT__NCCL_LANES];
} weft__nccl_op;

/* Where operations are compared: those that run now, and those of graphs, which may run beside them. */
typedef struct weft__nccl_comparing {
    struct weft__nccl_core *core;
    weft__nccl_word *words; /* of the device: this member's, then those of all */
    weft__nccl_word *told;  /* [count], of the host: the same */
} weft__nccl_comparing;

/* What helpers use too: it lives until nobody does. */
typedef struct weft__nccl_core {
    _Atomic int holds;
    weft__nccl_helpers *helpers;
    int device, rank, count, priority;
    int *ranks; /* world ranks of the members */
    int *peers; /* members to connect for messages */
    uint32_t peer_count;
    bool exchanges; /* pairs are connected for all-to-alls too */
    uint32_t least_ctas, most_ctas;
    uint32_t lane_count;
    ncclUniqueId ids[WEFT__NCCL_LANES];
    weft__nccl_lane lanes[WEFT__NCCL_LANES];
    cudaEvent_t entry;      /* of the stream that an operation runs after */
    unsigned char *byte;    /* of the device: for barriers; */
    unsigned char *scratch; /* and for connecting, NULL from then on */
    _Atomic bool helped;    /* the helper is done, */
    weft_result result;     /* and so it went */
    char text[256];

    /* Comparing. */
    weft__nccl_word *mine; /* [works + WEFT__NCCL_CAPTURED_MOST], of the host: what this member asks for */
    uint32_t works, captured;
    weft__nccl_word *words, *told;     /* the memory of both */
    weft__nccl_comparing comparing[2]; /* [captured] */
    int hold_ms;                       /* at most, of a lane */
    _Atomic bool differs;              /* they do, as `difference` says; the lane stands still */
    _Atomic bool ending;               /* it may go on: everything is aborted */
    char difference[256];
} weft__nccl_core;

struct weft__nccl_comm {
    weft__nccl *nccl;
    weft_comm *comm;
    char name[WEFT_COMM_NAME_MAX + 1];
    weft__nccl_core *core;
    weft__nccl_phase phase;
    bool left;
    bool check;      /* every operation is compared */
    double stuck_ns; /* what NCCL has not let go of by then, from an abort on, is given up */
    uint64_t serial;
    cudaEvent_t *events; /* all that were made, to be given back */
    size_t event_count, event_room;
    weft__nccl_queue queues[WEFT__NCCL_LANES];
    weft_result verdict;
    void **attached; /* handles of memory that NCCL knows, for the collectives */
    size_t attached_count;
    uint64_t ending_since, looked; /* ticks: since the abort; when NCCL was asked for errors */
    weft__nccl_comm *next;
};

/* comm.c */
weft_result weft__nccl_comm_create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card);
weft_result weft__nccl_comm_connect(void *comm, const unsigned char *cards);
void weft__nccl_comm_abort(void *comm, weft_result result, const char *text);
void weft__nccl_comm_leave(void *comm);
void weft__nccl_comm_destroy(void *comm);
void *weft__nccl_native(void *comm);
/* Of a comm of so many members. */
size_t weft__nccl_card_bytes(int count);
/* Let go of the parts that helpers share; the last one waits for the GPU. */
void weft__nccl_core_release(weft__nccl_core *core);
/* Is the abort done, or has it taken too long? Then what was taken is given back. True: something happened. */
bool weft__nccl_end_aborted(weft__nccl_comm *nc);

/* operation.c */
weft_result weft__nccl_admit(void *comm, const weft_collective *what);
weft_result weft__nccl_start(void *comm, weft_op *op);
weft_result weft__nccl_order(void *comm, const weft_op *op, weft_stream stream);
/* Nothing is queued. */
void weft__nccl_clear(weft__nccl_comm *nc);
bool weft__nccl_has_queued(const weft__nccl_comm *nc);
/* Give back what has ended. True: something has. */
bool weft__nccl_look(weft__nccl_comm *nc);
/* Give back everything. */
void weft__nccl_give_back(weft__nccl_comm *nc, weft_result result);

/* compare.c */
/* Queue that members tell each other what they ask for with @p op, and that the lane stands still if it differs. */
weft_result weft__nccl_compare(weft__nccl_comm *nc, const weft_op *op);
/* Fail the comm if it has. */
void weft__nccl_tell_difference(weft__nccl_comm *nc);

/* settings.c: NCCL, its calls that not every version has, and what it is set to. */
typedef struct weft__nccl_calls {
    int version;
    ncclResult_t (*comm_register)(const ncclComm_t comm, void *memory, size_t bytes, void **handle);
    ncclResult_t (*comm_deregister)(const ncclComm_t comm, void *handle);
} weft__nccl_calls;
const weft__nccl_calls *weft__nccl_library(void);
void weft__nccl_tell(void *state, weft_backend_tell_line *line, void *cookie);
/* The same for the log, once a process. */
void weft__nccl_log_settings(void);
weft_result weft__nccl_attach(void *comm, void *memory, size_t bytes);
void weft__nccl_detach_all(weft__nccl_comm *nc);

/* connect.c */
/* Make the communicators of a comm, and every connection that its operations will use. A helper's job. */
void weft__nccl_connect_all(weft__nccl_core *core);

/* helper.c: what waits for peers, or may wait for the whole GPU as making memory and giving it back does, runs in a
 * thread. For the GPU may wait for a peer, or for this rank's seat: see compare.c. */
void weft__nccl_help(weft__nccl_core *core, void (*job)(weft__nccl_core *core));
/* The same with the caller's own hold, which is let go behind the job. */
void weft__nccl_help_last(weft__nccl_core *core, void (*job)(weft__nccl_core *core));
/* Those of a world, none yet; NULL: no memory. To close waits until they are done, or for @p most_ns; how many are
 * not. */
weft__nccl_helpers *weft__nccl_helpers_open(void);
int weft__nccl_helpers_close(weft__nccl_helpers *helpers, double most_ns);
/* Does the job fail so? Then the core tells. */
bool weft__nccl_failed(weft__nccl_core *core, const char *what, ncclResult_t result);
bool weft__nccl_failed_in_cuda(weft__nccl_core *core, const char *what, cudaError_t error);
void weft__nccl_abort_all(weft__nccl_core *core);
void weft__nccl_destroy_all(weft__nccl_core *core);

/* Make the world's device the current one of this thread; answers what was, for leave. */
int weft__nccl_enter(const weft__nccl *nccl);
void weft__nccl_leave(int before);
weft_result weft__nccl_told(const char *name, const char *what, ncclResult_t result);
weft_result weft__nccl_cuda_told(const char *name, const char *what, cudaError_t error);

#endif
