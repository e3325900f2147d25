/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits is jumped away from, by setjmp and longjmp. Stacks are kept for the next grid of the same thread of the
 * host; below each lie pages that nobody may touch. */
#undef _FORTIFY_SOURCE /* its longjmp takes a jump to another stack for an error */
#include "grid_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "half.h"
#include "queue.h"
#include "shadow.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

static const char *const place_names[] = {
    "running", "a barrier of the block", "a barrier of the warp", "a shuffle", "ldmatrix", "mma", "the end"};

static _Thread_local grid *current; /* the last one, or the one that runs */
static _Thread_local struct {
    const char *name;
    const standin_range *ranges;
    size_t range_count;
} kernel;

void standin_grid_kernel(const char *name, const standin_range *ranges, size_t count)
{
    kernel.name = name;
    kernel.ranges = ranges;
    kernel.range_count = count;
}

/* ---- switching ---- */

/* A sanitizer wants to know which stack is the next; @p to NULL: the host's own. */
static void announce(grid *g, const fiber *to)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(NULL, to ? to->stack : g->home_stack, to ? STACK_BYTES : g->home_stack_bytes);
#else
    (void)g, (void)to;
#endif
}

static void arrived(grid *g)
{
#ifdef __SANITIZE_ADDRESS__
    bool first = g->from_home;
    __sanitizer_finish_switch_fiber(NULL, first ? &g->home_stack : NULL, first ? &g->home_stack_bytes : NULL);
#endif
    g->from_home = false;
}

static _Noreturn void go_home(grid *g)
{
    g->running = NULL;
    announce(g, NULL);
    _longjmp(g->home, 1);
}

static _Noreturn void go_to(grid *g, fiber *f)
{
    announce(g, f);
    g->running = f;
    if (!f->begun) {
        f->begun = true;
        setcontext(&f->start);
    }
    _longjmp(f->at, 1);
}

/* One of those that can run, by lot. */
static fiber *draw(grid *g)
{
    g->random = g->random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    unsigned i = (unsigned)((g->random >> 33) * g->ready_count >> 31);
    unsigned number = g->ready[i];
    g->ready[i] = g->ready[--g->ready_count];
    return g->fibers[number];
}

static void report(grid *g, const char *text)
{
    g->failed = true;
    standin_lock();
    standin_report(text);
    standin_unlock();
}

static _Noreturn void fail(grid *g, const char *what)
{
    char text[300];
    snprintf(text, sizeof text, "kernel '%s', block %u, thread %u: %s", g->name, g->block,
             g->running ? g->running->number : 0, what);
    report(g, text);
    go_home(g);
}

static _Noreturn void fail_stuck(grid *g)
{
    char text[160];
    unsigned i = 0;
    while (g->fibers[i]->place == ENDED)
        i++;
    const fiber *f = g->fibers[i];
    snprintf(text, sizeof text, "thread %u waits for ever at %s", f->number, place_names[f->place]);
    fail(g, text);
}

static void yield(grid *g)
{
    fiber *self = g->running;
    if (!g->ready_count)
        fail_stuck(g);
    fiber *next = draw(g);
    if (_setjmp(self->at) == 0)
        go_to(g, next);
    arrived(g);
}

static void wake(grid *g, fiber *f)
{
    f->place = READY;
    if (f != g->running)
        g->ready[g->ready_count++] = f->number;
}

/* The life of a fiber: one thread of each block. */
static void live(void)
{
    grid *g = current;
    arrived(g);
    for (;;) {
        fiber *self = g->running;
        g->thread(g->argument, g->block, g->shared);
        if (self->copy_count)
            fail(g, "it ends while copies are under way");
        self->place = ENDED;
        g->left--;
        if (!g->left) {
            if (_setjmp(self->at) == 0)
                go_home(g);
            arrived(g);
        } else {
            yield(g);
        }
    }
}

/* ---- what a warp does together ---- */

static void shuffle(fiber *const *lanes)
{
    for (unsigned i = 0; i < LANES; i++)
        *lanes[i]->answer = lanes[i ^ (lanes[i]->mask % LANES)]->value;
}

static uint16_t element(fiber *const *lanes, unsigned matrix, unsigned row, unsigned column)
{
    uint16_t word;
    memcpy(&word, (const char *)lanes[matrix * 8 + row]->row + column * sizeof word, sizeof word);
    return word;
}

static void load_matrices(fiber *const *lanes)
{
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned matrix = 0; matrix < 4; matrix++) {
            unsigned row = i / 4, column = i % 4 * 2;
            bool t = lanes[i]->transposed;
            uint32_t low = t ? element(lanes, matrix, column, row) : element(lanes, matrix, row, column);
            uint32_t high = t ? element(lanes, matrix, column + 1, row) : element(lanes, matrix, row, column + 1);
            lanes[i]->fragment[matrix] = low | high << 16;
        }
}

static void split(uint32_t pair, float *low, float *high)
{
    *low = standin_from_bf16((uint16_t)pair);
    *high = standin_from_bf16((uint16_t)(pair >> 16));
}

/* Lane i has rows i / 4 and i / 4 + 8 of a and c, columns from i % 4 * 2 of c and b's rows alike, and column i / 4 of
 * b. */
static void multiply_add(fiber *const *lanes)
{
    float a[16][16], b[16][8], c[16][8];
    for (unsigned i = 0; i < LANES; i++) {
        unsigned outer = i / 4, inner = i % 4 * 2;
        for (unsigned k = 0; k < 4; k++)
            split(lanes[i]->a[k], &a[outer + k % 2 * 8][inner + k / 2 * 8],
                  &a[outer + k % 2 * 8][inner + k / 2 * 8 + 1]);
        for (unsigned k = 0; k < 2; k++)
            split(lanes[i]->b[k], &b[inner + k * 8][outer], &b[inner + k * 8 + 1][outer]);
        for (unsigned k = 0; k < 4; k++)
            c[outer + k / 2 * 8][inner + k % 2] = lanes[i]->c[k];
    }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++)
                c[row][column] += a[row][k] * b[k][column];
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned k = 0; k < 4; k++)
            lanes[i]->c[k] = c[i / 4 + k / 2 * 8][i % 4 * 2 + k % 2];
}

static void do_together(grid *g, fiber *const *lanes)
{
    for (unsigned i = 1; i < LANES; i++)
        if (lanes[i]->place != lanes[0]->place || lanes[i]->transposed != lanes[0]->transposed)
            fail(g, "lanes of its warp meet at different operations");
    if (lanes[0]->place == AT_SHUFFLE)
        shuffle(lanes);
    else if (lanes[0]->place == AT_MATRICES)
        load_matrices(lanes);
    else if (lanes[0]->place == AT_PRODUCT)
        multiply_add(lanes);
}

/* The last lane does it for all. */
static void meet(place where)
{
    grid *g = current;
    fiber *self = g->running;
    unsigned warp = self->number / LANES;
    fiber *const *lanes = &g->fibers[warp * LANES];
    self->place = where;
    if (++g->at_warp[warp] < LANES) {
        yield(g);
        return;
    }
    g->at_warp[warp] = 0;
    do_together(g, lanes);
    for (unsigned i = 0; i < LANES; i++)
        wake(g, lanes[i]);
}

/* ---- what threads call ---- */

unsigned standin_thread(void)
{
    return current->running->number;
}

void standin_sync_block(void)
{
    grid *g = current;
    g->running->place = AT_BLOCK;
    if (++g->at_block < g->threads) {
        yield(g);
        return;
    }
    g->at_block = 0;
    for (unsigned i = 0; i < g->threads; i++)
        wake(g, g->fibers[i]);
}

void standin_sync_warp(void)
{
    meet(AT_WARP);
}

float standin_shuffle_xor(float value, unsigned mask)
{
    float answer = 0;
    fiber *self = current->running;
    self->value = value;
    self->mask = mask;
    self->answer = &answer;
    meet(AT_SHUFFLE);
    return answer;
}

static bool is_shared(const grid *g, const void *memory, size_t bytes)
{
    size_t begin = (size_t)((const unsigned char *)memory - g->shared);
    return begin <= g->shared_bytes && bytes <= g->shared_bytes - begin && begin % bytes == 0;
}

void standin_load_matrices(uint32_t fragment[4], const void *row, bool transposed)
{
    fiber *self = current->running;
    if (!is_shared(current, row, 16))
        fail(current, "ldmatrix of what is no row in shared memory");
    self->row = row;
    self->fragment = fragment;
    self->transposed = transposed;
    meet(AT_MATRICES);
}

void standin_multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    fiber *self = current->running;
    self->c = c;
    memcpy(self->a, a, sizeof self->a);
    self->b[0] = b0, self->b[1] = b1;
    meet(AT_PRODUCT);
}

void standin_global(const void *global, size_t bytes, bool writes)
{
    const grid *g = current;
    for (size_t i = 0; i < g->range_count; i++) {
        size_t begin = (size_t)((const char *)global - (const char *)g->ranges[i].memory);
        if (begin <= g->ranges[i].bytes && bytes <= g->ranges[i].bytes - begin && (g->ranges[i].writes || !writes) &&
            (uintptr_t)global % bytes == 0)
            return;
    }
    fail(current, writes ? "it writes memory that the kernel does not name"
                         : "it reads memory that the kernel does not "
                           "name");
}

void standin_copy(void *shared, const void *global, size_t bytes, bool zero)
{
    fiber *self = current->running;
    if (!is_shared(current, shared, bytes))
        fail(current, "a copy to what is no shared memory");
    if (!zero)
        standin_global(global, bytes, false);
    memset(shared, 0xff, bytes);
    if (self->copy_count == self->copy_room) {
        self->copy_room = self->copy_room ? 2 * self->copy_room : 64;
        self->copies = realloc(self->copies, self->copy_room * sizeof *self->copies);
        if (!self->copies)
            abort();
    }
    self->copies[self->copy_count++] = (copy){shared, global, bytes, zero, self->committed};
}

void standin_copy_commit(void)
{
    current->running->committed++;
}

void standin_copy_wait(unsigned pending)
{
    fiber *self = current->running;
    size_t kept = 0;
    for (size_t i = 0; i < self->copy_count; i++) {
        const copy *c = &self->copies[i];
        if (c->group + pending >= self->committed)
            self->copies[kept++] = *c;
        else if (c->zero)
            memset(c->to, 0, c->bytes);
        else
            memcpy(c->to, c->from, c->bytes);
    }
    self->copy_count = kept;
}

/* ---- a grid ---- */

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static fiber *fiber_of(grid *g, unsigned number)
{
    fiber *f = g->fibers[number];
    if (f)
        return f;
    f = g->fibers[number] = need(calloc(1, sizeof *f));
    f->number = number;
    unsigned char *memory = mmap(NULL, STACK_GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, STACK_GUARD_BYTES, PROT_NONE) != 0)
        abort();
    f->stack = memory + STACK_GUARD_BYTES;
    return f;
}

/* With the thread of the host that it belongs to. */
static void free_grid(void *memory)
{
    grid *g = memory;
    for (unsigned i = 0; i < THREADS_MOST && g->fibers[i]; i++) {
        munmap(g->fibers[i]->stack - STACK_GUARD_BYTES, STACK_GUARD_BYTES + STACK_BYTES);
        free(g->fibers[i]->copies);
        free(g->fibers[i]);
    }
    free(g);
}

static pthread_key_t grid_key;

static void make_grid_key(void)
{
    if (pthread_key_create(&grid_key, free_grid) != 0)
        abort();
}

static grid *grid_of_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!current) {
        pthread_once(&once, make_grid_key);
        current = need(calloc(1, sizeof *current));
        pthread_setspecific(grid_key, current);
    }
    return current;
}

static void open_fiber(fiber *f)
{
    if (f->begun)
        return;
    getcontext(&f->start);
    f->start.uc_stack.ss_sp = f->stack;
    f->start.uc_stack.ss_size = STACK_BYTES;
    f->start.uc_link = NULL;
    makecontext(&f->start, live, 0);
}

/* Threads that something has gone wrong among begin anew. */
static void give_up(grid *g)
{
    g->at_block = 0;
    memset(g->at_warp, 0, sizeof g->at_warp);
    for (unsigned i = 0; i < g->threads; i++) {
        g->fibers[i]->begun = false;
        g->fibers[i]->copy_count = 0;
    }
}

static bool is_guard_whole(const unsigned char *guard)
{
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != 0xa5)
            return false;
    return true;
}

static void run_block(grid *g)
{
    memset(g->shared, 0xff, g->shared_bytes);
    g->left = g->threads;
    g->ready_count = 0;
    for (unsigned i = 0; i < g->threads; i++)
        wake(g, g->fibers[i]);
    g->from_home = true;
    if (_setjmp(g->home) == 0)
        go_to(g, draw(g));
    arrived(g);
    if (g->failed || (is_guard_whole(g->shared - GUARD_BYTES) && is_guard_whole(g->shared + g->shared_bytes)))
        return;
    char text[160];
    snprintf(text, sizeof text, "kernel '%s', block %u: it writes beyond its shared memory", g->name, g->block);
    report(g, text);
}

void standin_grid(unsigned blocks, unsigned threads, size_t shared_bytes,
                  void (*thread)(const void *argument, unsigned block, void *shared), const void *argument)
{
    grid *g = grid_of_thread();
    size_t room = (shared_bytes + 2 * GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    unsigned char *memory = need(aligned_alloc(ALIGNMENT, room));
    memset(memory, 0xa5, room);
    g->name = kernel.name;
    g->ranges = kernel.ranges;
    g->range_count = kernel.range_count;
    g->thread = thread;
    g->argument = argument;
    g->threads = threads;
    g->shared = memory + GUARD_BYTES;
    g->shared_bytes = shared_bytes;
    g->random = standin_seed();
    g->failed = false;
    for (unsigned i = 0; i < threads; i++)
        open_fiber(fiber_of(g, i));
    for (g->block = 0; g->block < blocks && !g->failed; g->block++)
        run_block(g);
    if (g->failed)
        give_up(g);
    free(memory);
}
