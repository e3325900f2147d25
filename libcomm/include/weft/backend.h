/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Backends: they carry operations. A backend is one constant table; weft copies it at registration over a table
 *         of stubs, so it may leave out what it cannot do and what it has nothing to do for.
 *
 *  A backend is part of weft, or registered by the program with weft_backend_register() before it opens a world, or a
 *  module: a shared object `libweft-backend-NAME.so` that exports WEFT_BACKEND_MODULE, a function that returns its
 *  table or NULL if it cannot work here. Modules are looked for in the folders of WEFT_MODULE_PATH (separated by
 *  colons), then beside the library; they are loaded when a world spans hosts or somebody asks for a name that is not
 *  known, or asks weft_info_tell(), and stay loaded. Those of another abi, and those that cannot be loaded, are left
 *  out with a line in the log.
 *
 *  To write one, begin with docs/backends.md; bench/minimal/backend_sockets.c is a whole one in one file.
 *  `weft perf conform --backend NAME` tells whether a backend keeps what is said here.
 *
 *  Who calls what: everything comes from one thread at a time for a world (the one in the world's seat), but `start`
 *  of a backend that says WEFT_CAP_IMMEDIATE, which comes from the caller's, and `query`, which comes from any and only
 *  reads. No call may wait for a peer.
 *
 *  In which order: `open`, and for each comm `comm_create`, `comm_connect` until it is not WEFT_PENDING, then `start`
 *  and `progress`; at the end `comm_leave`, `comm_destroy`, `close`. `comm_abort` comes at most once, at any time
 *  before `comm_leave`. What fails says why with weft_backend_error(); later, when nobody asks, with
 *  weft_backend_fail().
 *
 *  What weft counts on:
 *  - What `start` took is given back once, by weft_backend_done(); after that the backend does not touch it. It may be
 *    given back within `start`.
 *  - Members compare what they ask for before a byte of another is used: all operations, or the first 32 of a comm and
 *    with `check` all. If it differs the comm fails with E_MISMATCH, and a message that names two ranks and what each
 *    asks for. Where `reduction` or `root`, or the type and count of a barrier, mean nothing they may hold anything:
 *    weft_backend_asked() says what counts, weft_backend_tell_asked() how it is called.
 *  - The buffers may be the caller's again when an operation is given back: nobody reads or writes them any more.
 *  - A peer that is lost, or has given up the comm while this rank needs it, ends the comm with E_PEER_LOST; one of
 *    which nothing is heard for so long that the way to it is given up ends it with E_TIMEOUT. weft itself calls
 *    `comm_abort` for ranks whose process has ended, and for what other members say that the comm failed with: a
 *    backend that tells its peers of failures does so for speed.
 *  - Collectives of a comm are handed over in the order of their numbers, alike on all members, and the messages of
 *    one peer and channel in their order. Comms do not hold each other up.
 *  - After `comm_abort` no buffer is touched, and everything that was taken is given back soon. What a library below
 *    has not let go of in 5 s, or the comm's timeout_ms if that is less, ends with E_STUCK, told by
 *    weft_backend_fail().
 *  - `comm_create` makes something (*comm_out is not NULL); until `comm_connect` has said WEFT_OK only `comm_abort`,
 *    `comm_leave` and `comm_destroy` come.
 *  - With WEFT_CAP_IMMEDIATE, `start` gives the operation back before it returns, and never answers WEFT_AGAIN.
 *  - With WEFT_CAP_STREAMS, `start` queues the operation before it returns, in the order of the caller's program, and
 *    never answers WEFT_AGAIN; messages of a rank to itself are the backend's; `progress` gives back what has ended.
 *  - All members of a comm come to the same answers to `query`.
 *
 *  What a call that is left out means: `query`: it is never chosen; `open`: it serves no world; `comm_create`,
 *  `comm_connect`: making a comm with it is E_UNSUPPORTED; `start`: so is every operation, and the comm has failed;
 *  `progress`: nothing is to be moved along; `hasten`: `progress` does all; `explain`: no reasons are known;
 *  `close`, `comm_abort`, `comm_leave`, `comm_destroy`: nothing is held, so there is nothing to do; `fd`: it wakes
 *  ranks by itself, or needs no waking; `native`, `tell`, `attach`: there is nothing of that kind; `admit`:
 *  everything may; `arm`, of one that has a descriptor: no rank can rely on that, so `progress` comes again and
 *  again while ranks wait. */
#ifndef WEFT_BACKEND_H
#define WEFT_BACKEND_H
#include <weft/collective.h>
#include <weft/log.h>
#include <weft/p2p.h>
WEFT_BEGIN_DECLS

#define WEFT_BACKEND_ABI        1
#define WEFT_BACKEND_CARD_BYTES 2048 /**< What members of a comm tell each other when it is made: at most this. */
#define WEFT_BACKEND_NAME_MAX   15   /**< Longest name of a backend, in bytes. */
#define WEFT_BACKEND_MODULE     weft_backend_module /**< The one symbol of a module: a weft_backend_module_function. */

/** What a backend can do. */
enum {
    WEFT_CAP_COLLECTIVE = 1, /**< Without it collectives are E_UNSUPPORTED before the backend hears of them, */
    WEFT_CAP_P2P = 2,        /**< and without this p2p messages. */
    WEFT_CAP_ORDERED = 4,    /**< Sums depend on the inputs and the ranks alone. */
    WEFT_CAP_IMMEDIATE = 8,  /**< Every operation is done when `start` returns; `start` may come from any thread. */
    WEFT_CAP_STREAMS = 16    /**< It serves comms of a GPU: buffers are its memory, and operations run in the order of
                                  streams, see weft_op.after and `order`. Other backends serve comms of the host. */
};

/** How well a backend serves the members of a comm. The highest score wins; of equal ones the first registered. */
enum {
    WEFT_SCORE_NONE = 0,       /**< Not at all. */
    WEFT_SCORE_WIRE = 20,      /**< Through a network, whoever they are. */
    WEFT_SCORE_HOSTS = 40,     /**< Through a network between hosts and memory inside them. */
    WEFT_SCORE_SAME_HOST = 50, /**< Through memory that all members share. */
    WEFT_SCORE_ALONE = 100     /**< The one member has nobody to talk to. */
};

/** One operation. weft fills the first part before `start` and keeps it unchanged until the operation is done. */
typedef struct weft_op {
    int is_p2p;               /**< 0: `what` counts; 1: `messages` do. */
    weft_collective what;     /**< Checked; in-place and NULL pointers as the caller gave them. */
    const weft_p2p *messages; /**< Borrowed until done; those of a rank to itself are carried out already: skip them. */
    uint32_t message_count;
    uint32_t label;
    uint64_t number;      /**< Collective: its number on the comm, from 1. */
    void *memory;         /**< facts.op_bytes + message_count * facts.message_bytes bytes for the backend, not cleared,
                          aligned for any type. */
    struct weft_op *next; /**< For the backend's queue. */

    /* Filled by the backend, in ticks of weft_trace_now(); cleared by weft: 0 = not known. */
    uint64_t first;        /**< When the first byte moved. */
    uint64_t last;         /**< When it was complete; 0 = now, when it is given back. */
    uint64_t last_arrival; /**< When the last rank arrived. */
    int32_t late_rank;     /**< World rank that arrived last; -1 = not known. */

    int32_t result;  /**< WEFT_PENDING until weft_backend_done(); read it with nothing else. */
    uint32_t waited; /**< weft's own. */
    uint64_t start;  /**< When it was taken up, in ticks; set before `start`. */

    /* With WEFT_CAP_STREAMS. */
    weft_stream after;            /**< The operation runs behind what is queued there now; the host's: at once, */
    const struct weft_op *behind; /**< and behind this one of the same backend, if it is not NULL. Only in `start`. */
} weft_op;

/** What a rank asks for with a collective, as members compare it: what means nothing to its kind is 0, the buffers are
 *  left out, and there are no gaps. So it may be sent as it is, and two are the same if memcmp() says so. */
typedef struct weft_asked {
    uint64_t count;
    int32_t root;
    uint8_t kind, dtype, reduction, zero;
} weft_asked;

/** What is asked when a backend is chosen for a comm. */
typedef struct weft_backend_question {
    size_t size;
    const weft_world *world;
    const int *ranks; /**< World ranks of the members. */
    int count;
    int same_memory;    /**< All members can map each other's memory. */
    weft_device device; /**< Whose memory operations are on. */
} weft_backend_question;

typedef struct weft_backend_facts {
    size_t size;
    uint64_t caps;        /**< WEFT_CAP_*. */
    weft_queues queues;   /**< How messages are queued. */
    int score;            /**< WEFT_SCORE_*, or between them. */
    size_t op_bytes;      /**< Memory wanted for each operation, */
    size_t message_bytes; /**< and for each message of a batch. */
    size_t card_bytes;    /**< Of a card, alike on all members; at most WEFT_BACKEND_CARD_BYTES. */
    const char *why;      /**< Borrowed. What the score is due to, for weft_info_tell(); NULL = nothing to say. Only if
                               `size` says that it is there. */
} weft_backend_facts;

typedef struct weft_backend_comm {
    size_t size;
    weft_comm *comm;  /**< For weft_backend_fail(). */
    const char *name; /**< Borrowed, as `ranks`. */
    int rank, count;
    const int *ranks;      /**< World ranks of the members; borrowed as long as the comm. */
    uint32_t p2p_channels; /**< 0: there will be no p2p on it. */
    int check;             /**< WEFT_CHECK: compare every operation, if the backend does not anyway. May differ. */
    /** The last so many of these channels carry parts of collectives for a backend that composes others: what tags of
     *  messages there mean, weft_backend_tell_part() says. */
    uint32_t part_channels;
    /** All that was asked for, every default filled in; borrowed as long as the comm. NULL: a backend that composes
     *  others asks for this one. */
    const weft_comm_config *config;
} weft_backend_comm;

/** What `progress` answers. */
enum {
    WEFT_PROGRESS_MOVED = 1, /**< Something happened: call again at once. */
    WEFT_PROGRESS_ATTENTION =
        2 /**< Others may come to wait for this rank: it must go on even if its callers compute. */
};

/** Takes one line about a library below: what is set, to what, and more about it or "". Borrowed until it returns. */
typedef void weft_backend_tell_line(void *cookie, const char *name, const char *value, const char *note);

typedef struct weft_backend {
    uint32_t abi_major; /**< WEFT_BACKEND_ABI. */
    size_t size;        /**< sizeof(weft_backend). Calls behind what weft knows are not made. */
    const char *name;   /**< Borrowed for ever. At most WEFT_BACKEND_NAME_MAX bytes. */

    /* From here on nothing but calls. New ones are appended. */

    /** Can this backend serve these ranks, and how? Fills @p facts, whose size is set. */
    weft_result (*query)(const weft_backend_question *question, weft_backend_facts *facts);
    /** State for one world; *state_out is handed to the calls below. A world whose config names a backend opens
     *  others only when a comm names them. E_UNSUPPORTED: not in this world. Any other failure is that of opening the
     *  world, or of making the comm, that names this backend; others do without, and weft_info_tell() says why. */
    weft_result (*open)(weft_world *world, void **state_out);
    void (*close)(void *state);
    /** Make what this rank needs for a comm, and write what its members must know to @p card: card_bytes, zeroed. What
     *  *comm_out was set to is given back by comm_leave and comm_destroy even if this fails. */
    weft_result (*comm_create)(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card);
    /** All members are there: @p cards holds count * card_bytes bytes. WEFT_PENDING: call again. */
    weft_result (*comm_connect)(void *comm, const unsigned char *cards);
    /** The comm has failed with @p result and @p text: tell the members, touch no buffer, give every operation back. It
     *  may come before comm_connect, which then never comes here; members may have connected all the same. */
    void (*comm_abort)(void *comm, weft_result result, const char *text);
    /** This rank gives the comm up: weft ends operations that are left, which the members must not take for good, but
     *  other ranks may still look at its memory. */
    void (*comm_leave)(void *comm);
    /** All ranks have given it up. */
    void (*comm_destroy)(void *comm);
    /** Take @p op. WEFT_OK: taken. WEFT_AGAIN: nothing was taken, the same again after progress. */
    weft_result (*start)(void *comm, weft_op *op);
    /** Move all operations of the world along, for about @p slice_ticks at most. Answers WEFT_PROGRESS_*. */
    unsigned (*progress)(void *state, uint64_t slice_ticks);
    /** Say what @p op waits for: names ranks, and what they were last seen doing. */
    void (*explain)(void *comm, const weft_op *op, char *text, size_t text_bytes);
    /** A descriptor that can be read when `progress` has something to do, once `arm` was called; asked for once, behind
     *  `open`. -1, or left out: there is none, and a rank that sleeps is woken by others. One that can only be polled
     *  gives that of a timer, which `arm` sets while operations are in flight. */
    int (*fd)(void *state);
    /** This rank is going to sleep, or to compute: from now on `fd` tells. WEFT_AGAIN: there is something at once, call
     *  `progress`. After WEFT_OK `progress` does not come before the descriptor could be read, an operation was
     *  started, or a caller waits for one. */
    weft_result (*arm)(void *state);
    /** With WEFT_CAP_STREAMS: what is queued next on @p stream runs behind @p op, which was started. It may have ended.
     *  On the host's stream: wait, in the calling thread, for an operation that was given back. Comes from any
     *  thread. */
    weft_result (*order)(void *comm, const weft_op *op, weft_stream stream);
    /** The caller of @p op, which `start` took just now, waits for it, and nothing else is looked at meanwhile: if the
     *  others are about to do their part, wait for them here, a microsecond at most, and give it back. */
    void (*hasten)(void *comm, weft_op *op);
    /** The library's communicator behind @p comm, which is made and has not failed; NULL: there is none. */
    void *(*native)(void *comm);
    /** Say what the library below is, and how it is set, for weft_info_tell(). */
    void (*tell)(void *state, weft_backend_tell_line *line, void *cookie);
    /** @p bytes at @p memory will be the buffers of many operations of this comm, whose members all say so, each of
     *  memory of its own; until the comm is destroyed. A library may be told of that. */
    weft_result (*attach)(void *comm, void *memory, size_t bytes);
    /** May @p what be started on this comm, or if it is NULL messages with other ranks? WEFT_OK, or E_UNSUPPORTED and
     *  why: the caller is told that, and the comm stays as it is. Comes from any thread and only reads; the members
     *  come to the same answer. Only with WEFT_CAP_STREAMS, and when the comm is made. */
    weft_result (*admit)(void *comm, const weft_collective *what);
} weft_backend;

/** What a module exports, declared as `WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;`. */
typedef const weft_backend *(weft_backend_module_function)(void);

/** Make a backend known to the worlds that are opened from now on, for as long as the process lives. The table is
 *  copied; its name stays. Threads: any. Blocks: never.
 *  Errors: E_INVALID (the name or size makes no sense, or the name is taken), E_UNSUPPORTED (another abi), E_BUSY (weft
 *  has no room for more). */
WEFT_API weft_result weft_backend_register(const weft_backend *backend);

/** Give @p op back: it ended with @p result. A failure fails no comm: weft_backend_fail() comes before.
 *  Threads: the caller of the backend. Blocks: never. Hot. */
WEFT_API void weft_backend_done(weft_op *op, weft_result result);
/** The comm has failed: keep the first verdict, and have `comm_abort` called soon. Threads: any. Blocks: never. */
WEFT_API void weft_backend_fail(weft_comm *comm, weft_result result, const char *format, ...) WEFT_PRINTF(3, 4);
/** A call of the backend fails with @p result: keep the message for weft_last_error(), and return @p result. Threads:
 *  any. Blocks: never. */
WEFT_API weft_result weft_backend_error(weft_result result, const char *format, ...) WEFT_PRINTF(2, 3);
/** WEFT_OK, or how @p rank was lost, as the world knows: E_PEER_LOST, or E_TIMEOUT if it is silent. A connection to it
 *  may still look well. Threads: any. Blocks: never. */
WEFT_API weft_result weft_backend_lost(const weft_world *world, int rank);
/** A line for weft's log, cut at about 500 bytes: what a library below has to say. Threads: any. Blocks: local. */
WEFT_API void weft_backend_log(weft_log_level level, const char *format, ...) WEFT_PRINTF(2, 3);
/** What @p what asks for. Its kind makes sense, as that of an operation does. Threads: any. Blocks: never. */
WEFT_API weft_asked weft_backend_asked(const weft_collective *what);
/** "reduce of 7 fp32, sum, root 1", cut at @p text_bytes; @p asked may be nonsense. Threads: any. Blocks: never. */
WEFT_API void weft_backend_tell_asked(const weft_asked *asked, char *text, size_t text_bytes);
/** The same of a part, whose sender tells what it asks for in the tag of its message. Threads: any. Blocks: never. */
WEFT_API void weft_backend_tell_part(uint64_t tag, char *text, size_t text_bytes);
/** The sum that every backend makes: dst[i] = sources[0][i] (+) sources[1][i] (+) ... in that order, 16-bit types in
 *  fp32 and rounded once, an average divided by @p source_count before. @p dst may be one of the sources. Threads: any.
 *  Blocks: never. Hot. */
WEFT_API void weft_backend_reduce(void *dst, const void *const *sources, int source_count, size_t count,
                                  weft_dtype dtype, weft_reduction reduction);

WEFT_END_DECLS
#endif
