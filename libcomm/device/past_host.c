/* SPDX-License-Identifier: Apache-2.0 */
/* Results stored past the cache, by stores that do not fetch the lines they overwrite. Several pages are worked on in
 * turn: the processor reads ahead in each page for itself, and begins anew in every page. Meanwhile it looks up where
 * the next pages lie, for which the first line of each is asked for. */
#include <stdbool.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/memory.h"
#include "device/vector_host.h"

#if defined(__AVX512F__)
#define LOAD(from)    _mm512_loadu_si512(from)
#define STREAM(to, x) _mm512_stream_si512((void *)(to), x)
#define WORD_BYTES    64
#elif defined(__AVX2__)
#define LOAD(from)    _mm256_loadu_si256((const __m256i *)(from))
#define STREAM(to, x) _mm256_stream_si256((__m256i *)(to), x)
#define WORD_BYTES    32
#elif defined(__SSE2__)
#define LOAD(from)    _mm_loadu_si128((const __m128i *)(from))
#define STREAM(to, x) _mm_stream_si128((__m128i *)(to), x)
#define WORD_BYTES    16
#endif

#define LINE  ((size_t)64)
#define RUN   ((size_t)256) /* bytes of one page before the next one's */
#define PAGE  ((size_t)4096)
#define PAGES ((size_t)8)
#define GROUP (PAGES * PAGE) /* of pages worked on in turn */

/* Bytes before the first whole line. */
static size_t head_of(const void *at)
{
    return (LINE - (uintptr_t)at % LINE) % LINE;
}

/* Where the run @p number of @p bytes begins. */
static size_t run_at(size_t number, size_t bytes)
{
    size_t in_line = number * RUN, begin = in_line / GROUP * GROUP;
    if (bytes - begin < GROUP)
        return in_line;
    size_t in_group = number % (GROUP / RUN);
    return begin + in_group % PAGES * PAGE + in_group / PAGES * RUN;
}

/* Before run @p number, at @p from: if a group begins there, the next one will be needed, here or in the next call. */
static void announce(const void *from, size_t number)
{
    if (number % (GROUP / RUN) == 0)
        for (uintptr_t at = 0; at < GROUP; at += PAGE)
            __builtin_prefetch((const void *)((uintptr_t)from + GROUP + at), 0, 2);
}

/* One run; what is no whole line is stored as usual. */
static void stream(unsigned char *to, const unsigned char *from, size_t bytes)
{
    size_t done = 0;
#if defined(WORD_BYTES)
    if (head_of(to) == 0)
        for (; done + LINE <= bytes; done += LINE)
            for (size_t w = 0; w < LINE; w += WORD_BYTES)
                STREAM(to + done + w, LOAD(from + done + w));
#endif
    if (done < bytes)
        memcpy(to + done, from + done, bytes - done);
}

/* What was streamed is there before any flag that says so. */
static void fence(void)
{
#if defined(WORD_BYTES)
    _mm_sfence();
#endif
}

void weft__copy_past(void *dst, const void *src, size_t bytes)
{
    unsigned char *to = dst;
    const unsigned char *from = src;
    size_t head = weft__least(head_of(to), bytes), rest = bytes - head;
    if (head)
        memcpy(to, from, head);
    for (size_t k = 0; k * RUN < rest; k++) {
        size_t at = run_at(k, rest);
        announce(from + head + at, k);
        stream(to + head + at, from + head + at, weft__least(RUN, rest - at));
    }
    fence();
}

/* ------------------------------------------------------------------------------------------- sums */

static void move_on(const void **sources, int count, ptrdiff_t bytes)
{
    for (int i = 0; i < count; i++)
        sources[i] = (const unsigned char *)sources[i] + bytes;
}

/* Are all the places of a run whole lines? */
static bool is_lines(void *const *dsts, int count, size_t at, size_t bytes)
{
    bool lines = bytes % LINE == 0;
    for (int i = 0; i < count; i++)
        lines &= head_of((const unsigned char *)dsts[i] + at) == 0;
    return lines;
}

#if defined(WORD_BYTES)
typedef float floats __attribute__((vector_size(WORD_BYTES)));
typedef floats floats_anywhere __attribute__((aligned(4), may_alias));
typedef long long word __attribute__((vector_size(WORD_BYTES)));

WEFT__INLINE void sum_lines(void *const *dsts, int dst_count, const void *const *sources, int source_count, size_t at,
                            size_t bytes)
{
    for (size_t i = 0; i < bytes; i += WORD_BYTES) {
        floats sum = *(const floats_anywhere *)((const unsigned char *)sources[0] + i);
        for (int k = 1; k < source_count; k++)
            sum += *(const floats_anywhere *)((const unsigned char *)sources[k] + i);
        for (int d = 0; d < dst_count; d++)
            STREAM((unsigned char *)dsts[d] + at + i, (word)sum);
    }
}

/* The most common sums of whole lines go from register to memory. */
static bool sum_directly(void *const *dsts, int dst_count, const void *const *sources, int source_count, size_t at,
                         size_t bytes)
{
    if (source_count == 2 && dst_count == 1)
        sum_lines(dsts, 1, sources, 2, at, bytes);
    else if (source_count == 2 && dst_count == 2)
        sum_lines(dsts, 2, sources, 2, at, bytes);
    else
        sum_lines(dsts, dst_count, sources, source_count, at, bytes);
    return true;
}
#else
static bool sum_directly(void *const *dsts, int dst_count, const void *const *sources, int source_count, size_t at,
                         size_t bytes)
{
    (void)dsts, (void)dst_count, (void)sources, (void)source_count, (void)at, (void)bytes;
    return false;
}
#endif

void weft__reduce_past(void *const *dsts, int dst_count, const void **sources, int source_count, size_t count,
                       weft_dtype dtype, weft_reduction reduction, int divisor)
{
    _Alignas(64) unsigned char sum[RUN];
    size_t element = weft__dtype_bytes(dtype), bytes = count * element, head = weft__least(head_of(dsts[0]), bytes);
    bool plain = dtype == WEFT_FP32 && reduction == WEFT_SUM;
    size_t at = 0, part, k = 0;
    for (size_t done = 0; done < bytes; done += part) {
        size_t next = done < head ? 0 : head + run_at(k, bytes - head);
        part = done < head ? head : weft__least(RUN, bytes - next);
        move_on(sources, source_count, (ptrdiff_t)next - (ptrdiff_t)at);
        at = next;
        for (int i = 0; done >= head && i < source_count; i++)
            announce(sources[i], k);
        k += done >= head;
        if (plain && is_lines(dsts, dst_count, at, part) &&
            sum_directly(dsts, dst_count, sources, source_count, at, part))
            continue;
        weft__reduce(sum, sources, source_count, part / element, dtype, reduction, divisor);
        for (int i = 0; i < dst_count; i++)
            stream((unsigned char *)dsts[i] + at, sum, part);
    }
    move_on(sources, source_count, -(ptrdiff_t)at);
    fence();
}
