/* SPDX-License-Identifier: Apache-2.0 */
/* What carries records from rank to rank, in order for each pair of them: UCX, or sockets of TCP. The rest of a backend
 * between hosts knows nothing but this table. All calls come in the world's seat. */
#ifndef WEFT_NET_CARRIER_H
#define WEFT_NET_CARRIER_H
#include <stdbool.h>
#include <weft/backend.h>

typedef struct weft__net weft__net;
typedef struct weft__net_comm weft__net_comm;
typedef struct weft__net_lane weft__net_lane;

/* A record on its way, handed to the carrier until it lets go: a head, and the bytes behind it. */
typedef struct weft__net_slot {
    weft__net_comm *nc;
    weft__net_lane *lane;         /* whose message it is a part of; NULL = of none, and it has no payload */
    unsigned char *record;        /* the head, and as much room as the carrier has asked for */
    const unsigned char *payload; /* where the bytes lie until weft__net_sent(), if not behind the head */
    size_t bytes;                 /* behind the head */
    bool busy;                    /* the carrier has it */
    struct weft__net_slot *next;  /* the carrier's */
} weft__net_slot;

typedef struct weft__carrier {
    const char *name;    /* of the backend */
    size_t record_bytes; /* of the longest record, its head included: a multiple of every element, and of cache lines */
    size_t slot_bytes;   /* room in a slot: for a record that is copied, or its head alone */
    size_t stage_bytes;  /* of what may be under way to be summed, from all members; two records each at least */
    size_t state_bytes;  /* of its part of a world, which comes zeroed */
    weft_result (*open)(void *state, weft__net *net);
    void (*close)(void *state); /* all of it, however far `open` came; the state itself is not its own */
    int (*fd)(void *state);
    weft_result (*arm)(void *state);
    /* Move what goes and take in what comes: has anything happened? */
    bool (*progress)(void *state);
    /* Nothing that was sent may stay here while nobody moves it along: is there something left? */
    bool (*lingers)(void *state);
    /* How others reach this rank: at most @p room bytes. */
    weft_result (*address)(void *state, unsigned char *address, size_t room, size_t *bytes_out);
    /* Make the way to @p rank, in the background, if there is none yet. */
    weft_result (*reach)(void *state, int rank, const unsigned char *address, size_t bytes);
    /* WEFT_OK, or with what the way to it is lost and why: E_PEER_LOST if the other, or its host, has ended it;
     * E_TIMEOUT if nothing was heard of it for too long; what this rank lacks, by name. The carrier calls
     * weft__net_rank_lost() when that happens. */
    weft_result (*lost)(void *state, int rank, const char **why_out);
    /* Take a record, on a way that is not lost: weft__net_sent() when its payload is not read any more, and then
     * weft__net_let_go(), both perhaps before this returns. Of what has not gone when a way is lost the latter
     * alone. */
    void (*send)(void *state, int rank, weft__net_slot *slot);
    /* Let go of the parts of messages of this comm, whose payload is not to be read any more. NULL: it never is, once
     * `send` has returned. */
    void (*drop)(void *state, weft__net_comm *nc);
} weft__carrier;

#endif
