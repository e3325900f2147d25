/* SPDX-License-Identifier: Apache-2.0 */
/** @file  What every public header needs: linkage, visibility and attributes. */
#ifndef WEFT_API_H
#define WEFT_API_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS   }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#if defined(__GNUC__)
#define WEFT_API          __attribute__((visibility("default")))
#define WEFT_NODISCARD    __attribute__((warn_unused_result))
#define WEFT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define WEFT_API
#define WEFT_NODISCARD
#define WEFT_PRINTF(f, a)
#endif

/* The initial value of a struct that begins with its own size: all else zero, which means default. */
#ifdef __cplusplus
#define WEFT_SIZED_INIT(type)        \
    ([] {                            \
        type value_{};               \
        value_.size = sizeof value_; \
        return value_;               \
    }())
#else
#define WEFT_SIZED_INIT(type) \
    {                         \
        .size = sizeof(type)  \
    }
#endif

/* The words of every contract, at the end of each comment in these headers:
 *   Threads: any | owner (one at a time for the object) | setup (one at a time for the world) | progress (weft's own).
 *   Blocks:  never | local (bounded, needs no other rank) | peers (until others come, or a deadline passes).
 *   Collective: every rank concerned must call, in the same order.
 *   Hot: no allocation, no lock, no log; one system call at most, to wake a sleeper.
 *   Ownership: borrowed (the caller keeps it; it must outlive what is named), copied, taken (it is weft's from here
 *   on), given (release it with the call that is named).
 *   Errors: the codes by name; any call may also return E_FORKED in a child of fork().
 *
 * A call that returns weft_result answers E_INVALID to NULL where it needs an object or a place for what it gives. One
 * that returns anything else, a question to an object, needs a valid one, unless its comment says what NULL gives; what
 * ends an object takes NULL. */

#endif
