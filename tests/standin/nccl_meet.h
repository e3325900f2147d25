/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the ranks of a communicator share, threads or processes, and how they find it. */
#ifndef STANDIN_NCCL_MEET_H
#define STANDIN_NCCL_MEET_H
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    STANDIN_NCCL_RANKS = 128,
    STANDIN_NCCL_STAGE = 256 * 1024, /* bytes of a rank's part in one round of a collective */
    STANDIN_NCCL_BOX = 32 * 1024     /* and of a message */
};

/* What a rank asks for with a collective. */
typedef struct standin_asked {
    uint64_t count;
    int kind, type, op, root;
} standin_asked;

typedef struct standin_seat {
    _Atomic uint64_t posted, read; /* rounds that this rank has staged, and taken from all */
    standin_asked asked;
    unsigned char stage[STANDIN_NCCL_STAGE];
} standin_seat;

enum { STANDIN_SENDER = 1, STANDIN_RECEIVER = 2 };

/* From one rank to another. */
typedef struct standin_box {
    _Atomic uint32_t ends;          /* STANDIN_SENDER and STANDIN_RECEIVER, that have called their first message */
    _Atomic uint64_t written, read; /* pieces */
    uint64_t message_bytes, piece_bytes;
    unsigned char piece[STANDIN_NCCL_BOX];
} standin_box;

/* How NCCL carries collectives: which way, it decides by kind, reduction and size, and connects a way when it is first
 * taken. */
typedef enum standin_way {
    STANDIN_RING,
    STANDIN_TREE,
    STANDIN_PAT,
    STANDIN_MULTICAST,
    STANDIN_MULTICAST_TREE,
    STANDIN_WAYS
} standin_way;

typedef struct standin_hall {
    _Atomic int arrived;
    _Atomic int joined[STANDIN_WAYS]; /* ranks that have called an operation that goes this way */
} standin_hall;

typedef struct standin_room {
    standin_hall *hall;
    standin_seat *seats; /* one a rank */
    standin_box *boxes;  /* [from][to] */
    size_t bytes;
} standin_room;

/* A name that nobody else has. */
void standin_room_name(ncclUniqueId *id);
/* Enter; false: it cannot be made. */
bool standin_room_enter(standin_room *room, const ncclUniqueId *id, int ranks);
/* Are all there? */
bool standin_room_full(const standin_room *room, int ranks);
/* Have all called an operation that goes this way? */
bool standin_room_meets(const standin_room *room, standin_way way, int ranks);
void standin_room_leave(standin_room *room);

#endif
