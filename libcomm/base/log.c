/* SPDX-License-Identifier: Apache-2.0 */
/* One callback for all messages; stderr until the program takes it. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"

static void to_stderr(void *cookie, weft_log_level level, const char *line);

/* Not yet set: the first message asks WEFT_LOG. */
#define LEVEL_UNSET 99

_Atomic int weft__log_level = LEVEL_UNSET;

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static weft_log_function sink_function = to_stderr;
static void *sink_cookie;
static _Thread_local int thread_rank = -1;

/* Which lines of several hosts belong together. */
static uint64_t loaded_ns;
static char host[64];

__attribute__((constructor)) static void note_start(void)
{
    loaded_ns = weft__now_ns();
    if (gethostname(host, sizeof host - 1) != 0 || !*host)
        snprintf(host, sizeof host, "?");
    host[strcspn(host, ".")] = 0;
}

static void to_stderr(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char text[720];
    double seconds = (double)(weft__now_ns() - loaded_ns) * 1e-9;
    int n = snprintf(text, sizeof text, "weft %s %.3f %s: %s\n", names[level], seconds, host, line);
    if (n > (int)sizeof text - 1) {
        n = (int)sizeof text - 1;
        text[n - 1] = '\n';
    }
    /* One write, so that lines of several ranks do not mix; nobody is left to tell if it fails. */
    ssize_t written = write(STDERR_FILENO, text, (size_t)n);
    (void)written;
}

void weft__log_rank(int rank)
{
    thread_rank = rank;
}

void weft_log_set(weft_log_level level, weft_log_function function, void *cookie)
{
    pthread_mutex_lock(&sink_lock);
    sink_function = function ? function : to_stderr;
    sink_cookie = cookie;
    pthread_mutex_unlock(&sink_lock);
    atomic_store(&weft__log_level, (int)level);
}

/* Does the message itself begin with "rank 3", no other number? */
static bool begins_with(const char *line, const char *rank)
{
    size_t bytes = strlen(rank);
    return strncmp(line, rank, bytes) == 0 && !(line[bytes] >= '0' && line[bytes] <= '9');
}

/* The message, behind the rank of this thread unless it names that first. */
static void write_line(char *line, size_t bytes, const char *format, va_list arguments)
{
    char rank[24] = "";
    if (thread_rank >= 0)
        snprintf(rank, sizeof rank, "rank %d", thread_rank);
    int used = *rank ? snprintf(line, bytes, "%s: ", rank) : 0;
    vsnprintf(line + used, bytes - (size_t)used, format, arguments);
    if (used && begins_with(line + used, rank))
        memmove(line, line + used, strlen(line + used) + 1);
}

void weft__log_always(weft_log_level level, const char *format, ...)
{
    int saved = errno;
    if (atomic_load(&weft__log_level) == LEVEL_UNSET) {
        int unset = LEVEL_UNSET;
        atomic_compare_exchange_strong(&weft__log_level, &unset, (int)weft__env_log_level());
    }
    if ((int)level <= atomic_load(&weft__log_level)) {
        char line[576];
        va_list arguments;
        va_start(arguments, format);
        write_line(line, sizeof line, format, arguments);
        va_end(arguments);
        pthread_mutex_lock(&sink_lock);
        sink_function(sink_cookie, level, line);
        pthread_mutex_unlock(&sink_lock);
    }
    errno = saved;
}
