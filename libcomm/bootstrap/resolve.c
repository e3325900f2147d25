/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up the addresses of a host by its name, until a deadline: on a thread, since a name server that does not
 * answer holds up getaddrinfo() for longer than anybody wants to wait. */
#include "bootstrap/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* Outlives the call if the answer does not come in time. */
typedef struct question {
    struct gaicb control;
    struct addrinfo hints;
    char host[256];
} question;

/* EAI_INPROGRESS at the deadline. */
static int await(question *q, uint64_t deadline_ns)
{
    const struct gaicb *list[] = {&q->control};
    for (;;) {
        int status = gai_error(&q->control);
        uint64_t now = weft__now_ns();
        if (status != EAI_INPROGRESS || now >= deadline_ns)
            return status;
        uint64_t left = deadline_ns - now;
        struct timespec wait = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
        (void)gai_suspend(list, 1, &wait); /* signals end it early */
    }
}

static int take_answer(const struct addrinfo *answer, weft__endpoint *found, int room)
{
    int count = 0;
    for (; answer && count < room; answer = answer->ai_next) {
        if (answer->ai_family != AF_INET && answer->ai_family != AF_INET6)
            continue;
        found[count] = (weft__endpoint){.length = answer->ai_addrlen};
        memcpy(&found[count++].where, answer->ai_addr, answer->ai_addrlen);
    }
    return count;
}

int weft__resolve(const char *host, uint64_t deadline_ns, weft__endpoint *found, int room, const char **why_out)
{
    if (room > 0 && weft__endpoint_numeric(host, 0, found))
        return 1;
    question *q = weft__alloc(sizeof *q);
    *why_out = "no memory";
    if (!q)
        return 0;
    snprintf(q->host, sizeof q->host, "%s", host);
    q->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM};
    q->control = (struct gaicb){.ar_name = q->host, .ar_request = &q->hints};
    struct gaicb *list[] = {&q->control};
    int status = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (status == 0)
        status = await(q, deadline_ns);
    if (status == EAI_INPROGRESS) {
        (void)gai_cancel(&q->control);
        status = gai_error(&q->control);
    }
    if (status == EAI_INPROGRESS) {
        *why_out = "the name server does not answer";
        return 0; /* the library holds on to the question */
    }
    int count = status == 0 ? take_answer(q->control.ar_result, found, room) : 0;
    *why_out = status == 0 ? "it has no address" : gai_strerror(status);
    if (status == 0 && q->control.ar_result)
        freeaddrinfo(q->control.ar_result);
    free(q);
    return count;
}
