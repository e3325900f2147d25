/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The trace: every operation and every marked span of computing, in a ring that costs next to nothing and is
 *         always on. With a folder in the world's config (or WEFT_TRACE) the ring is the file DIR/trace.<rank>.weft,
 *         mapped from the start, so that it can be read after the process was killed.
 *
 *  A file is a weft_trace_header (4096 bytes), then the label table (labels * 64 bytes, text, label 0 unused), then
 *  the ring, then the comm table (comms * comm_bytes; none in version 1). Record k (from 0) lies in slot
 *  k % capacity; a slot's record is whole if its `sequence` is k + 1, written last. What a later version adds stands
 *  behind what an earlier one has, so that each reads the files of those before it. */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H
#include <weft/result.h>
#include <weft/world.h>
WEFT_BEGIN_DECLS

#define WEFT_TRACE_MAGIC       0x3130656361725457ull /**< "WTrace01" as little-endian bytes. */
#define WEFT_TRACE_VERSION     2
#define WEFT_TRACE_LABELS      1024 /**< Labels a world can hold. */
#define WEFT_TRACE_LABEL_BYTES 64   /**< Of one label, its final 0 included. */
#define WEFT_TRACE_COMMS       512  /**< Entries of the comm table; it keeps the first comms a world makes. */

typedef enum weft_trace_kind {
    WEFT_TRACE_COLLECTIVE = 1,
    WEFT_TRACE_P2P = 2,    /**< A whole batch. */
    WEFT_TRACE_SPAN = 3,   /**< Computing marked by weft_span_begin() and weft_span_end(). */
    WEFT_TRACE_STEP = 4,   /**< A step of training marked by weft_trace_step() or weft_trace_step_as(). */
    WEFT_TRACE_MESSAGE = 5 /**< One message of the batch before it; in files only. */
} weft_trace_kind;

/** One record. Times are ticks of the clock of the header; 0 = not known (yet). */
typedef struct weft_trace_record {
    uint64_t sequence; /**< Record number + 1, written last. */
    uint8_t kind;      /**< weft_trace_kind. */
    uint8_t operation; /**< Collective: weft_collective_kind. Message: weft_p2p_kind. */
    uint8_t dtype;
    uint8_t reduction;
    uint32_t label;        /**< Into the label table; 0 = none. */
    uint32_t comm;         /**< Label of the comm's name. */
    int32_t result;        /**< How it ended; WEFT_PENDING until it has. */
    uint64_t number;       /**< Collective: its number on its comm, from 1. Span, step: what the caller gave. Message:
                                its number, from 1, among those to, or from, that peer on that channel of the comm.
                                P2p: how many messages it has without records of their own. */
    uint64_t bytes;        /**< Collective: bytes of the larger buffer. P2p: of all messages. Message: its own. */
    uint64_t ready;        /**< When the last input existed: the start call, or the end of the work it ran after. */
    uint64_t start;        /**< When the backend took it up. Span, step: begin. */
    uint64_t first;        /**< When its first byte moved. */
    uint64_t last;         /**< When it was complete on this rank. Span, step: end. */
    uint64_t last_arrival; /**< When the last rank arrived; 0 where the backend cannot see it. */
    int32_t late_rank;     /**< World rank that arrived last; -1 = not known. Message: world rank of its peer. */
    uint16_t comm_entry;   /**< Into the comm table; 0 = none. */
    uint16_t messages;     /**< P2p: how many records of messages stand directly behind: one for each in files, but none
                                of more than 1 024, or than a quarter of the ring. Message: its channel. */
    uint64_t wait;         /**< When the caller came to wait for it. */
    uint64_t go;           /**< When the caller went on. */
} weft_trace_record;

typedef struct weft_trace_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint32_t capacity; /**< Records of the ring. */
    uint32_t labels;   /**< Entries of the label table. */
    uint32_t label_bytes;
    int32_t rank;
    int32_t size;           /**< Ranks of the world. */
    uint64_t next;          /**< Records reserved so far. */
    uint64_t tick0;         /**< A tick, ... */
    uint64_t monotonic0_ns; /**< ... and CLOCK_MONOTONIC at the same moment. */
    double ns_per_tick;
    char host[64];
    char clock[32]; /**< "CLOCK_MONOTONIC". */
    /* Since version 2. */
    char machine[64];       /**< Up to its "/", equal on ranks that share the clock and its ticks. */
    uint64_t realtime0_ns;  /**< CLOCK_REALTIME at the same moment. */
    uint64_t tick1;         /**< A later tick: of the last step that was marked, or of the close; ... */
    uint64_t monotonic1_ns; /**< ... and CLOCK_MONOTONIC at the same moment; 0 = none, or it was being written. */
    uint32_t comms;         /**< Entries of the comm table; entry 0 is unused. */
    uint32_t comm_bytes;
    uint32_t crowded; /**< 1: its machine has fewer cores than ranks; 0: it has not. */
    uint32_t reserved;
} weft_trace_header;

/** A comm that this rank has made. The same name, members and incarnation on several ranks are the same comm. */
typedef struct weft_trace_comm {
    uint32_t label; /**< Of its name; written last: 0 = no entry (yet). */
    uint32_t incarnation;
    int32_t rank;     /**< Of this rank in the comm. */
    int32_t size;     /**< Ranks of the comm. */
    uint64_t members; /**< Hash of their world ranks, in order. */
    uint32_t backend; /**< Label of its backend's name. */
    uint32_t reserved;
} weft_trace_comm;

/** Register @p text (cut at 63 bytes) as a label, or find it. 0 if the table is full, with a warning for the first.
 *  Threads: any.  Blocks: local. */
WEFT_API uint32_t weft_trace_label(weft_world *world, const char *text);
/** The text of a label; "" for none. Borrowed: as long as the world. Threads: any. Blocks: never. */
WEFT_API const char *weft_trace_label_text(const weft_world *world, uint32_t label);

/** Ticks of the trace clock now. Threads: any. Blocks: never. Hot. */
WEFT_API uint64_t weft_trace_now(const weft_world *world);
/** Nanoseconds of @p ticks. Threads: any. Blocks: never. */
WEFT_API double weft_trace_ns(const weft_world *world, uint64_t ticks);

/** Spans tell `weft prof` what computing is made of, and steps where one ends and the next begins: with WEFT_TRACE=DIR
 *  any program gets the same report as `weft gpt`.
 *
 *  @code
 *      #include <weft/buckets.h>
 *
 *      weft_result train_step(weft_world *world, weft_buckets *set, uint64_t number, void (*backward)(uint32_t param))
 *      {
 *          uint64_t began = weft_trace_now(world), span;
 *          uint32_t label = weft_trace_label(world, "backward"), params = 4;
 *          weft_result result = weft_buckets_begin(set, 1);
 *          for (uint32_t param = params; result == WEFT_OK && param-- > 0;) {
 *              span = weft_span_begin(world, label, param);
 *              backward(param);
 *              weft_span_end(world, span);
 *              result = weft_buckets_mark_ready(set, param, WEFT_STREAM_HOST);
 *          }
 *          if (result == WEFT_OK)
 *              result = weft_buckets_reduce(&set, 1, 0);
 *          weft_trace_step(world, number, began);
 *          return result;
 *      }
 *  @endcode
 *
 *  Begin a span of computing: one thing that the trainer does between its calls. Returns its record, for
 *  weft_span_end(). Threads: any. Blocks: never. Hot. */
WEFT_API uint64_t weft_span_begin(weft_world *world, uint32_t label, uint64_t number);
/** End a span. Threads: any. Blocks: never. Hot. */
WEFT_API void weft_span_end(weft_world *world, uint64_t span);
/** Mark a step of training that ran from tick @p begin until now. Threads: one at a time. Blocks: never. Hot. */
WEFT_API void weft_trace_step(weft_world *world, uint64_t step, uint64_t begin);
/** The same for a step that was run in a special way, which its @p label names. `weft prof report` knows "serial":
 *  without overlap, to be compared with the others; and "alone": communication without computing.
 *  Threads: one at a time. Blocks: never. Hot. */
WEFT_API void weft_trace_step_as(weft_world *world, uint64_t step, uint64_t begin, uint32_t label);

/** Record nothing from here on, or again: what is under way keeps its record. For measuring what tracing costs.
 *  Threads: owner. Blocks: never. */
WEFT_API void weft_trace_enable(weft_world *world, int on);

/** How many records have been made. Threads: any. Blocks: never. */
WEFT_API uint64_t weft_trace_count(const weft_world *world);
/** Copy up to @p max records from number @p first on; those overwritten or unfinished are left out, those of
 *  operations in flight are given as they stand. @return how many were copied; *next_out is where to go on, if it is
 *  not NULL.
 *  Threads: any.  Blocks: never. */
WEFT_API size_t weft_trace_read(const weft_world *world, uint64_t first, weft_trace_record *records, size_t max,
                                uint64_t *next_out);

WEFT_END_DECLS
#endif
