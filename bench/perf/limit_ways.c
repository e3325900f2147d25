/* SPDX-License-Identifier: Apache-2.0 */
/* Loops at the speed of memory; compiled once for each instruction set, which WAYS names. */
#include <stdint.h>
#include <string.h>

#include "perf/limit.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 lane;
#define LOAD   _mm512_loadu_ps
#define ADD    _mm512_add_ps
#define STORE  _mm512_storeu_ps
#define STREAM _mm512_stream_ps
#elif defined(__AVX__)
#include <immintrin.h>
typedef __m256 lane;
#define LOAD   _mm256_loadu_ps
#define ADD    _mm256_add_ps
#define STORE  _mm256_storeu_ps
#define STREAM _mm256_stream_ps
#elif defined(__SSE2__)
#include <emmintrin.h>
typedef __m128 lane;
#define LOAD   _mm_loadu_ps
#define ADD    _mm_add_ps
#define STORE  _mm_storeu_ps
#define STREAM _mm_stream_ps
#else
typedef float lane;
#define LOAD(at)     (*(at))
#define ADD(a, b)    ((a) + (b))
#define STORE(at, v) (*(at) = (v))
#define STREAM       STORE
#endif
enum { WIDTH = sizeof(lane) / sizeof(float) };

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

/* Where the sum is written: over the parts, or side by side. */
static float *place(const perf_limit *limit, const char *from, char *to, size_t number)
{
    char *base = limit->in_place ? (char *)(uintptr_t)from : to;
    return (float *)(void *)base + number * limit->summed;
}

static inline lane sum_at(const perf_limit *limit, const float *from, size_t i)
{
    lane sum = LOAD(from + i);
    for (size_t p = 1; p < limit->parts; p++)
        sum = ADD(sum, LOAD(from + p * limit->summed + i));
    return sum;
}

static void sum_rest(const perf_limit *limit, const char *from, char *to, size_t i)
{
    const float *parts = (const float *)(const void *)from;
    for (; i < limit->summed; i++) {
        float sum = 0;
        for (size_t p = 0; p < limit->parts; p++)
            sum += parts[p * limit->summed + i];
        for (size_t w = 0; w < limit->written; w++)
            place(limit, from, to, w)[i] = sum;
    }
}

static void copy(const perf_limit *limit, const char *from, char *to)
{
    memcpy(to, from, limit->copied);
}

static void plainly(const perf_limit *limit, const char *from, char *to)
{
    size_t i = 0;
    if (!limit->parts) {
        copy(limit, from, to);
        return;
    }
    for (; i + WIDTH <= limit->summed; i += WIDTH) {
        lane sum = sum_at(limit, (const float *)(const void *)from, i);
        for (size_t w = 0; w < limit->written; w++)
            STORE(place(limit, from, to, w) + i, sum);
    }
    sum_rest(limit, from, to, i);
}

#if defined(__x86_64__)
static bool can_stream(const perf_limit *limit, const char *from, char *to)
{
    bool aligned = limit->written < 2 || limit->summed % WIDTH == 0;
    return aligned && (uintptr_t)(limit->parts ? (char *)place(limit, from, to, 0) : to) % sizeof(lane) == 0;
}

/* Eight pages in turn, 256 bytes of each: the processor reads ahead in each for itself. Where lane @p k of them is. */
static size_t lane_at(size_t k, size_t lanes)
{
    const size_t run = 256 / sizeof(lane), page = 4096 / sizeof(lane), pages = 8;
    size_t begin = k / (page * pages) * (page * pages), number = (k - begin) / run;
    if (lanes - begin < page * pages)
        return k;
    return begin + number % pages * page + number / pages * run + k % run;
}

static void copy_past(const perf_limit *limit, const char *from, char *to)
{
    size_t lanes = limit->copied / sizeof(lane), whole = lanes * sizeof(lane);
    for (size_t k = 0; k < lanes; k++) {
        size_t i = lane_at(k, lanes) * sizeof(lane);
        STREAM((float *)(void *)(to + i), LOAD((const float *)(const void *)(from + i)));
    }
    memcpy(to + whole, from + whole, limit->copied - whole);
}

static void past_caches(const perf_limit *limit, const char *from, char *to)
{
    size_t lanes = limit->summed / WIDTH;
    if (!can_stream(limit, from, to)) {
        plainly(limit, from, to);
        return;
    }
    if (!limit->parts)
        copy_past(limit, from, to);
    for (size_t k = 0; limit->parts && k < lanes; k++) {
        size_t i = lane_at(k, lanes) * WIDTH;
        lane sum = sum_at(limit, (const float *)(const void *)from, i);
        for (size_t w = 0; w < limit->written; w++)
            STREAM(place(limit, from, to, w) + i, sum);
    }
    _mm_sfence();
    if (limit->parts)
        sum_rest(limit, from, to, lanes * WIDTH);
}

static void by_instruction(const perf_limit *limit, const char *from, char *to)
{
    size_t bytes = limit->copied;
    if (limit->parts) {
        plainly(limit, from, to);
        return;
    }
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#else
#define past_caches    NULL
#define by_instruction NULL
#endif

const perf_limit_ways JOIN(perf_limit_ways_, WAYS) = {{plainly, past_caches, by_instruction}};
