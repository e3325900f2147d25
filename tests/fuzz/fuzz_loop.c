/* SPDX-License-Identifier: Apache-2.0 */
/* What libFuzzer does, in short, for compilers that have none: every file of the folder, then mutations of them from a
 * seed, for some seconds.   usage: fuzz_loop FOLDER [SECONDS [SEED]]. An input that ends the program is in ./crash. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { FILES = 1024, BYTES = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    size_t size;
    uint8_t data[BYTES];
} input;

static input files[FILES];
static size_t file_count;
static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static void read_files(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && file_count < FILES;) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        files[file_count].size = fread(files[file_count].data, 1, BYTES, file);
        file_count++;
        fclose(file);
    }
    if (dir)
        closedir(dir);
}

/* Flip, set, insert, remove, repeat, or go on as another file does. */
static void mutate(input *in)
{
    size_t at = next(in->size + 1), rest = in->size - at, part = rest ? next(rest) + 1 : 0;
    const input *other = &files[next(file_count)];
    switch (next(6)) {
    case 0:
        in->data[at % BYTES] ^= (uint8_t)(1u << next(8));
        break;
    case 1:
        in->data[at % BYTES] = (uint8_t)next(256);
        break;
    case 2:
        if (in->size < BYTES) {
            memmove(in->data + at + 1, in->data + at, rest);
            in->data[at] = (uint8_t)next(256);
            in->size++;
        }
        break;
    case 3:
        memmove(in->data + at, in->data + at + part, rest - part);
        in->size -= part;
        break;
    case 4:
        if (in->size + part <= BYTES) {
            memmove(in->data + at + part, in->data + at, rest);
            in->size += part;
        }
        break;
    default:
        if (at < other->size) {
            memcpy(in->data + at, other->data + at, other->size - at);
            in->size = other->size;
        }
        break;
    }
}

static void keep(const input *in)
{
    FILE *file = fopen("crash", "wb");
    if (!file)
        return;
    (void)!fwrite(in->data, 1, in->size, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 5, seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc > 1)
        read_files(argv[1]);
    if (file_count == 0) {
        fprintf(stderr, "no inputs in '%s'\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    for (size_t i = 0; i < file_count; i++)
        (void)LLVMFuzzerTestOneInput(files[i].data, files[i].size);
    uint64_t tried = 0;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t end_ns = weft__now_ns() + seconds * 1000000000u; weft__now_ns() < end_ns; tried++) {
        input in = files[next(file_count)];
        for (uint64_t n = next(8) + 1; n > 0; n--)
            mutate(&in);
        if (argc > 4) /* to find an input again */
            keep(&in);
        (void)LLVMFuzzerTestOneInput(in.data, in.size);
    }
    fprintf(stderr, "%zu files and %llu mutations\n", file_count, (unsigned long long)tried);
    return 0;
}
