/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's loops share. The *_host.c files are compiled once for every instruction set, WEFT__SET naming it:
 * plain loops which the compiler turns into vectors. */
#ifndef WEFT_DEVICE_VECTOR_HOST_H
#define WEFT_DEVICE_VECTOR_HOST_H
#include "base/dtype.h"
#include "device/vector.h"

#define WEFT__JOIN_WORDS(a, b) a##_##b
#define WEFT__JOIN(a, b)       WEFT__JOIN_WORDS(a, b)

/* For loops that are written once: arguments that are constants at each call make each call a loop of its own. */
#define WEFT__INLINE static inline __attribute__((always_inline))

/* The iterations of the loop below do not depend on each other: its arrays are either the same or apart. */
#if defined(__clang__)
#define WEFT__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT__INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements that are worked on at a time where fp32 values lie between source and result: they stay in the cache. */
enum { WEFT__BLOCK = 1024 };

WEFT__INLINE size_t weft__block(size_t count, size_t begin)
{
    return count - begin < WEFT__BLOCK ? count - begin : WEFT__BLOCK;
}

WEFT__INLINE const void *weft__at(const void *array, size_t index, weft_dtype dtype)
{
    return (const char *)array + index * weft__dtype_bytes(dtype);
}

/* For functions of floating types only: false, after a message, for any other. */
bool weft__vector_takes(const char *what, weft_dtype dtype);

extern const weft__vector weft__vector_baseline, weft__vector_avx2, weft__vector_avx512;

#if defined(WEFT__SET)
#define weft__widen           WEFT__JOIN(weft__widen, WEFT__SET)
#define weft__narrow          WEFT__JOIN(weft__narrow, WEFT__SET)
#define weft__cast            WEFT__JOIN(weft__cast, WEFT__SET)
#define weft__reduce          WEFT__JOIN(weft__reduce, WEFT__SET)
#define weft__copy_past       WEFT__JOIN(weft__copy_past, WEFT__SET)
#define weft__reduce_past     WEFT__JOIN(weft__reduce_past, WEFT__SET)
#define weft__sum_of_squares  WEFT__JOIN(weft__sum_of_squares, WEFT__SET)
#define weft__first_nonfinite WEFT__JOIN(weft__first_nonfinite, WEFT__SET)

/* A floating type to fp32, and back: a cast with one end fixed. */
void weft__widen(float *dst, const void *src, weft_dtype from, size_t count);
void weft__narrow(void *dst, weft_dtype to, const float *src, size_t count);
/* Members of the table. */
void weft__cast(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count);
void weft__reduce(void *dst, const void *const *sources, int source_count, size_t count, weft_dtype dtype,
                  weft_reduction reduction, int divisor);
void weft__copy_past(void *dst, const void *src, size_t bytes);
void weft__reduce_past(void *const *dsts, int dst_count, const void **sources, int source_count, size_t count,
                       weft_dtype dtype, weft_reduction reduction, int divisor);
weft__double2 weft__sum_of_squares(const void *src, size_t count, weft_dtype dtype);
size_t weft__first_nonfinite(const void *src, size_t count, weft_dtype dtype);
#endif

#endif
