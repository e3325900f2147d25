/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several machines, for tests. */
#include "harness/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <weft/backend.h>

#define MACHINES   4
#define SLOTS      8192
#define MOST_BYTES 64

/* ------------------------------------------------------------------------------------------- the wire */

/* One rank's end of one comm. */
typedef struct slot {
    _Atomic uint64_t arrived; /* at this operation */
    unsigned char in[2][MOST_BYTES];
} slot;

typedef struct wire {
    _Atomic int stage, counter;
    _Atomic int used;
    int bells[MACHINE_RANKS];
    slot slots[SLOTS];
} wire;
static wire *the_wire;

typedef struct wire_comm {
    struct wire_world *world;
    struct wire_comm *next;
    weft_backend_comm is;
    int *slots;
    weft_op *first, **end;
} wire_comm;

typedef struct wire_world {
    int bell;
    wire_comm *comms;
} wire_world;

static weft_result wire_query(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question;
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_ORDERED;
    facts->score = WEFT_SCORE_WIRE;
    facts->card_bytes = sizeof(int);
    return WEFT_OK;
}

static weft_result wire_open(weft_world *world, void **state_out)
{
    wire_world *w = calloc(1, sizeof *w);
    w->bell = the_wire->bells[weft_world_rank(world)];
    *state_out = w;
    return WEFT_OK;
}

static void wire_close(void *state)
{
    CHECK(((wire_world *)state)->comms == NULL);
    free(state);
}

static weft_result wire_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    wire_comm *c = calloc(1, sizeof *c);
    c->world = state;
    c->is = *comm;
    c->end = &c->first;
    int mine = atomic_fetch_add(&the_wire->used, 1);
    CHECK(mine < SLOTS);
    memcpy(card, &mine, sizeof mine);
    c->next = c->world->comms;
    c->world->comms = c;
    *comm_out = c;
    return WEFT_OK;
}

static weft_result wire_connect(void *comm, const unsigned char *cards)
{
    wire_comm *c = comm;
    c->slots = calloc((size_t)c->is.count, sizeof *c->slots);
    memcpy(c->slots, cards, (size_t)c->is.count * sizeof *c->slots);
    return WEFT_OK;
}

static void wire_abort(void *comm, weft_result result, const char *text)
{
    (void)text;
    wire_comm *c = comm;
    while (c->first) {
        weft_op *op = c->first;
        c->first = op->next;
        weft_backend_done(op, result);
    }
    c->end = &c->first;
}

static void wire_destroy(void *comm)
{
    wire_comm *c = comm;
    for (wire_comm **link = &c->world->comms; *link; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    free(c->slots);
    free(c);
}

static size_t in_bytes(const weft_op *op)
{
    size_t bytes = op->what.kind == WEFT_BARRIER ? 0 : op->what.count * weft_dtype_bytes(op->what.dtype);
    CHECK(op->what.kind == WEFT_BARRIER || (op->what.kind == WEFT_ALL_GATHER && bytes <= MOST_BYTES));
    return bytes;
}

static void arrive(wire_comm *c, const weft_op *op)
{
    slot *mine = &the_wire->slots[c->slots[c->is.rank]];
    if (in_bytes(op))
        memcpy(mine->in[op->number % 2], op->what.send, in_bytes(op));
    atomic_store(&mine->arrived, op->number);
    for (int i = 0; i < c->is.count; i++)
        CHECK(write(the_wire->bells[c->is.ranks[i]], &(uint64_t){1}, 8) == 8);
}

static weft_result wire_start(void *comm, weft_op *op)
{
    wire_comm *c = comm;
    op->next = NULL;
    *c->end = op;
    c->end = &op->next;
    if (c->first == op)
        arrive(c, op);
    return WEFT_OK;
}

static bool has_all(const wire_comm *c, const weft_op *op)
{
    for (int i = 0; i < c->is.count; i++)
        if (atomic_load(&the_wire->slots[c->slots[i]].arrived) < op->number)
            return false;
    return true;
}

static bool move_along(wire_comm *c)
{
    weft_op *op = c->first;
    if (!op || !has_all(c, op))
        return false;
    size_t bytes = in_bytes(op);
    for (int i = 0; i < c->is.count; i++)
        if (bytes)
            memcpy((char *)op->what.recv + (size_t)i * bytes, the_wire->slots[c->slots[i]].in[op->number % 2], bytes);
    c->first = op->next;
    if (!c->first)
        c->end = &c->first;
    else
        arrive(c, c->first);
    weft_backend_done(op, WEFT_OK);
    return true;
}

static unsigned wire_progress(void *state, uint64_t slice_ticks)
{
    (void)slice_ticks;
    wire_world *w = state;
    unsigned answer = 0;
    for (wire_comm *c = w->comms; c; c = c->next) {
        answer |= move_along(c) ? WEFT_PROGRESS_MOVED : 0;
        answer |= c->first ? WEFT_PROGRESS_ATTENTION : 0;
    }
    return answer;
}

static int wire_fd(void *state)
{
    return ((wire_world *)state)->bell;
}

static weft_result wire_arm(void *state)
{
    wire_world *w = state;
    uint64_t rings;
    ssize_t n = read(w->bell, &rings, sizeof rings);
    CHECK(n > 0 || errno == EAGAIN);
    return n > 0 ? WEFT_AGAIN : WEFT_OK; /* who rings after this is seen by poll() */
}

static void lay_wire(int ranks)
{
    static bool known;
    the_wire = mmap(NULL, sizeof *the_wire, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(the_wire != MAP_FAILED);
    for (int r = 0; r < ranks; r++) {
        the_wire->bells[r] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        CHECK(the_wire->bells[r] >= 0);
    }
    if (!known)
        CHECK_OK(weft_backend_register(&(weft_backend){.abi_major = WEFT_BACKEND_ABI,
                                                       .size = sizeof(weft_backend),
                                                       .name = "testwire",
                                                       .query = wire_query,
                                                       .open = wire_open,
                                                       .close = wire_close,
                                                       .comm_create = wire_create,
                                                       .comm_connect = wire_connect,
                                                       .comm_abort = wire_abort,
                                                       .comm_destroy = wire_destroy,
                                                       .start = wire_start,
                                                       .progress = wire_progress,
                                                       .fd = wire_fd,
                                                       .arm = wire_arm}));
    known = true;
}

/* ------------------------------------------------------------------------------------------- the machines */

static int own_namespace(void)
{
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* Namespaces for machines 1 ... @p most; fds[0] is where this process is, and stays. */
static void make_machines(int most, int *fds)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        test_skip("network namespaces are not permitted: %s", strerror(errno));
    fds[0] = own_namespace();
    for (int m = 1; m <= most; m++) {
        CHECK(unshare(CLONE_NEWNET) == 0);
        fds[m] = own_namespace();
    }
    CHECK(setns(fds[0], CLONE_NEWNET) == 0);
}

/* What every rank is told. */
typedef struct part {
    int ranks, namespaces[MACHINES];
    const int *machine_of;
    const weft_world_config *config;
    char rendezvous[64];
    rank_main run;
    void *argument;
} part;

static void run_on_machine(int rank, void *argument)
{
    const part *p = argument;
    CHECK(setns(p->namespaces[p->machine_of[rank]], CLONE_NEWNET) == 0);
    weft_world_config config = rank_config(p->config, rank, p->ranks, p->rendezvous);
    p->run(&config, p->argument);
}

rank_group machines_fork(int ranks, const int *machine_of, const weft_world_config *config, rank_main run,
                         void *argument)
{
    static int fds[MACHINES], machines, counter;
    int most = 0;
    for (int r = 0; r < ranks; r++)
        most = machine_of[r] > most ? machine_of[r] : most;
    CHECK(ranks <= MACHINE_RANKS && most < MACHINES);
    if (!machines)
        make_machines(MACHINES - 1, fds);
    machines = MACHINES;
    lay_wire(ranks);
    part p = {.ranks = ranks, .machine_of = machine_of, .config = config, .run = run, .argument = argument};
    memcpy(p.namespaces, fds, sizeof fds);
    snprintf(p.rendezvous, sizeof p.rendezvous, "unix:///tmp/weft-test-%d-%d", (int)getpid(), counter++);
    return ranks_fork(ranks, run_on_machine, &p);
}

typedef struct body_call {
    rank_body body;
    void *argument;
} body_call;

static void live(const weft_world_config *config, void *argument)
{
    const body_call *call = argument;
    rank_live(config, call->body, call->argument);
}

rank_group machines_start(int ranks, const int *machine_of, const weft_world_config *config, rank_body body,
                          void *argument)
{
    return machines_fork(ranks, machine_of, config, live, &(body_call){body, argument});
}

void machines_run(int ranks, const int *machine_of, const weft_world_config *config, rank_body body, void *argument)
{
    rank_group group = machines_start(ranks, machine_of, config, body, argument);
    ranks_expect_all(&group);
}

/* ------------------------------------------------------------------------------------------- step by step */

bool stage_has_come(int number)
{
    return atomic_load(&the_wire->stage) >= number;
}

void stage_wait(int number)
{
    while (!stage_has_come(number))
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

void stage_reach(int number)
{
    atomic_store(&the_wire->stage, number);
}

_Atomic int *stage_counter(void)
{
    return &the_wire->counter;
}
