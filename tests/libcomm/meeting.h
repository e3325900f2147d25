/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the rendezvous: ranks in processes of their own that only meet, and places to meet at. */
#ifndef WEFT_TESTS_LIBCOMM_MEETING_H
#define WEFT_TESTS_LIBCOMM_MEETING_H
#include "bootstrap/endpoint.h"
#include "bootstrap/meeting.h"
#include "harness/ranks.h"

enum { KEY = 77, DEADLINE_MS = 30000, MEETERS_MAX = 32 };

/* What a rank is told and what becomes of it. */
typedef struct meeter {
    const char *address;
    uint64_t key;
    int rank, size;
    const int *world_ranks;
    uint32_t timeout_ms;
    unsigned late_ms;
    void (*before)(void);                 /* may be NULL */
    void (*body)(weft__meeting *meeting); /* once all have met; may be NULL */
} meeter;

/* In shared memory: how it ended. */
typedef struct outcome {
    weft_result result;
    char text[512];
    char warned[4096]; /* all warnings */
    uint64_t took_ms;
} outcome;

typedef struct meeting_run {
    int count;
    rank_group group;
    outcome *outcomes;
} meeting_run;

/* @p size ranks, all alike. */
void meeters_make(meeter *meeters, int size, const char *address);
meeting_run meeters_start(const meeter *meeters, int count);
void meeters_wait(meeting_run *run);
/* All have @p result; the message of each holds @p says, if given. */
void meeters_expect(const meeting_run *run, weft_result result, const char *says);
/* Start, wait and expect. */
void meeters_run(const meeter *meeters, int count, weft_result result, const char *says);

/* A port that nobody listens at, and that the kernel gives to nobody as long as this process lives: it keeps a socket
 * bound there that does not listen, beside which whoever allows the reuse of addresses can. */
int reserve_port(void);
/* Several places to meet, of all kinds that there are here; each call makes another. NULL behind the last, after a
 * note why it is left out if there is no IPv6. */
const char *place(size_t kind);
bool has_ipv6(void);
/* Connect to where rank 0 listens, however late it does. */
int connect_to(const char *address);

/* Give every rank the numbers of all. */
void exchange_numbers(weft__meeting *meeting);

#endif
