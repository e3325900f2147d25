/* SPDX-License-Identifier: Apache-2.0 */
/* A round of a collective: every rank stages a part, waits for all, takes what is its own from each. Sums are made in
 * the order of ranks, 16-bit types in fp32. A message goes piece by piece through a box, and its send ends when it was
 * read: nothing may count on more room. */
#include "nccl_move.h"

#include <string.h>

#include "half.h"

size_t standin_type_bytes(ncclDataType_t type)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return (size_t)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

/* ---- elements ---- */

static double load(const unsigned char *from, size_t i, ncclDataType_t type)
{
    switch (type) {
    case ncclFloat16:
        return (double)standin_from_half(((const uint16_t *)(const void *)from)[i]);
    case ncclBfloat16:
        return (double)standin_from_bf16(((const uint16_t *)(const void *)from)[i]);
    case ncclFloat32:
        return (double)((const float *)(const void *)from)[i];
    default:
        return ((const double *)(const void *)from)[i];
    }
}

static void store(unsigned char *to, size_t i, ncclDataType_t type, double value)
{
    switch (type) {
    case ncclFloat16:
        ((uint16_t *)(void *)to)[i] = standin_to_half((float)value);
        break;
    case ncclBfloat16:
        ((uint16_t *)(void *)to)[i] = standin_to_bf16((float)value);
        break;
    case ncclFloat32:
        ((float *)(void *)to)[i] = (float)value;
        break;
    default:
        ((double *)(void *)to)[i] = value;
    }
}

static bool is_floating(ncclDataType_t type)
{
    return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32 || type == ncclFloat64;
}

static double join(double a, double b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return a != a || b != b ? a + b : a > b ? a : b;
    case ncclMin:
        return a != a || b != b ? a + b : a < b ? a : b;
    default:
        return a + b;
    }
}

/* What there is most of: not for sanitizers, which would take seconds; all of it is ordered by the rounds. */
__attribute__((no_sanitize("thread", "address"))) static void sum_floats(float *to, const unsigned char *const *parts,
                                                                         int ranks, size_t count)
{
    memcpy(to, parts[0], count * sizeof *to);
    for (int r = 1; r < ranks; r++) {
        const float *part = (const float *)(const void *)parts[r];
        for (size_t i = 0; i < count; i++)
            to[i] += part[i];
    }
}

/* All but sums of fp64 are rounded to fp32 on the way. */
static void reduce_floating(unsigned char *to, const unsigned char *const *parts, int ranks, size_t count,
                            ncclDataType_t type, ncclRedOp_t op)
{
    for (size_t i = 0; i < count; i++) {
        double sum = load(parts[0], i, type);
        for (int r = 1; r < ranks; r++) {
            sum = join(sum, load(parts[r], i, type), op);
            sum = type == ncclFloat64 ? sum : (double)(float)sum;
        }
        store(to, i, type, op == ncclAvg ? sum / ranks : sum);
    }
}

#define REDUCE_INTEGERS(TYPE)                                            \
    for (size_t i = 0; i < count; i++) {                                 \
        TYPE sum = ((const TYPE *)(const void *)parts[0])[i];            \
        for (int r = 1; r < ranks; r++) {                                \
            TYPE x = ((const TYPE *)(const void *)parts[r])[i];          \
            sum = op == ncclProd  ? (TYPE)((uint64_t)sum * (uint64_t)x)  \
                  : op == ncclMax ? (x > sum ? x : sum)                  \
                  : op == ncclMin ? (x < sum ? x : sum)                  \
                                  : (TYPE)((uint64_t)sum + (uint64_t)x); \
        }                                                                \
        ((TYPE *)(void *)to)[i] = sum;                                   \
    }

static void reduce_integers(unsigned char *to, const unsigned char *const *parts, int ranks, size_t count,
                            ncclDataType_t type, ncclRedOp_t op)
{
    switch (type) {
    case ncclInt8:
        REDUCE_INTEGERS(int8_t)
        break;
    case ncclUint8:
        REDUCE_INTEGERS(uint8_t)
        break;
    case ncclInt32:
        REDUCE_INTEGERS(int32_t)
        break;
    case ncclUint32:
        REDUCE_INTEGERS(uint32_t)
        break;
    case ncclInt64:
        REDUCE_INTEGERS(int64_t)
        break;
    default:
        REDUCE_INTEGERS(uint64_t)
    }
}

static void reduce(unsigned char *to, const unsigned char *const *parts, int ranks, size_t count, ncclDataType_t type,
                   ncclRedOp_t op)
{
    if (type == ncclFloat32 && op == ncclSum) {
        sum_floats((float *)(void *)to, parts, ranks, count);
    } else if (is_floating(type)) {
        reduce_floating(to, parts, ranks, count, type, op);
    } else {
        reduce_integers(to, parts, ranks, count, type, op);
    }
}

/* ---- collectives ---- */

static size_t elements_of_round(const standin_collective *c, int ranks)
{
    size_t element = standin_type_bytes((ncclDataType_t)c->asked.type);
    size_t parts = c->asked.kind == STANDIN_REDUCE_SCATTER ? (size_t)ranks : 1;
    size_t most = STANDIN_NCCL_STAGE / element / parts, left = c->asked.count - c->at;
    return left < most ? left : most;
}

static void stage(const standin_collective *c, unsigned char *to, size_t count, int rank, int ranks)
{
    size_t element = standin_type_bytes((ncclDataType_t)c->asked.type);
    if (c->asked.kind == STANDIN_BROADCAST && rank != c->asked.root)
        return;
    int parts = c->asked.kind == STANDIN_REDUCE_SCATTER ? ranks : 1;
    for (int p = 0; p < parts; p++)
        memcpy(to + (size_t)p * count * element, c->from + ((size_t)p * c->asked.count + c->at) * element,
               count * element);
}

static void take(const standin_collective *c, const standin_room *room, size_t count, int rank, int ranks)
{
    const unsigned char *parts[STANDIN_NCCL_RANKS];
    size_t element = standin_type_bytes((ncclDataType_t)c->asked.type), bytes = count * element;
    for (int r = 0; r < ranks; r++)
        parts[r] = room->seats[r].stage + (c->asked.kind == STANDIN_REDUCE_SCATTER ? (size_t)rank * bytes : 0);
    unsigned char *to = c->to + c->at * element;
    switch (c->asked.kind) {
    case STANDIN_BROADCAST:
        memcpy(to, parts[c->asked.root], bytes);
        break;
    case STANDIN_ALL_GATHER:
        for (int r = 0; r < ranks; r++)
            memcpy(to + (size_t)r * c->asked.count * element, parts[r], bytes);
        break;
    default:
        if (c->asked.kind != STANDIN_REDUCE || rank == c->asked.root)
            reduce(to, parts, ranks, count, (ncclDataType_t)c->asked.type, (ncclRedOp_t)c->asked.op);
    }
}

static bool all_have(const standin_room *room, int ranks, bool read, uint64_t rounds)
{
    for (int r = 0; r < ranks; r++) {
        const standin_seat *seat = &room->seats[r];
        if (atomic_load_explicit(read ? &seat->read : &seat->posted, memory_order_acquire) < rounds)
            return false;
    }
    return true;
}

static bool all_ask_alike(const standin_room *room, int ranks)
{
    for (int r = 1; r < ranks; r++)
        if (memcmp(&room->seats[r].asked, &room->seats[0].asked, sizeof room->seats[0].asked) != 0)
            return false;
    return true;
}

bool standin_collective_step(standin_collective *c, standin_room *room, int rank, int ranks, uint64_t *rounds,
                             bool *differs_out)
{
    standin_seat *mine = &room->seats[rank];
    size_t count = elements_of_round(c, ranks);
    if (!c->begun) {
        c->begun = true;
        c->round = *rounds;
    }
    if (!c->staged) {
        if (!all_have(room, ranks, true, c->round))
            return false;
        mine->asked = c->asked;
        stage(c, mine->stage, count, rank, ranks);
        atomic_store_explicit(&mine->posted, c->round + 1, memory_order_release);
        c->staged = true;
    }
    if (!all_have(room, ranks, false, c->round + 1))
        return false;
    *differs_out = !all_ask_alike(room, ranks);
    if (*differs_out)
        return false;
    take(c, room, count, rank, ranks);
    c->at += count;
    c->staged = false;
    *rounds = ++c->round;
    atomic_store_explicit(&mine->read, c->round, memory_order_release);
    return c->at == c->asked.count;
}

/* ---- messages ---- */

static bool send_piece(standin_message *m, standin_box *box)
{
    uint64_t written = atomic_load_explicit(&box->written, memory_order_relaxed);
    if (atomic_load_explicit(&box->read, memory_order_acquire) != written)
        return false;
    if (m->begun && m->at == m->bytes)
        return true;
    size_t left = m->bytes - m->at, bytes = left < STANDIN_NCCL_BOX ? left : STANDIN_NCCL_BOX;
    box->message_bytes = m->bytes;
    box->piece_bytes = bytes;
    if (bytes)
        memcpy(box->piece, m->memory + m->at, bytes);
    m->at += bytes;
    m->begun = true;
    atomic_store_explicit(&box->written, written + 1, memory_order_release);
    return false;
}

static bool receive_piece(standin_message *m, standin_box *box, bool *differs_out)
{
    uint64_t read = atomic_load_explicit(&box->read, memory_order_relaxed);
    if (atomic_load_explicit(&box->written, memory_order_acquire) == read)
        return false;
    *differs_out = box->message_bytes != m->bytes;
    if (*differs_out)
        return false;
    if (box->piece_bytes)
        memcpy(m->memory + m->at, box->piece, box->piece_bytes);
    m->at += box->piece_bytes;
    atomic_store_explicit(&box->read, read + 1, memory_order_release);
    return m->at == m->bytes;
}

bool standin_message_step(standin_message *m, standin_room *room, int rank, int ranks, bool *differs_out)
{
    int from = m->sends ? rank : m->peer, to = m->sends ? m->peer : rank;
    standin_box *box = &room->boxes[from * ranks + to];
    return m->sends ? send_piece(m, box) : receive_piece(m, box, differs_out);
}
