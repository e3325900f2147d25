/* SPDX-License-Identifier: Apache-2.0 */
/* How operations of a communicator move: in rounds of bounded size, each a step that never blocks. */
#ifndef STANDIN_NCCL_MOVE_H
#define STANDIN_NCCL_MOVE_H
#include "nccl_meet.h"

typedef enum standin_kind {
    STANDIN_ALL_REDUCE,
    STANDIN_REDUCE,
    STANDIN_REDUCE_SCATTER,
    STANDIN_ALL_GATHER,
    STANDIN_BROADCAST
} standin_kind;

typedef struct standin_collective {
    standin_asked asked;
    const unsigned char *from;
    unsigned char *to;
    /* how far it is */
    size_t at; /* elements */
    bool begun, staged;
    uint64_t round; /* of the communicator */
} standin_collective;

typedef struct standin_message {
    bool sends;
    int peer;
    unsigned char *memory;
    size_t bytes;
    /* how far it is */
    size_t at;
    bool begun, done;
} standin_message;

size_t standin_type_bytes(ncclDataType_t type);

/* One step; true: done. *differs_out is set if the ranks ask for different things. @p rounds counts those of the
 * communicator on this rank. */
bool standin_collective_step(standin_collective *c, standin_room *room, int rank, int ranks, uint64_t *rounds,
                             bool *differs_out);
bool standin_message_step(standin_message *m, standin_room *room, int rank, int ranks, bool *differs_out);

#endif
