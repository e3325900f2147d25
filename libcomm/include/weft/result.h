/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Results: how a call says what happened. Zero is done, positive is not yet, negative has failed. */
#ifndef WEFT_RESULT_H
#define WEFT_RESULT_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

typedef enum weft_result {
    WEFT_OK = 0,      /**< Done. */
    WEFT_PENDING = 1, /**< Under way: ask again. */
    WEFT_AGAIN = 2,   /**< Nothing was taken: call again after progress. */

    /* The call is wrong; nothing has changed. */
    WEFT_E_INVALID = -1,     /**< An argument makes no sense. */
    WEFT_E_RANGE = -2,       /**< A rank, index, channel or count is outside what exists. */
    WEFT_E_STATE = -3,       /**< Not possible in the present state. */
    WEFT_E_TWICE = -4,       /**< Done already: a work finished twice, a gradient marked twice. */
    WEFT_E_UNSUPPORTED = -5, /**< The backend or device cannot do this. */
    WEFT_E_FORKED = -6,      /**< The world belongs to the parent of this process. */
    WEFT_E_CAPTURE = -7,     /**< Not possible while a stream is being captured. */

    /* Something this process needs is missing. */
    WEFT_E_NO_MEMORY = -20, /**< Memory ran out. */
    WEFT_E_SYSTEM = -21,    /**< The operating system refused; the message has its words. */
    WEFT_E_NO_DEVICE = -22, /**< No such device. */
    WEFT_E_NOT_FOUND = -23, /**< No such file, module, name. */
    WEFT_E_BUSY = -24,      /**< All of a fixed number are in use. */

    /* Something is wrong with peers; the comm is lost. */
    WEFT_E_PEER_LOST = -40, /**< A rank has ended, or it, or its host, has ended or refused the way to it. */
    WEFT_E_MISMATCH = -41,  /**< Ranks asked for different things. */
    WEFT_E_TIMEOUT = -42,   /**< A deadline passed, or nothing is heard of a rank any more; the message names it. */
    WEFT_E_ABORTED = -43,   /**< Somebody called weft_comm_abort(), or gave a comm up with operations in flight. */
    WEFT_E_STUCK = -44,     /**< A library below, or a rank that writes into this one's memory, did not come back. */

    WEFT_E_BUG = -60 /**< weft is wrong; please report it with the message. */
} weft_result;

/** The name of a result, such as "E_TIMEOUT". Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_result_string(weft_result result);

/** What the last failed call on this thread had to say: one line that names the thing. Never NULL; empty if nothing
 *  has failed. Borrowed: valid until the next failing call on this thread. Threads: any. Blocks: never. */
WEFT_API const char *weft_last_error(void);

WEFT_END_DECLS
#endif
