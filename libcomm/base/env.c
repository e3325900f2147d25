/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where weft looks at its own variables in the environment (what launchers say there is read by
 * bootstrap/launch.c). */
#include "base/env.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/verdict.h"

enum kind { TEXT, NUMBER, MILLISECONDS, LEVEL };

typedef struct variable {
    weft__env_entry shown;
    enum kind kind;
    size_t field;
} variable;

#define FIELD(name) offsetof(weft__env, name)

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static const variable table[] = {
    {{"WEFT_RANK", "number", "the launcher's", "number of this rank, from 0"}, NUMBER, FIELD(rank)},
    {{"WEFT_SIZE", "number", "the launcher's, else 1", "number of ranks"}, NUMBER, FIELD(size)},
    {{"WEFT_LOCAL_RANK", "number", "the launcher's", "number of this rank on its host"}, NUMBER, FIELD(local_rank)},
    {{"WEFT_THREADS", "number", "0", "ranks that a program makes of threads in its one process"},
     NUMBER,
     FIELD(threads)},
    {{"WEFT_RENDEZVOUS", "address", "the launcher's",
      "where ranks meet: unix:///path, unix://@name, tcp://host:port or file:///folder"},
     TEXT,
     FIELD(rendezvous)},
    {{"WEFT_IFACE", "names", "any",
      "interfaces to meet and, with tcp, send through: prefixes, =whole names, or ^those to avoid"},
     TEXT,
     FIELD(iface)},
    {{"WEFT_BACKEND", "name", "chosen", "backend of comms that name none"}, TEXT, FIELD(backend)},
    {{"WEFT_MODULE_PATH", "folders", "none", "where modules are looked for first, separated by colons"},
     TEXT,
     FIELD(module_path)},
    {{"WEFT_HOST_ID", "text", "found out", "ranks with equal text share a host, for placement and plans"},
     TEXT,
     FIELD(host_id)},
    {{"WEFT_DEVICE", "name", "by local rank", "the GPU of this rank: cuda:N"}, TEXT, FIELD(device)},
    {{"WEFT_TRACE", "folder", "none", "write trace files there"}, TEXT, FIELD(trace)},
    {{"WEFT_TIMEOUT_MS", "ms", "600000", "deadline of every operation"}, MILLISECONDS, FIELD(timeout_ms)},
    {{"WEFT_RENDEZVOUS_TIMEOUT_MS", "ms", "120000", "deadline of meeting and of making comms"},
     MILLISECONDS,
     FIELD(rendezvous_timeout_ms)},
    {{"WEFT_HEAP_MIB", "MiB", "the machine's memory", "address space for memory that ranks of a host share"},
     NUMBER,
     FIELD(heap_mib)},
    {{"WEFT_CHECK", "number", "0",
      "1: compare all operations before they begin, where else only the first 32 of a comm are"},
     NUMBER,
     FIELD(check)},
    {{"WEFT_MOST_CTAS", "number", "NCCL's", "what operations of a comm may take of a GPU at most, in CTAs"},
     NUMBER,
     FIELD(most_ctas)},
    {{"WEFT_LEAST_CTAS", "number", "NCCL's", "and what they take at least"}, NUMBER, FIELD(least_ctas)},
    {{"WEFT_LOG", "error|warn|info|debug", "warn", "what is said on stderr"}, LEVEL, 0},
};

const weft__env_entry *weft__env_table(size_t index)
{
    return index < sizeof table / sizeof *table ? &table[index].shown : NULL;
}

static weft_result read_number(const char *name, const char *text, long lowest, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (errno || end == text || *end || *value < lowest || *value > INT_MAX)
        return weft__fail(WEFT_E_INVALID, "%s is '%s', not a whole number of %ld or more", name, text, lowest);
    return WEFT_OK;
}

static int level_index(const char *text)
{
    for (int i = 0; i < (int)(sizeof level_names / sizeof *level_names); i++)
        if (strcmp(text, level_names[i]) == 0)
            return i;
    return -1;
}

static weft_result read_variable(const variable *v, const char *text, weft__env *env)
{
    char *field = (char *)env + v->field;
    long number;
    switch (v->kind) {
    case TEXT:
        memcpy(field, &text, sizeof text);
        break;
    case NUMBER:
        WEFT_TRY(read_number(v->shown.name, text, 0, &number));
        memcpy(field, &(int){(int)number}, sizeof(int));
        break;
    case MILLISECONDS:
        WEFT_TRY(read_number(v->shown.name, text, 1, &number));
        memcpy(field, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
        break;
    case LEVEL:
        if (level_index(text) < 0)
            return weft__fail(WEFT_E_INVALID, "%s is '%s', not one of %s", v->shown.name, text, v->shown.type);
        break;
    }
    return WEFT_OK;
}

weft_result weft__env_read(weft__env *env)
{
    weft__verdict first = {0};
    *env = (weft__env){.rank = -1, .size = -1, .local_rank = -1};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *text = getenv(table[i].shown.name);
        if (text && *text)
            weft__verdict_add(&first, read_variable(&table[i], text, env));
    }
    return weft__verdict_result(&first);
}

weft_log_level weft__env_log_level(void)
{
    const char *text = getenv("WEFT_LOG");
    int level = text ? level_index(text) : -1;
    return level >= 0 ? (weft_log_level)level : WEFT_LOG_WARN;
}
