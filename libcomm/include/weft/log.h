/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The log: where weft's messages go. They go to stderr unless the program takes them. */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

typedef enum weft_log_level {
    WEFT_LOG_ERROR = 0, /**< The first to see a failure says it, unless its caller did something wrong or may try again
                             (-1 to -19, E_BUSY, E_NOT_FOUND): then the result says it, and the log for debugging. */
    WEFT_LOG_WARN = 1,  /**< Goes on, but not as one would wish. */
    WEFT_LOG_INFO = 2,  /**< What was chosen. */
    WEFT_LOG_DEBUG = 3
} weft_log_level;

/** Receives one line without its newline. May be called from any thread, also from weft's own; must not call weft. */
typedef void (*weft_log_function)(void *cookie, weft_log_level level, const char *line);

/** Send messages up to @p level to @p function; NULL = stderr, as "weft LEVEL SECONDS HOST: line", with the seconds
 *  since weft was loaded and the host's name up to its first dot. @p cookie is borrowed until the next call.
 *  Before the first call the level is that of WEFT_LOG (warn). Threads: setup. Blocks: never. */
WEFT_API void weft_log_set(weft_log_level level, weft_log_function function, void *cookie);

WEFT_END_DECLS
#endif
