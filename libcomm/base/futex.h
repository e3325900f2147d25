/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of this process. */
#ifndef WEFT_BASE_FUTEX_H
#define WEFT_BASE_FUTEX_H
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Until somebody wakes it, or the word is not @p value; false: until the limit. */
static inline bool weft__futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t limit_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000u), .tv_nsec = (long)(limit_ns % 1000000000u)};
    return syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0) == 0 || errno != ETIMEDOUT;
}

static inline void weft__futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

#endif
