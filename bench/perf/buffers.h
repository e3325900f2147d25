/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one rank that operations work on: many places for an input and an output, taken one after the other,
 * so that no cache holds what a call touches. */
#ifndef WEFT_BENCH_PERF_BUFFERS_H
#define WEFT_BENCH_PERF_BUFFERS_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/world.h>

typedef struct perf_buffers {
    weft_world *world; /* NULL: memory of the program's own */
    char *sends, *recvs;
    size_t bytes;                            /* of each of the two */
    size_t rotate_bytes, shift_bytes;        /* how much is walked through; every place begins so much later */
    size_t send_stride, recv_stride, places; /* for the row at hand */
} perf_buffers;

/* Room for @p places places of @p most_bytes each, and for rotating; in memory of @p world, or if that is NULL in the
 * program's own. Every page is present afterwards. Close it also after a failure. */
weft_result perf_buffers_open(perf_buffers *b, weft_world *world, size_t most_bytes, size_t places, size_t rotate_bytes,
                              size_t shift_bytes);
void perf_buffers_close(perf_buffers *b);
/* Divide it into places of this size, at least @p least of them. */
void perf_buffers_divide(perf_buffers *b, size_t send_bytes, size_t recv_bytes, bool rotated, size_t least);
char *perf_send_at(const perf_buffers *b, size_t number);
char *perf_recv_at(const perf_buffers *b, size_t number);

/* Bytes of the last level of cache, at least 32M and at most 128M. */
size_t perf_cache_bytes(void);

#endif
