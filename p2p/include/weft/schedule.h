/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Pipeline schedules: what every stage of a pipeline does and in which order, as plain data.
 *
 *  A model is cut into stages * chunks parts; part number chunk * stages + stage is that chunk of that stage. A forward
 *  (F) takes a microbatch through one part, a backward (B) takes its gradient back. A schedule has one list of actions
 *  for each stage. Three steps lead to one that a pipeline runs:
 *
 *      weft_schedule_create()   a policy writes the F and B of all stages, or the caller appends them one by one;
 *      weft_schedule_lower()    adds the messages between them, marks where gradients become final, numbers buffers;
 *      weft_schedule_verify()   proves that nothing can deadlock and that every tensor arrives where it belongs.
 *
 *  How a list is run. Actions are taken in order. Messages that follow each other with the same batch number (not 0)
 *  are started together; any other message is a batch by itself. A batch fills and reads its buffers from where it
 *  stands. F, B and W wait until the batch that brings their tensor has ended. A send may go on while the stage
 *  computes, and is waited for when its buffer is filled again; but a schedule must not rely on that: it is right only
 *  if it cannot deadlock even when every batch that holds a send is waited for at once. Activations and gradients
 *  travel on channels of their own, and each channel is first in, first out between two stages.
 *
 *  Buffers. RECV_F fills the input of its F, which stays until the backward of that microbatch is over (its W, if it
 *  has one); RECV_B fills the gradient for its B, which stays until B is over (its W); F and B fill what SEND_F and
 *  SEND_B read. Each of the four has a pool of its own on each stage, and `buffer` is the number in it. */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H
#include <weft/p2p.h>
WEFT_BEGIN_DECLS

typedef struct weft_schedule weft_schedule; /**< The actions of all stages. */

typedef enum weft_action_kind {
    WEFT_ACTION_F = 0,      /**< Forward of one microbatch through one chunk. */
    WEFT_ACTION_B = 1,      /**< Backward: gradient of the input, and of the weights unless a W follows. */
    WEFT_ACTION_W = 2,      /**< Gradient of the weights, split off the B of its microbatch; any other actions may come
                                 between the two. */
    WEFT_ACTION_SEND_F = 3, /**< The output of F, to the stage with the next part. */
    WEFT_ACTION_RECV_F = 4, /**< The input of F, from the stage with the part before. */
    WEFT_ACTION_SEND_B = 5, /**< The gradient that B made, to the stage with the part before. */
    WEFT_ACTION_RECV_B = 6, /**< The gradient that B needs, from the stage with the next part. */
    WEFT_ACTION_SYNC = 7    /**< From here the chunk's gradients may be reduced as they become final: one B at most is
                                 still to come, and the W of any B that are split. Before that B they can be reduced
                                 while it runs, behind it at once. */
} weft_action_kind;
#define WEFT_ACTION_KINDS 8 /**< How many there are. */

#define WEFT_PEER_NONE   UINT32_MAX /**< No other stage; weft_schedule_append() puts in the right one for a message. */
#define WEFT_BUFFER_NONE UINT32_MAX /**< No buffer number yet. */

/** One action of one stage. A message has the microbatch and chunk of the F or B on its own stage. */
typedef struct weft_action {
    weft_action_kind kind;
    uint32_t microbatch; /**< 0 for SYNC. */
    uint32_t chunk;
    uint32_t peer;   /**< Messages: the stage at the other end. Else WEFT_PEER_NONE. */
    uint32_t batch;  /**< Messages: neighbours with the same number form one batch; 0 = a batch by itself. Else 0. */
    uint32_t buffer; /**< Messages: number of the buffer, or WEFT_BUFFER_NONE. Else WEFT_BUFFER_NONE. */
} weft_action;

/** "F", "SEND_F", ...; "?" for what is none. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_action_string(weft_action_kind kind);
/** Is it one of the four messages? Threads: any. Blocks: never. */
WEFT_API int weft_action_is_message(weft_action_kind kind);
/** The channel of a message: 0 for activations, 1 for gradients. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_action_channel(weft_action_kind kind);

/* ---- create ---- */

typedef enum weft_policy {
    WEFT_POLICY_NONE = 0,       /**< Empty lists, for weft_schedule_append(). */
    WEFT_POLICY_GPIPE = 1,      /**< All forwards, then all backwards. */
    WEFT_POLICY_1F1B = 2,       /**< A few forwards to fill the pipeline, then one forward, one backward. */
    WEFT_POLICY_INTERLEAVED = 3 /**< 1F1B over several chunks a stage: a smaller bubble for more messages. */
} weft_policy;
#define WEFT_POLICIES 4 /**< How many there are. */

/** "none", "gpipe", "1f1b", "interleaved"; "?" for what is none. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_policy_string(weft_policy policy);

enum {
    WEFT_POLICY_WRITES = 1,     /**< Computations: it is not NONE. */
    WEFT_POLICY_CHUNKS = 2,     /**< It can be given more than one chunk a stage. */
    WEFT_POLICY_GROUPS = 4,     /**< weft_schedule_config.group means something to it. */
    WEFT_POLICY_SPLITS = 8,     /**< Its backwards are split in B and W. */
    WEFT_POLICY_RUNS_AHEAD = 16 /**< It takes WEFT_SCHEDULE_RUN_AHEAD. */
};
/** What a policy does and takes: WEFT_POLICY_* flags; 0 for what is none. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_policy_traits(weft_policy policy);

enum {
    WEFT_SCHEDULE_FORWARD_ONLY = 1, /**< Evaluation: the policy writes no backward. */
    WEFT_SCHEDULE_RUN_AHEAD = 2     /**< 1F1B: a stage runs ahead by two forwards for each stage behind it, not one.
                                         With one a microbatch goes to the next stage and comes back with no time to
                                         spare, so that every message delays both; with two, messages of up to half a
                                         forward and a backward hide. Keeps up to twice the activations. INTERLEAVED
                                         runs ahead so anyway. */
};

typedef struct weft_schedule_config {
    size_t size; /**< Set by WEFT_SCHEDULE_CONFIG_INIT. */
    weft_policy policy;
    uint32_t stages;       /**< At least 1. */
    uint32_t microbatches; /**< At least 1; fewer than stages is fine. */
    uint32_t chunks;       /**< A stage; 0 = 1. More than 1 only with WEFT_POLICY_CHUNKS. */
    uint32_t group;        /**< INTERLEAVED: microbatches that go through a chunk before the next chunk's turn; at least
                                stages; 0 = stages. */
    uint32_t flags;        /**< WEFT_SCHEDULE_*. */
} weft_schedule_config;
#define WEFT_SCHEDULE_CONFIG_INIT WEFT_SIZED_INIT(weft_schedule_config)

/** Make a schedule that holds the compute actions of a policy.
 *  @param config  copied.   @param schedule_out  given, release with weft_schedule_destroy().
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_RANGE (too large), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_create(const weft_schedule_config *config,
                                                         weft_schedule **schedule_out);
/** Put one action at the end of a stage's list. A message whose peer is WEFT_PEER_NONE gets the right one; fields that
 *  its kind does not have are ignored.
 *  @param action  copied.
 *  Threads: owner.  Blocks: never.  Errors: E_INVALID, E_RANGE, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_append(weft_schedule *schedule, uint32_t stage,
                                                         const weft_action *action);
/** Give the memory back; NULL is fine. Threads: owner. Blocks: never. */
WEFT_API void weft_schedule_destroy(weft_schedule *schedule);

/* ---- ask ---- */

/** How many stages. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_schedule_stages(const weft_schedule *schedule);
/** How many chunks a stage. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_schedule_chunks(const weft_schedule *schedule);
/** How many microbatches. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_schedule_microbatches(const weft_schedule *schedule);
/** The list of a stage and its length; NULL and 0 if there is no such stage.
 *  Borrowed: until the next append or the end of the schedule. Threads: any. Blocks: never. */
WEFT_API const weft_action *weft_schedule_actions(const weft_schedule *schedule, uint32_t stage, size_t *count_out);
/** The stage at the other end of a message of @p stage and @p chunk; WEFT_PEER_NONE if this part sends or receives
 *  nothing there. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_schedule_peer(const weft_schedule *schedule, weft_action_kind kind, uint32_t stage,
                                     uint32_t chunk);

/** What computations and messages take, in slots of time. A backward takes as long whether it is split or not, so that
 *  schedules can be compared. */
typedef struct weft_times_config {
    size_t size;       /**< Set by WEFT_TIMES_CONFIG_INIT. */
    uint32_t forward;  /**< F; 0 = 1. */
    uint32_t backward; /**< The gradient of the input: B; 0 = 1. */
    uint32_t weights;  /**< Those of the weights: W, and so much more for a B without W; 0 = 1. */
    uint32_t message;  /**< A message, from the end of what makes it until it is there; they do not slow each other
                            down. 0 = no time. */
} weft_times_config;
#define WEFT_TIMES_CONFIG_INIT WEFT_SIZED_INIT(weft_times_config)

/** An action runs from slot begin up to slot end. */
typedef struct weft_action_time {
    uint32_t begin, end;
} weft_action_time;

/** When every action would run if no message ever waited to be sent or received.
 *  @param config  copied, NULL = defaults.   @param times_out  of every action, stage after stage; for what does not
 *  compute, begin and end are when its stage comes to it. @p count must be the number of all actions.
 *  @param slots_out  slots until all is over.
 *  Threads: any.  Blocks: never.
 *  Errors: E_INVALID (also: actions that wait for each other; names them), E_RANGE (too long), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_times(const weft_schedule *schedule, const weft_times_config *config,
                                                        weft_action_time *times_out, size_t count, uint32_t *slots_out);

/* ---- lower ---- */

typedef enum weft_batching {
    WEFT_BATCHING_AUTO = 0,     /**< The first of the following that can be proved for the queues. */
    WEFT_BATCHING_NONE = 1,     /**< Every message by itself, receives before sends. */
    WEFT_BATCHING_EXCHANGE = 2, /**< What two stages give each other between the same computations is one batch. */
    WEFT_BATCHING_STEP = 3      /**< A forward and the backward behind it are one step; one batch between two steps. */
} weft_batching;

enum {
    WEFT_LOWER_NO_LOOKAHEAD = 1, /**< Without batches: post a receive no earlier than its sender is ready. Default:
                                      one computation earlier, for one more buffer, so that it hides behind it. */
    WEFT_LOWER_ALIGN_SYNC = 2    /**< SYNC on stage s comes s backwards later, when stage 0 has its own: reductions
                                      of all stages begin together. Default: before a chunk's last B. */
};

typedef struct weft_lower_config {
    size_t size; /**< Set by WEFT_LOWER_CONFIG_INIT. */
    weft_queues queues;
    weft_batching batching;
    uint32_t flags; /**< WEFT_LOWER_*. */
} weft_lower_config;
#define WEFT_LOWER_CONFIG_INIT WEFT_SIZED_INIT(weft_lower_config)

/** Make a schedule that can be run out of one that computes. What is there stays: a schedule with messages keeps them,
 *  a stage with SYNC keeps it; buffers are always numbered anew.
 *  @param schedule  copied.   @param config  copied, NULL = defaults.
 *  @param lowered_out  given, release with weft_schedule_destroy().
 *  Threads: any.  Blocks: never.
 *  Errors: E_INVALID (actions that are missing, double, or wait for each other; names them), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_lower(const weft_schedule *schedule, const weft_lower_config *config,
                                                        weft_schedule **lowered_out);

/* ---- verify ---- */

typedef struct weft_verify_config {
    size_t size; /**< Set by WEFT_VERIFY_CONFIG_INIT. */
    weft_queues queues;
    uint32_t activations_max; /**< Forwards a stage may hold whose backward is not over; 0 = any number. */
    uint32_t receives_max;    /**< Buffers a stage may have for receives, on each channel; 0 = any number. */
} weft_verify_config;
#define WEFT_VERIFY_CONFIG_INIT WEFT_SIZED_INIT(weft_verify_config)

/** What a stage has to keep at most at a time. */
typedef struct weft_stage_needs {
    uint32_t activations;    /**< Forwards whose backward (W, if split) is not over. */
    uint32_t receives[2];    /**< Buffers that RECV_F and RECV_B fill. */
    uint32_t sends[2];       /**< Buffers that SEND_F and SEND_B read. */
    uint32_t batch_messages; /**< Messages of the largest batch. */
} weft_stage_needs;

/** Prove that @p schedule can be run: every computation is there once and has its messages; each (peer, channel) is
 *  received in the order in which it is sent, and the right tensor reaches the right microbatch and chunk; nothing can
 *  deadlock in these queues; no buffer is used twice at a time; limits are kept. What is wrong is named with the stage
 *  and number (from 0) of both actions concerned, and their peers.
 *  @param config  copied, NULL = defaults.   @param needs_out  one for each stage; NULL = not wanted.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_verify(const weft_schedule *schedule,
                                                         const weft_verify_config *config, weft_stage_needs *needs_out);

/* ---- text ---- */

typedef enum weft_schedule_format {
    WEFT_SCHEDULE_TEXT = 0, /**< A line a stage: `stage 0: F0.0 [SEND_F0.0>1 RECV_B0.0<1] B0.0`, batches in brackets, a
                                 buffer number behind `#`. */
    WEFT_SCHEDULE_CSV = 1   /**< A line an action: `stage,action,microbatch,chunk,peer,batch,buffer`. */
} weft_schedule_format;

/** Write @p schedule into @p text (@p bytes long, always ended by a zero byte unless 0), cut where it does not fit.
 *  Returns the length of the whole without the zero byte. Threads: any. Blocks: never. */
WEFT_API size_t weft_schedule_write(const weft_schedule *schedule, weft_schedule_format format, char *text,
                                    size_t bytes);
/** Read a schedule in either format. Stages, chunks and microbatches are as many as the largest numbers say. Lines that
 *  begin with # and empty ones are skipped. In CSV the first line names the columns, in any order; chunk (0), peer (the
 *  right one), batch (0) and buffer (none) may be missing or empty.
 *  @param text  copied; need not end with a zero byte.   @param schedule_out  given, release with
 *  weft_schedule_destroy().
 *  Threads: any.  Blocks: never.  Errors: E_INVALID (names the line), E_RANGE, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_schedule_read(const char *text, size_t bytes, weft_schedule **schedule_out);

WEFT_END_DECLS
#endif
