/* SPDX-License-Identifier: Apache-2.0 */
/* Making, lengthening and mapping the memory that the ranks of a host share. A segment is a memfd: its whole
 * reservation is mapped once, on a huge-page boundary, and becomes usable as the owner lengthens the file. Lengthening
 * allocates the pages, so want of memory is an error here and never a bus error. */
#include "shared/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define SEGMENT_MAGIC  0x31304d6753746657ull
#define POPULATE_BYTES ((size_t)32 << 20) /* in one call: some milliseconds */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static size_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)1 << 30;
    return bytes > WEFT__HUGE_PAGE * 32 ? bytes : WEFT__HUGE_PAGE * 32;
}

/* Address space on a huge-page boundary, nothing behind it yet. */
static unsigned char *reserve_space(size_t bytes)
{
    size_t wanted = bytes + WEFT__HUGE_PAGE;
    unsigned char *space = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    size_t head = (WEFT__HUGE_PAGE - (uintptr_t)space % WEFT__HUGE_PAGE) % WEFT__HUGE_PAGE;
    if (head)
        munmap(space, head);
    if (WEFT__HUGE_PAGE - head)
        munmap(space + head + bytes, WEFT__HUGE_PAGE - head);
    return space + head;
}

static weft_result map_file(weft__segment *segment, size_t reserve)
{
    unsigned char *space = reserve_space(reserve);
    if (!space)
        return weft__fail_errno("no address space for a segment of %zu bytes (WEFT_HEAP_MIB makes it smaller)",
                                reserve);
    if (mmap(space, reserve, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, segment->fds.memory, 0) == MAP_FAILED) {
        weft_result result = weft__fail_errno("cannot map a segment of %zu bytes", reserve);
        munmap(space, reserve);
        return result;
    }
    madvise(space, reserve, MADV_DONTFORK); /* a child that touched it would disturb its parent's peers */
    segment->base = space;
    segment->reserved = reserve;
    segment->header = (weft__segment_header *)space;
    return WEFT_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(weft__segment_fds *fds)
{
    close_fd(&fds->memory);
    close_fd(&fds->bells[0]);
    close_fd(&fds->bells[1]);
    close_fd(&fds->process);
}

static weft_result open_fds(int rank, weft__segment_fds *fds)
{
    char name[32];
    snprintf(name, sizeof name, "weft-rank-%d", rank);
    *fds = (weft__segment_fds){-1, {-1, -1}, -1};
    fds->memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fds->memory < 0)
        return weft__fail_errno("cannot make shared memory");
    for (int i = 0; i < 2; i++) {
        fds->bells[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fds->bells[i] < 0)
            return weft__fail_errno("cannot make an eventfd");
    }
    fds->process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fds->process < 0)
        return weft__fail_errno("cannot open a pidfd");
    return WEFT_OK;
}

weft_result weft__segment_create(int rank, size_t reserve, weft__segment *segment)
{
    memset(segment, 0, sizeof *segment);
    size_t bytes = weft__round_up(reserve ? reserve : machine_bytes(), WEFT__HUGE_PAGE);
    if (bytes < 2 * WEFT__HUGE_PAGE)
        bytes = 2 * WEFT__HUGE_PAGE;
    weft_result result = open_fds(rank, &segment->fds);
    if (result == WEFT_OK)
        result = map_file(segment, bytes);
    if (result == WEFT_OK && fcntl(segment->fds.memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        result = weft__fail_errno("cannot seal shared memory");
    if (result == WEFT_OK)
        result = weft__segment_grow(segment, WEFT__HUGE_PAGE);
    if (result != WEFT_OK) {
        weft__segment_unmap(segment);
        return result;
    }
    segment->header->magic = SEGMENT_MAGIC;
    segment->header->rank = rank;
    return WEFT_OK;
}

void weft__segment_limit(weft__segment *segment, size_t bytes)
{
    size_t kept = weft__round_up(bytes, WEFT__HUGE_PAGE);
    if (kept >= segment->reserved)
        return;
    munmap(segment->base + kept, segment->reserved - kept);
    segment->reserved = kept;
}

void weft__segment_settle(weft__segment *segment)
{
    close_fd(&segment->fds.memory);
}

weft_result weft__segment_map(weft__segment_fds fds, size_t reserve, weft__segment *segment)
{
    memset(segment, 0, sizeof *segment);
    segment->fds = fds;
    weft_result result = map_file(segment, reserve);
    if (result == WEFT_OK && segment->header->magic != SEGMENT_MAGIC)
        result = weft__fail(WEFT_E_MISMATCH, "shared memory of another version of weft");
    if (result != WEFT_OK) {
        weft__segment_unmap(segment);
        return result;
    }
    while (weft__segment_populate(segment))
        ;
    return WEFT_OK;
}

void weft__segment_unmap(weft__segment *segment)
{
    if (segment->base)
        munmap(segment->base, segment->reserved);
    if (segment->base || segment->fds.memory || segment->fds.process)
        close_all(&segment->fds);
    memset(segment, 0, sizeof *segment);
}

static void populate(unsigned char *from, size_t bytes)
{
    if (madvise(from, bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += WEFT__PAGE) /* older kernels: touch without changing */
        atomic_fetch_add_explicit((_Atomic unsigned char *)(from + i), 0, memory_order_relaxed);
}

weft_result weft__segment_grow(weft__segment *segment, size_t bytes)
{
    size_t old = segment->populated_bytes;
    size_t wanted = weft__round_up(bytes, WEFT__HUGE_PAGE);
    if (wanted <= old)
        return WEFT_OK;
    if (wanted > segment->reserved || wanted < bytes)
        return weft__fail(WEFT_E_NO_MEMORY,
                          "the heap has %zu bytes and may have %zu; %zu are wanted (heap_bytes of the "
                          "world, WEFT_HEAP_MIB)",
                          old, segment->reserved, bytes);
    int failed;
    do {
        failed = fallocate(segment->fds.memory, 0, (off_t)old, (off_t)(wanted - old));
    } while (failed && errno == EINTR);
    if (failed)
        return weft__fail(WEFT_E_NO_MEMORY, "no shared memory for %zu more bytes (%zu are in use): %s", wanted - old,
                          old, strerror(errno));
    populate(segment->base + old, wanted - old);
    segment->populated_bytes = wanted;
    atomic_store(&segment->header->bytes, wanted);
    return WEFT_OK;
}

bool weft__segment_populate(weft__segment *segment)
{
    size_t bytes = atomic_load(&segment->header->bytes) - segment->populated_bytes;
    size_t piece = bytes < POPULATE_BYTES ? bytes : POPULATE_BYTES;
    if (piece)
        populate(segment->base + segment->populated_bytes, piece);
    segment->populated_bytes += piece;
    return piece < bytes;
}

void weft__segment_ring(const weft__segment *segment, uint32_t who)
{
    uint64_t one = 1;
    ssize_t written;
    do {
        written = write(segment->fds.bells[who - 1], &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

void weft__segment_hear(const weft__segment *segment, uint32_t who)
{
    uint64_t count;
    ssize_t got;
    do {
        got = read(segment->fds.bells[who - 1], &count, sizeof count);
    } while (got < 0 && errno == EINTR);
}
