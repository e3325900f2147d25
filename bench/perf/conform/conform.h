/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `weft perf conform` share: the run of one rank, its cases, and how each of them fared. */
#ifndef WEFT_BENCH_PERF_CONFORM_H
#define WEFT_BENCH_PERF_CONFORM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

int perf_conform(int argc, char **argv);

#define CONFORM_CHOSEN "chosen"
enum { CONFORM_RANKS_MOST = 64 };

typedef struct conform_settings {
    const char *backend; /* CONFORM_CHOSEN: what weft chooses for each comm */
    const char *only;    /* cases whose line holds this; NULL = all */
    const char *share;   /* "K/N": of those cases the K-th of each N */
    int part, parts;     /* K and N */
    bool full;
    int ranks;      /* most */
    int in;         /* what carries ranks */
    size_t largest; /* no counts above; 0 = all */
} conform_settings;

/* How a case fared on one rank. It travels to the others as bytes. */
typedef struct conform_verdict {
    enum { CONFORM_WELL, CONFORM_FAILED, CONFORM_WRONG } kind;
    char text[252];
} conform_verdict;

/* Memory that is kept from case to case. */
typedef struct conform_arena {
    unsigned char *memory;
    size_t bytes;
} conform_arena;

/* One rank's run. */
typedef struct conform {
    const conform_settings *settings;
    weft_world *world;
    const char *carried;        /* "threads", "processes" */
    weft_comm *control;         /* of all ranks, by whatever backend weft chooses: tells how each fared */
    weft_comm *comm;            /* the one under test; NULL on ranks that are no members */
    int comm_ranks;             /* its size; 0 = none is made */
    int comms_made;             /* for their names */
    bool collectives, messages; /* it carries them */
    bool ordered;               /* its sums depend on the inputs and the ranks alone */
    const int *hosts;           /* [world rank] */
    conform_arena arenas[2][2]; /* [from weft][send, recv] */
    unsigned met;               /* cases, of other parts too */
    unsigned cases, failed, wrong;
} conform;

/* Keep the first thing that went wrong. */
void conform_say(conform_verdict *verdict, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The call must have this result. False, and said so, if it has another one. */
bool conform_expect(conform_verdict *verdict, const char *call, weft_result result, weft_result wanted);
#define CONFORM_OK(verdict, call) conform_expect((verdict), #call, (call), WEFT_OK)

/* The work must end well; WEFT_WORK_NONE does. */
void conform_finish(weft_work work, conform_verdict *verdict);

/* A part of a case: what a member of its comm does. */
typedef void (*conform_body)(conform *c, const void *what, conform_verdict *verdict);
/* Run a case on a comm of @p ranks ranks, and tell all ranks of the world how it went. The line names the case. Other
 * than WEFT_OK: the comm cannot be made, or the ranks have lost each other. Collective over the world. */
weft_result conform_try(conform *c, int ranks, const char *line, conform_body body, const void *what);
/* The same on comms of @p least to all ranks, most of which only the full suite tries. */
weft_result conform_try_sizes(conform *c, int least, const char *line, conform_body body, const void *what);
/* Ranks of the comm that are summed before others are. */
int conform_group(const conform *c);
/* The next case makes its comm anew. */
void conform_drop(conform *c);
/* For the config of comms under test. */
const char *conform_backend(const conform *c);
/* A comm of the members of `c->comm`, beside it. */
weft_result conform_comm_beside(conform *c, weft_comm **comm_out);
/* At least so many bytes, from weft or from malloc(); NULL if there are not. */
unsigned char *conform_memory(conform *c, bool from_weft, int which, size_t bytes);

/* The suite, and its parts. Collective over the world. */
weft_result conform_walk(conform *c);
weft_result conform_collectives(conform *c); /* every collective: values */
weft_result conform_sums(conform *c);        /* sums worked out by hand */
weft_result conform_messages(conform *c);    /* p2p batches */
weft_result conform_orders(conform *c);      /* works and comms among each other */
weft_result conform_failures(conform *c);    /* mismatches, aborts */

#endif
