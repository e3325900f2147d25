/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes of anybody to everything in bootstrap/ that reads what others wrote. The first byte chooses the reader.
 * With clang this is a libFuzzer target; else fuzz_loop.c calls it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/address.h"
#include "bootstrap/folder.h"
#include "bootstrap/guests.h"
#include "bootstrap/iface.h"
#include "bootstrap/slurm.h"
#include "weft/log.h"

#define KEY 0x4d4d4d4d4d4d4d4dull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        abort();
}

static void quiet(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

static void read_address(const char *text, size_t size)
{
    weft__address a;
    (void)size;
    if (weft__address_parse("fuzz", text, &a) != WEFT_OK)
        return;
    demand(a.kind != WEFT__ADDRESS_TCP || (a.hosts > 0 && a.ports > 0 && a.host[0][0] && a.port[0]));
    demand(a.kind == WEFT__ADDRESS_TCP || a.path[0] == '/' || a.path[0] == '@');
}

static void read_folder(const char *text, size_t size)
{
    weft__endpoint endpoints[WEFT__FOLDER_ENDPOINTS];
    char line[WEFT__ENDPOINT_TEXT];
    (void)size;
    int count = weft__folder_parse(text, KEY, endpoints);
    demand(count >= 0 && count <= WEFT__FOLDER_ENDPOINTS);
    for (int i = 0; i < count; i++)
        demand(weft__endpoint_port(&endpoints[i]) > 0 && strlen(weft__endpoint_text(&endpoints[i], line)) > 3);
}

static void read_hosts(const char *text, size_t size)
{
    char host[64];
    (void)size;
    if (weft__slurm_first_host(text, host, sizeof host))
        demand(host[0] && strlen(host) < sizeof host && !strpbrk(host, "[],"));
}

static void read_tasks(const char *text, size_t size)
{
    (void)size;
    for (int node = -1; node < 5; node++)
        demand(weft__slurm_tasks(text, node) != 0);
}

/* "list\0name". */
static void read_iface(const char *text, size_t size)
{
    size_t bytes = strlen(text);
    (void)weft__iface_allowed(text, bytes < size ? text + bytes + 1 : "eth0");
}

static void read_hello(const char *text, size_t size)
{
    for (size_t n = 0; n <= size; n++) {
        weft__heard heard = weft__hello_judge(text, n, KEY);
        demand(heard != WEFT__HEARD_ALL || n >= sizeof(weft__hello));
        heard = weft__welcome_judge(text, n, KEY);
        demand(heard != WEFT__HEARD_ALL || n >= sizeof(weft__welcome));
    }
}

/* A guest that says this, in pieces as long as its bytes tell; it comes in by its whole hello only. */
static void hear_guest(const char *text, size_t size)
{
    int pair[2];
    weft__guests guests;
    weft__guest in;
    weft_result result = WEFT_PENDING;
    if (size > 4096 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return;
    demand(weft__guests_open(&guests, KEY, 1) == WEFT_OK);
    guests.all[guests.count++] = (weft__guest){.fd = pair[0], .since_ns = 1};
    for (size_t at = 0; at < size && result == WEFT_PENDING;) {
        size_t piece = 1 + (uint8_t)text[at] % 40;
        piece = piece < size - at ? piece : size - at;
        demand(send(pair[1], text + at, piece, MSG_NOSIGNAL) == (ssize_t)piece);
        at += piece;
        result = weft__guests_hear(&guests, 0, &in);
        demand(result == WEFT_PENDING || guests.count == 0);
    }
    if (result == WEFT_OK) {
        demand(size >= sizeof in.hello && memcmp(&in.hello, text, sizeof in.hello) == 0 && in.hello.key == KEY);
        close(in.fd);
    }
    weft__guests_close(&guests);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t size) = {
        read_address, read_folder, read_hosts, read_tasks, read_iface, read_hello, hear_guest,
    };
    if (size == 0)
        return 0;
    weft_log_set(WEFT_LOG_ERROR, quiet, NULL);
    char *text = malloc(size); /* exactly: a sanitizer sees one byte too many */
    demand(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    readers[data[0] % (sizeof readers / sizeof *readers)](text, size - 1);
    free(text);
    return 0;
}
