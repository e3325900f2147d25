/* SPDX-License-Identifier: Apache-2.0 */
/* Copying past the cache, by stores that do not fetch the lines they overwrite. */
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

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

#define LINE ((size_t)64)

void weft__copy_past(void *dst, const void *src, size_t bytes)
{
#if defined(WORD_BYTES)
    unsigned char *to = dst;
    const unsigned char *from = src;
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    if (bytes < head + LINE) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    size_t whole = head + (bytes - head) / LINE * LINE;
    for (size_t i = head; i < whole; i += LINE)
        for (size_t w = 0; w < LINE; w += WORD_BYTES)
            STREAM(to + i + w, LOAD(from + i + w));
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* before any flag that says it is there */
#else
    memcpy(dst, src, bytes);
#endif
}
