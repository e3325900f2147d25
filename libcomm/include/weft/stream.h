/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Streams: where the caller's computing is ordered. On the host that is the calling thread itself; a GPU has
 *         streams of its own (weft/cuda.h makes one of CUDA's). A stream is a small value: copy it freely. */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

/** Where memory lies, and whose order a stream is. */
typedef enum weft_device {
    WEFT_DEVICE_HOST = 0,
    WEFT_DEVICE_CUDA = 1 /**< The GPU of this rank: weft_world_config.device. */
} weft_device;

typedef struct weft_stream {
    void *handle;  /**< What the kind says; NULL for the host. */
    uint64_t kind; /**< A weft_device. */
} weft_stream;

/** The calling thread: "after" means now, and "before" means before the call returns. */
#ifdef __cplusplus
#define WEFT_STREAM_HOST (weft_stream{nullptr, 0})
#else
#define WEFT_STREAM_HOST ((weft_stream){NULL, 0})
#endif

WEFT_END_DECLS
#endif
