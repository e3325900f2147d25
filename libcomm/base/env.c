/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where weft looks at its own variables in the environment (what launchers say there is read by
 * bootstrap/launch.c). */
#include "base/env.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
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
    {{"WEFT_TCP_CONGESTION", "name", "the machine's", "how the backend tcp avoids congestion: cubic, reno, bbr"},
     TEXT,
     FIELD(tcp_congestion)},
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
    bool is_number = end != text && !*end;
    if (is_number && *value > INT_MAX) /* or strtol() could not tell it */
        return weft__fail(WEFT_E_INVALID, "%s is '%s', more than %d", name, text, INT_MAX);
    if (errno || !is_number || *value < lowest)
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

/* ------------------------------------------------------------------------------------------- what nobody reads */

#define PREFIX     "WEFT_"
#define OF_TESTS   "WEFT_TEST_"
#define NAME_BYTES 48 /* longer ones are no mistyped ones */
#define NEAR       3  /* so many letters for a mistake, in a name that is meant to be another */

static int least(int a, int b, int c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* How many letters are added, left out or changed between two names of less than NAME_BYTES. */
static int mistakes(const char *a, const char *b)
{
    int row[NAME_BYTES], columns = (int)strlen(b);
    for (int k = 0; k <= columns; k++)
        row[k] = k;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int k = 1; k <= columns; k++) {
            int above = row[k];
            row[k] = least(above + 1, row[k - 1] + 1, corner + (a[i - 1] != b[k - 1]));
            corner = above;
        }
    }
    return row[columns];
}

/* What the name may stand for; NULL: nothing of the table is near. Known: it is there. */
static const char *nearest_to(const char *name, bool *known)
{
    const char *nearest = NULL;
    size_t bytes = strlen(name);
    int fewest = (int)(bytes - strlen(PREFIX)) / NEAR + 1;
    for (size_t i = 0; i < sizeof table / sizeof *table && fewest > 0 && bytes < NAME_BYTES; i++) {
        int count = mistakes(name, table[i].shown.name);
        if (count < fewest)
            fewest = count, nearest = table[i].shown.name;
    }
    *known = fewest == 0;
    return nearest;
}

bool weft__env_unknown(size_t *next, weft__env_unread *unread_out)
{
    for (char **all = environ; all && all[*next];) {
        const char *text = all[(*next)++], *value = strchr(text, '=');
        bool known = true;
        if (!value || strncmp(text, PREFIX, strlen(PREFIX)) != 0 || strncmp(text, OF_TESTS, strlen(OF_TESTS)) == 0)
            continue;
        size_t bytes = (size_t)(value - text);
        bytes = bytes < sizeof unread_out->name ? bytes : sizeof unread_out->name - 1;
        memcpy(unread_out->name, text, bytes);
        unread_out->name[bytes] = 0;
        unread_out->value = value + 1;
        unread_out->nearest = nearest_to(unread_out->name, &known);
        if (!known)
            return true;
    }
    return false;
}

void weft__env_warn(void)
{
    static atomic_int said;
    weft__env_unread unread;
    if (atomic_exchange(&said, 1))
        return;
    for (size_t next = 0; weft__env_unknown(&next, &unread);)
        weft__log(WEFT_LOG_WARN, "%s is set, but weft reads no such variable%s%s%s", unread.name,
                  unread.nearest ? ": did you mean " : "", unread.nearest ? unread.nearest : "",
                  unread.nearest ? "?" : "");
}

weft_log_level weft__env_log_level(void)
{
    const char *text = getenv("WEFT_LOG");
    int level = text ? level_index(text) : -1;
    return level >= 0 ? (weft_log_level)level : WEFT_LOG_WARN;
}
