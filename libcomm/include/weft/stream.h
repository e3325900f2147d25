/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Streams: where the caller's computing is ordered. On the host that is the calling thread itself. Devices will
 *         have streams of other kinds; so far there is no device, and any other kind is E_UNSUPPORTED. A stream is a
 *         small value: copy it freely. */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

typedef struct weft_stream {
    void *handle;  /**< What the kind says; NULL for the host. */
    uint64_t kind; /**< 0 = the host. */
} weft_stream;

/** The calling thread: "after" means now, and "before" means before the call returns. */
#ifdef __cplusplus
#define WEFT_STREAM_HOST (weft_stream{nullptr, 0})
#else
#define WEFT_STREAM_HOST ((weft_stream){NULL, 0})
#endif

WEFT_END_DECLS
#endif
