/* SPDX-License-Identifier: Apache-2.0 */
/* A room is POSIX shared memory under the name in the id, which goes when all have come. */
#include "nccl_meet.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "standin-nccl-"

enum { OLD_S = 3600 };

/* Of ranks that died, or never met: names older than anybody waits. */
static void forget_old_names(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    DIR *folder = atomic_flag_test_and_set(&done) ? NULL : opendir("/dev/shm");
    for (struct dirent *file; folder && (file = readdir(folder));) {
        struct stat facts;
        if (strncmp(file->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            fstatat(dirfd(folder), file->d_name, &facts, 0) == 0 && time(NULL) - facts.st_mtime > OLD_S)
            (void)unlinkat(dirfd(folder), file->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

void standin_room_name(ncclUniqueId *id)
{
    forget_old_names();
    unsigned char chance[16];
    char *at = id->internal;
    memset(id, 0, sizeof *id);
    if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        memset(chance, (int)getpid(), sizeof chance);
    at += sprintf(at, "/" PREFIX);
    for (size_t i = 0; i < sizeof chance; i++)
        at += sprintf(at, "%02x", chance[i]);
}

static size_t align(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

bool standin_room_enter(standin_room *room, const ncclUniqueId *id, int ranks)
{
    size_t n = (size_t)ranks, hall = align(sizeof *room->hall), seats = align(n * sizeof *room->seats);
    room->bytes = hall + seats + n * n * sizeof *room->boxes;
    int fd = shm_open(id->internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    unsigned char *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)room->bytes) == 0)
        memory = mmap(NULL, room->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return false;
    room->hall = (void *)memory;
    room->seats = (void *)(memory + hall);
    room->boxes = (void *)(memory + hall + seats);
    if (atomic_fetch_add(&room->hall->arrived, 1) + 1 == ranks)
        shm_unlink(id->internal); /* whoever dies now leaves nothing behind */
    return true;
}

bool standin_room_full(const standin_room *room, int ranks)
{
    return atomic_load(&room->hall->arrived) >= ranks;
}

bool standin_room_meets(const standin_room *room, standin_way way, int ranks)
{
    return atomic_load(&room->hall->joined[way]) >= ranks;
}

void standin_room_leave(standin_room *room)
{
    if (room->hall)
        munmap(room->hall, room->bytes);
    room->hall = NULL;
}
