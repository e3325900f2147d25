/* SPDX-License-Identifier: Apache-2.0 */
/* The trace from inside. */
#ifndef WEFT_LIBCOMM_TRACE_H
#define WEFT_LIBCOMM_TRACE_H
#include <stdbool.h>
#include <weft/trace.h>

typedef struct weft__trace weft__trace;
struct weft__work;
struct weft_comm;

/* Whose trace it is. */
typedef struct weft__trace_owner {
    int rank, size;
    const char *host, *machine;
    bool crowded;
} weft__trace_owner;

/* A ring of @p records (0 = 8192), in DIR/trace.<rank>.weft if @p folder is not NULL. */
weft_result weft__trace_open(const char *folder, const weft__trace_owner *owner, uint32_t records,
                             weft__trace **trace_out);
void weft__trace_close(weft__trace *trace);

/* Enter a comm that is about to have operations; makes room to count its messages if they are recorded. */
weft_result weft__trace_comm(weft__trace *trace, struct weft_comm *comm);

#define WEFT__NO_RECORD UINT64_MAX

/* Write what is known of a work when it starts, and all of it when it is finished; @p came: when the caller came to
 * wait. A work that has none yet (WEFT__NO_RECORD) gets its record then. */
void weft__trace_start(weft__trace *trace, struct weft__work *work);
/* A caller is going to wait for a work that was run: should it never end, its record tells. */
void weft__trace_pending(weft__trace *trace, struct weft__work *work);
void weft__trace_finish(weft__trace *trace, const struct weft__work *work, uint64_t came);

#endif
