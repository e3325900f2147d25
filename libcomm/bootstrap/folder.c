/* SPDX-License-Identifier: Apache-2.0 */
/* The file through which ranks of several hosts find rank 0. */
#include "bootstrap/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define TEXT_MAX 4096

static void file_path(const char *folder, uint64_t key, const char *suffix, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/weft-%016" PRIx64 "%s", folder, key, suffix);
}

static size_t write_text(uint64_t key, const weft__endpoint *endpoints, int count, char *text, size_t room)
{
    char one[WEFT__ENDPOINT_TEXT];
    size_t used = (size_t)snprintf(text, room, "weft rendezvous %016" PRIx64 "\n", key);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, room - used, "%s\n", weft__endpoint_text(&endpoints[i], one));
    return used + (size_t)snprintf(text + used, room - used, "end\n");
}

static bool write_file(const char *path, const char *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = write(fd, text + done, bytes - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    bool written = done == bytes && fsync(fd) == 0; /* other hosts read it */
    int saved = errno;
    close(fd);
    errno = saved;
    return written;
}

weft_result weft__folder_publish(const char *folder, uint64_t key, const weft__endpoint *endpoints, int count)
{
    char path[PATH_MAX], draft[PATH_MAX], text[TEXT_MAX], suffix[32];
    snprintf(suffix, sizeof suffix, ".%d", (int)getpid());
    file_path(folder, key, "", path);
    file_path(folder, key, suffix, draft);
    size_t bytes = write_text(key, endpoints, count, text, sizeof text);
    if (write_file(draft, text, bytes) && rename(draft, path) == 0)
        return WEFT_OK;
    weft_result result = weft__fail_errno("rank 0 cannot say in '%s' where it listens", folder);
    unlink(draft);
    return result;
}

/* A client of NFS believes for a while that a file is not there, until it looks into the folder. */
static void look_again(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    (void)readdir(dir);
    closedir(dir);
}

int weft__folder_read(const char *folder, uint64_t key, weft__endpoint endpoints[WEFT__FOLDER_ENDPOINTS],
                      const char **why_out)
{
    char path[PATH_MAX], text[TEXT_MAX];
    file_path(folder, key, "", path);
    look_again(folder);
    *why_out = "there is no file of this job";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t bytes = 0;
    for (ssize_t n; bytes<sizeof text - 1; bytes += n> 0 ? (size_t)n : 0) {
        n = read(fd, text + bytes, sizeof text - 1 - bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
    }
    close(fd);
    text[bytes] = 0;
    *why_out = "its file is not of this job";
    return weft__folder_parse(text, key, endpoints);
}

void weft__folder_remove(const char *folder, uint64_t key)
{
    char path[PATH_MAX];
    file_path(folder, key, "", path);
    unlink(path);
}

/* "10.0.0.1:4000" or "[fd00::2]:4000". */
static bool parse_endpoint(char *line, weft__endpoint *endpoint)
{
    char *colon = strrchr(line, ':'), *end, *host = line;
    if (!colon || colon == line || colon[1] < '1' || colon[1] > '9')
        return false;
    long port = strtol(colon + 1, &end, 10);
    if (*end || port > 65535)
        return false;
    *colon = 0;
    if (*host == '[' && colon[-1] == ']') {
        colon[-1] = 0;
        host++;
    }
    return weft__endpoint_numeric(host, (uint16_t)port, endpoint);
}

int weft__folder_parse(const char *text, uint64_t key, weft__endpoint endpoints[WEFT__FOLDER_ENDPOINTS])
{
    char start[64], line[WEFT__ENDPOINT_TEXT];
    int bytes = snprintf(start, sizeof start, "weft rendezvous %016" PRIx64 "\n", key), count = 0;
    if (strncmp(text, start, (size_t)bytes) != 0)
        return 0;
    for (text += bytes; strcmp(text, "end\n") != 0;) {
        size_t length = strcspn(text, "\n");
        if (text[length] != '\n' || length >= sizeof line || count == WEFT__FOLDER_ENDPOINTS)
            return 0;
        memcpy(line, text, length);
        line[length] = 0;
        if (!parse_endpoint(line, &endpoints[count++]))
            return 0;
        text += length + 1;
    }
    return count;
}
