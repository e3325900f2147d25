/* SPDX-License-Identifier: Apache-2.0 */
/* Services: the calls of weft/backend.h by which any backend has weft keep an error, write to the log, say which ranks
 * are lost, compare what is asked, and sum. */
#include <stdarg.h>
#include <stdio.h>
#include <weft/backend.h>

#include "base/collectives.h"
#include "base/error.h"
#include "base/log.h"
#include "device/vector.h"
#include "world.h"

weft_result weft_backend_error(weft_result result, const char *format, ...)
{
    char text[sizeof(weft__last_error)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return weft__fail(result, "%s", text);
}

weft_result weft_backend_lost(const weft_world *world, int rank)
{
    int how = world->lost ? atomic_load(&world->lost[rank]) : 0;
    return !how ? WEFT_OK : how == WEFT__LOST_SILENT ? WEFT_E_TIMEOUT : WEFT_E_PEER_LOST;
}

void weft_backend_log(weft_log_level level, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if ((int)level > atomic_load_explicit(&weft__log_level, memory_order_relaxed))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weft__log(level, "%s", text);
}

weft_asked weft_backend_asked(const weft_collective *what)
{
    return weft__collective_asked(what);
}

void weft_backend_tell_asked(const weft_asked *asked, char *text, size_t text_bytes)
{
    weft__asked_describe(asked, text, text_bytes);
}

void weft_backend_tell_part(uint64_t tag, char *text, size_t text_bytes)
{
    weft_asked asked = weft__collective_marked(tag);
    weft__asked_describe(&asked, text, text_bytes);
}

void weft_backend_reduce(void *dst, const void *const *sources, int source_count, size_t count, weft_dtype dtype,
                         weft_reduction reduction)
{
    weft__vector_host()->reduce(dst, sources, source_count, count, dtype, reduction, source_count);
}
