/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that run: who has ended and how, who must end and by when. */
#ifndef WEFT_BENCH_RUN_RANKS_H
#define WEFT_BENCH_RUN_RANKS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/keeper.h"
#include "run/output.h"

#define RANKS_NEVER INT64_MAX

/* How often to look for orphans that the launcher does not hear of. */
#define RANKS_LOOK_S 0.02

/* A process that SIGKILL does not end in this time hangs in the kernel. It is left behind. */
#define RANKS_UNKILLABLE_S 5

typedef enum member_state { MEMBER_RUNS, MEMBER_TOLD, MEMBER_KILLED, MEMBER_GONE } member_state; /* TOLD: SIGTERM */

/* A rank is a process group: the process that was started, and what that started. */
typedef struct member {
    pid_t group;
    member_state state;
    bool ended;       /* the process that was started; others of its group may still run */
    int status;       /* of wait(), once it has ended */
    int64_t until_ns; /* of MEMBER_TOLD and MEMBER_KILLED */
} member;

typedef struct ranks {
    member *members;
    int count, live;     /* live: not MEMBER_GONE */
    bool threads;        /* the one process is all ranks */
    bool on_hosts;       /* orphans are their hosts', so nobody tells when the last of a group has ended */
    double grace_s;      /* from SIGTERM to SIGKILL */
    double last_words_s; /* from the first failure to SIGTERM for the others */
    int code;            /* of the first failure; 0 = none */
    int64_t end_ns;      /* those that still run are told to end then */
    output *output;      /* for messages */
    keeper *keeper;
} ranks;

/* False: no memory. */
bool ranks_open(ranks *r, int processes);
void ranks_free(ranks *r);
void ranks_add(ranks *r, pid_t group);
void ranks_signal(const ranks *r, int number);
/* A failure that is no rank's: the ranks are told to end at once. */
void ranks_fail(ranks *r, int code, int64_t now_ns);
/* A child has ended. */
void ranks_reap(ranks *r, int64_t now_ns);
/* Do what is due, and say when the next thing will be. */
void ranks_keep_deadlines(ranks *r, int64_t now_ns);
int64_t ranks_next_deadline(const ranks *r, int64_t now_ns);

#endif
