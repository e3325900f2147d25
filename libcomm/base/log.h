/* SPDX-License-Identifier: Apache-2.0 */
/* Writing to the log: off costs one load and compare. */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H
#include <stdatomic.h>
#include <weft/log.h>

extern _Atomic int weft__log_level;

void weft__log_always(weft_log_level level, const char *format, ...) WEFT_PRINTF(2, 3);

#define weft__log(level, ...)                                                             \
    do {                                                                                  \
        if ((int)(level) <= atomic_load_explicit(&weft__log_level, memory_order_relaxed)) \
            weft__log_always(level, __VA_ARGS__);                                         \
    } while (0)

/* A warning that is said once in a process; @p seen is a static flag of the place. */
#define weft__warn_once(seen, ...)                                    \
    do {                                                              \
        if (!atomic_exchange_explicit(seen, 1, memory_order_relaxed)) \
            weft__log(WEFT_LOG_WARN, __VA_ARGS__);                    \
    } while (0)

/* The rank that this thread's messages are prefixed with; -1 = none. */
void weft__log_rank(int rank);

#endif
