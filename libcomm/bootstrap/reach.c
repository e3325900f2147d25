/* SPDX-License-Identifier: Apache-2.0 */
/* How every rank but 0 joins the meeting: it looks for rank 0 at every place where that may be, until it is let in, and
 * hears from it whether all are well. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/folder.h"
#include "bootstrap/hello.h"
#include "bootstrap/iface.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/resolve.h"

#define ATTEMPTS       64
#define PAUSE_FIRST_NS 1000000ull
#define PAUSE_LAST_NS  128000000ull
#define PATIENCE_FIRST 1000000000ull /* for an answer at one place, if there are others */
#define PATIENCE_LAST  10000000000ull

void weft__rendezvous_sleep(uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                   .tv_nsec = (long)(until_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* ------------------------------------------------------------------------------------------- one attempt */

/* Say hello, and hear the welcome of rank 0. */
static weft_result introduce(const weft__rendezvous *z, int fd, uint64_t until_ns, weft__attempt *a)
{
    const weft__hello hello = weft__hello_make(z->key, z->meeting.rank, z->meeting.size);
    const unsigned char coming = WEFT__HELLO_COMING;
    weft__welcome welcome;
    weft__io io = weft__socket_send(fd, &hello, sizeof hello, until_ns);
    if (io == WEFT__IO_DONE)
        io = weft__socket_receive(fd, &welcome, sizeof welcome, until_ns);
    a->why = io == WEFT__IO_LATE ? "somebody listens there, but does not answer"
                                 : "somebody listens there, but does not answer as this job does";
    a->answered = true;
    if (io != WEFT__IO_DONE || weft__welcome_judge(&welcome, sizeof welcome, z->key) != WEFT__HEARD_ALL)
        return WEFT_AGAIN;
    if (welcome.protocol != WEFT__HELLO_PROTOCOL)
        return weft__fail(WEFT_E_MISMATCH, "rank %d speaks protocol %d, rank 0 protocol %u: different versions of weft",
                          weft__meeting_name(&z->meeting, z->meeting.rank), WEFT__HELLO_PROTOCOL, welcome.protocol);
    a->why = "rank 0 has ended";
    return weft__socket_send(fd, &coming, 1, until_ns) == WEFT__IO_DONE ? WEFT_OK : WEFT_AGAIN;
}

static bool is_hopeless(int error)
{
    static const int hopeless[] = {EACCES, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOTDIR, ENAMETOOLONG, EPROTOTYPE};
    for (size_t i = 0; i < sizeof hopeless / sizeof *hopeless; i++)
        if (error == hopeless[i])
            return true;
    return false;
}

weft_result weft__rendezvous_knock(const weft__rendezvous *z, const weft__endpoint *from, uint64_t until_ns,
                                   weft__attempt *a, int *fd_out)
{
    char text[WEFT__ENDPOINT_TEXT];
    a->why = NULL;
    a->answered = false;
    int fd = weft__endpoint_connect(&a->to, from, until_ns, &a->local);
    a->error = errno;
    if (fd < 0)
        return is_hopeless(errno) ? weft__fail_errno("cannot reach rank 0 at %s", weft__endpoint_text(&a->to, text))
                                  : WEFT_AGAIN;
    weft_result result = WEFT_OK;
    if (weft__endpoint_is_unix(fd) && !weft__endpoint_same_user(fd))
        result =
            weft__fail(WEFT_E_MISMATCH, "somebody else's process listens at %s", weft__endpoint_text(&a->to, text));
    weft__endpoint_tune(fd);
    if (result == WEFT_OK)
        result = introduce(z, fd, until_ns, a);
    if (result == WEFT_OK)
        *fd_out = fd;
    else
        close(fd);
    return result;
}

weft_result weft__rendezvous_verdict(weft__rendezvous *z)
{
    weft__verdict v;
    uint64_t end_ns = z->meeting.deadline_ns + WEFT__VERDICT_WAIT_NS;
    int root = weft__meeting_name(&z->meeting, 0);
    switch (weft__socket_receive(z->links[0], &v, sizeof v, end_ns)) {
    case WEFT__IO_DONE:
        v.text[sizeof v.text - 1] = 0;
        return weft__verdict_result(&v);
    case WEFT__IO_CLOSED:
        return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met", root);
    case WEFT__IO_LATE:
        return weft__fail(WEFT_E_TIMEOUT, "rank %d does not answer", root);
    case WEFT__IO_FAILED:
        break;
    }
    return weft__fail_errno("cannot hear rank %d", root);
}

/* ------------------------------------------------------------------------------------------- all places */

typedef struct search {
    weft__rendezvous *z;
    weft__attempt attempts[ATTEMPTS];
    int count;
    const char *why; /* there is no place to try */
    weft__iface ifaces[WEFT__IFACES_MAX];
    int iface_count;
    uint64_t patience_ns;
} search;

static void add_place(search *s, const weft__endpoint *to)
{
    if (s->count < ATTEMPTS)
        s->attempts[s->count++] = (weft__attempt){.to = *to};
}

/* What the names lead to now; a name may not be known yet when the ranks start. */
static void add_hosts(search *s)
{
    const weft__address *a = &s->z->address;
    weft__endpoint found[ATTEMPTS / WEFT__ADDRESS_PORTS * 2];
    int room = (int)(sizeof found / sizeof *found), count = 0;
    for (int h = 0; h < a->hosts; h++)
        count += weft__resolve(a->host[h], s->z->meeting.deadline_ns, found + count, room - count, &s->why);
    for (int p = 0; p < a->ports; p++)
        for (int i = 0; i < count; i++) {
            weft__endpoint_set_port(&found[i], a->port[p]);
            add_place(s, &found[i]);
        }
}

static void add_published(search *s)
{
    weft__endpoint found[WEFT__FOLDER_ENDPOINTS];
    int count = weft__folder_read(s->z->address.path, s->z->key, found, &s->why);
    for (int i = 0; i < count; i++)
        add_place(s, &found[i]);
}

static weft_result find_places(search *s)
{
    weft__endpoint where;
    s->count = 0;
    switch (s->z->address.kind) {
    case WEFT__ADDRESS_UNIX:
        WEFT_TRY(weft__endpoint_unix(s->z->address.path, &where));
        add_place(s, &where);
        break;
    case WEFT__ADDRESS_TCP:
        add_hosts(s);
        break;
    case WEFT__ADDRESS_FOLDER:
        add_published(s);
        break;
    }
    return WEFT_OK;
}

/* The address to leave by, if WEFT_IFACE says so: of the family of @p to. NULL: it has none. */
static const weft__endpoint *leave_by(const search *s, const weft__endpoint *to)
{
    for (int i = 0; i < s->iface_count; i++)
        if (s->ifaces[i].address.where.ss_family == to->where.ss_family)
            return &s->ifaces[i].address;
    return NULL;
}

static weft_result try_place(search *s, weft__attempt *a)
{
    weft__rendezvous *z = s->z;
    const weft__endpoint *from = leave_by(s, &a->to);
    if (s->iface_count && !from) {
        a->why = "WEFT_IFACE names no interface with an address of its kind";
        return WEFT_AGAIN;
    }
    return weft__rendezvous_knock(z, from, weft__rendezvous_until(z, s->patience_ns), a, &z->links[0]);
}

/* "10.0.0.1:4000 (from eth0, 10.0.0.7: Connection refused), ..." */
static void list_attempts(const search *s, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < s->count && used < bytes - 1; i++) {
        const weft__attempt *a = &s->attempts[i];
        char to[WEFT__ENDPOINT_TEXT], from[WEFT__ENDPOINT_TEXT + IF_NAMESIZE + 16] = "", iface[IF_NAMESIZE];
        char local[WEFT__ENDPOINT_TEXT];
        if (a->local.length) {
            weft__iface_name(&a->local, iface);
            snprintf(from, sizeof from, "from %s%s%s: ", iface, iface[0] ? ", " : "",
                     weft__endpoint_text(&a->local, local));
        }
        int n = snprintf(text + used, bytes - used, "%s%s (%s%s)", i ? ", " : "", weft__endpoint_text(&a->to, to), from,
                         a->why ? a->why : strerror(a->error));
        used += n > 0 ? (size_t)n : 0;
    }
}

static weft_result fail_missing(const search *s)
{
    char places[400];
    int root = weft__meeting_name(&s->z->meeting, 0);
    if (s->count == 0)
        return weft__fail(WEFT_E_TIMEOUT, "rank %d is missing: nobody listens at %s: %s", root, s->z->text, s->why);
    list_attempts(s, places, sizeof places);
    bool taken = false;
    for (int i = 0; i < s->count; i++)
        taken |= s->attempts[i].answered;
    return weft__fail(WEFT_E_TIMEOUT, "rank %d is missing: %s %s", root,
                      taken ? "it does not listen at" : "nobody listens at", places);
}

static weft_result pass(search *s)
{
    weft_result result = find_places(s);
    if (result == WEFT_OK)
        result = WEFT_AGAIN;
    for (int i = 0; i < s->count && result == WEFT_AGAIN; i++)
        result = try_place(s, &s->attempts[i]);
    return result;
}

weft_result weft__rendezvous_reach(weft__rendezvous *z)
{
    search s = {.z = z, .why = "", .patience_ns = PATIENCE_FIRST};
    if (z->address.iface[0])
        WEFT_TRY(weft__iface_find(z->address.iface, s.ifaces, &s.iface_count));
    uint64_t name_at_ns = weft__now_ns() + WEFT__NAME_EVERY_NS, pause_ns = PAUSE_FIRST_NS;
    weft_result result;
    while ((result = pass(&s)) == WEFT_AGAIN) {
        uint64_t now = weft__now_ns();
        if (now >= name_at_ns) {
            weft__log(WEFT_LOG_WARN, "waiting for rank %d at %s", weft__meeting_name(&z->meeting, 0), z->text);
            name_at_ns = now + WEFT__NAME_EVERY_NS;
        }
        if (now + pause_ns >= z->meeting.deadline_ns)
            return fail_missing(&s);
        weft__rendezvous_sleep(now + pause_ns);
        pause_ns = pause_ns < PAUSE_LAST_NS ? pause_ns * 2 : PAUSE_LAST_NS;
        s.patience_ns = s.patience_ns < PATIENCE_LAST ? s.patience_ns * 2 : PATIENCE_LAST;
    }
    return result < 0 ? result : weft__rendezvous_verdict(z);
}
