/* SPDX-License-Identifier: Apache-2.0 */
/* Comms from inside. */
#ifndef WEFT_LIBCOMM_COMM_H
#define WEFT_LIBCOMM_COMM_H
#include "base/error.h"
#include "base/verdict.h"
#include "world.h"

struct weft_comm {
    weft_world *world;
    char name[WEFT_COMM_NAME_MAX + 1];
    int rank, size;
    int *ranks;              /* world ranks of the members */
    int *peers;              /* those of config.p2p_peers, */
    bool *is_peer;           /* [member]: is one, or this rank itself; NULL: all are */
    weft_comm_config config; /* complete */
    uint64_t timeout_ns;
    uint32_t label;       /* of the name, in the trace */
    uint16_t trace_entry; /* in the trace's table of comms; 0: none */
    uint64_t *messages;   /* so far, by [member][channel][kind]; NULL: the trace has no records of them */

    weft__backend_instance *instance; /* of the world; its table is `backend` */
    const weft_backend *backend;
    weft_backend_facts facts;
    void *backend_comm;
    weft__work_slots *slots;
    size_t messages_at;              /* in the memory of a work: the messages of a batch */
    uint64_t collectives;            /* started so far */
    uint32_t numbers;                /* that weft__reserved_number() has given */
    weft__device *gpu;               /* whose memory operations are on; NULL: the host's */
    struct weft__gpu_word *gpu_word; /* a little of it, for agreeing */
    _Atomic uint32_t queued; /* works that are not done at once, though the backend does all at once: later ones wait */

    /* Creation. */
    uint64_t began_ns;
    weft__verdict unmade; /* why making it failed */
    weft__card_key key;
    weft__card_terms terms;
    weft__card *card;
    weft__name_use *use;
    unsigned char *cards; /* room for those of all members' backends, until they have met */
    bool *seen;           /* [member]: its card was */
    uint32_t incarnation; /* of the name, when it was destroyed */
    bool connected;       /* changed in the seat */

    /* The seat's. */
    weft__work *held, **held_end; /* new works that wait for another, or for room in the backend */
    bool on_held_list;
    weft_comm *next_held;
    bool aborted;      /* the backend has been told */
    uint64_t reasons;  /* of the world's that were looked at for one of this comm */
    uint64_t named_ns; /* the late were named in the log */

    /* Failure: the first verdict. The text is written before the code, both once; under the world's error_lock. */
    char verdict_text[256];
    _Atomic int32_t verdict;
    char stuck_text[256]; /* also once, before the next: if that came later than the verdict */
    _Atomic bool stuck;   /* operations could not be ended but with E_STUCK: their memory may still be written */
    uint64_t failure;     /* which of the world's it was, from 1 */
    weft_comm *next_failed;
    bool forgotten; /* being destroyed: it fails unnoticed */

    weft_comm *next; /* in the world */
};

/* The comm takes operations that need @p cap (WEFT_CAP_*): WEFT_OK, or its verdict. */
weft_result weft__comm_usable(weft_comm *comm, uint64_t cap);
/* Is that a stream which its operations can be ordered with? */
static inline weft_result weft__comm_has_stream(const weft_comm *comm, weft_stream stream)
{
    if (__builtin_expect(stream.kind == WEFT_DEVICE_HOST || stream.kind == comm->config.device, 1))
        return WEFT_OK;
    return weft__fail(WEFT_E_UNSUPPORTED, "comm %s is not on the GPU that the stream is of", comm->name);
}
/* Keep the first verdict on the comm; of E_STUCK that comes later, keep the first text. False: there was a verdict
 * already. weft__progress_alarm() comes next. */
bool weft__comm_fail(weft_comm *comm, weft_result result, const char *text);
/* Its failure is no more one of the world's, but for the next weft__comms_check() if none has seen it. */
void weft__comm_forget_failure(weft_comm *comm);
/* How the first of the world's comms failed, of those that exist or were forgotten since the last call and not seen by
 * it; its message becomes this thread's last. */
weft_result weft__comms_check(weft_world *world);
/* How @p comm failed; "" if it has not, or does not exist any more. */
void weft__comms_tell_failure(weft_world *world, const weft_comm *comm, weft_result result, char *text, size_t bytes);
/* The message of an operation of a failed comm that ended with @p result. */
const char *weft__comm_failure(const weft_comm *comm, weft_result result);
/* Have the first verdict taken to the backend, and end what it does not hold. In the seat. */
void weft__comm_carry_out_verdict(weft_comm *comm);
/* This rank's use of a name for these ranks, or NULL. */
weft__name_use *weft__name_use_of(const weft_world *world, const char *name, uint64_t ranks_hash);
/* E_UNSUPPORTED: its backend leaves out a call that makes comms. */
weft_result weft__comm_cannot_make(const weft_comm *comm);
/* Say on the card of a comm that was not made that this rank gives up, and why. In the seat. */
void weft__comm_give_up(weft_comm *comm);
/* Free what is left of destroyed comms once no other rank looks at it; @p force: now. In the seat. */
void weft__comms_bury(weft_world *world, bool force);

#endif
