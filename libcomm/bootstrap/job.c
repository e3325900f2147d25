/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from the environment which job this is and where it meets. */
#include "bootstrap/job.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/slurm.h"

/* Candidates, should some be taken: above what services use, below what the kernel gives away by itself. */
#define PORTS      8
#define PORT_FIRST 20000
#define PORT_COUNT 12000

const char *weft__job_variable(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return (*environment)[n + 1] ? *environment + n + 1 : NULL;
    return NULL;
}

/* ------------------------------------------------------------------------------------------- which job */

uint64_t weft__job_hash_text(uint64_t hash, const char *text)
{
    return weft__hash(hash, text, strlen(text) + 1);
}

uint64_t weft__job_hash(uint64_t hash, char *const *environment, const char *name)
{
    const char *value = weft__job_variable(environment, name);
    return value ? weft__job_hash_text(weft__job_hash_text(hash, name), value) : hash;
}

/* A number that another process of the same id does not have: when it was started. */
static uint64_t hash_start_of(uint64_t hash, pid_t pid)
{
    char path[64], stat[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, stat, sizeof stat - 1) : -1;
    if (fd >= 0)
        close(fd);
    stat[n > 0 ? n : 0] = 0;
    char *at = strrchr(stat, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? weft__hash(hash, at, strcspn(at + 1, " ") + 1) : hash;
}

uint64_t weft__job_hash_proxy(uint64_t hash, char *const *environment)
{
    const char *text = weft__job_variable(environment, "PMI_FD");
    struct ucred peer;
    socklen_t length = sizeof peer;
    char *end;
    long fd = text ? strtol(text, &end, 10) : -1;
    if (fd < 0 || fd > INT_MAX || *end || !weft__endpoint_is_unix((int)fd) ||
        getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
        return hash;
    return hash_start_of(weft__hash(hash, &peer.pid, sizeof peer.pid), peer.pid);
}

/* ------------------------------------------------------------------------------------------- where rank 0 is */

bool weft__job_master_is_here(char *const *environment)
{
    const char *host = weft__job_variable(environment, "MASTER_ADDR");
    weft__endpoint address;
    return host && (strcmp(host, "localhost") == 0 ||
                    (weft__endpoint_numeric(host, 0, &address) && weft__endpoint_loopback(&address)));
}

static weft_result read_slurm_host(char *const *environment, const char *name, char *host, size_t room)
{
    const char *list = weft__job_variable(environment, name);
    if (!list)
        return WEFT_AGAIN;
    if (!weft__slurm_first_host(list, host, room))
        return weft__fail(WEFT_E_INVALID, "%s is '%.200s', no list of hosts", name, list);
    return WEFT_OK;
}

/* "541786112.0;tcp://10.0.0.5,172.17.0.1:45155;tcp6://…": where mpirun runs, and rank 0 unless it was sent away. */
static weft_result read_mpirun_host(char *const *environment, char *host, size_t room)
{
    const char *uri = weft__job_variable(environment, "OMPI_MCA_orte_hnp_uri");
    const char *tcp = uri ? strstr(uri, ";tcp://") : NULL;
    size_t bytes = tcp ? strcspn(tcp + 7, ":;") : 0;
    if (bytes == 0 || bytes >= room)
        return WEFT_AGAIN;
    memcpy(host, tcp + 7, bytes);
    host[bytes] = 0;
    return WEFT_OK;
}

static weft_result find_host(char *const *environment, bool step, char *host, size_t room)
{
    const char *master = weft__job_variable(environment, "MASTER_ADDR");
    if (master) {
        bool bare = strchr(master, ':') && master[0] != '[';
        if (snprintf(host, room, bare ? "[%s]" : "%s", master) >= (int)room)
            return weft__fail(WEFT_E_INVALID, "MASTER_ADDR is '%.100s...', longer than %zu bytes", master, room - 1);
        return WEFT_OK;
    }
    weft_result result = step ? read_slurm_host(environment, "SLURM_STEP_NODELIST", host, room) : WEFT_AGAIN;
    if (result == WEFT_AGAIN)
        result = read_slurm_host(environment, "SLURM_JOB_NODELIST", host, room);
    if (result == WEFT_AGAIN)
        result = read_mpirun_host(environment, host, room);
    return result;
}

/* ":20817,24500,...". */
static void list_ports(char *const *environment, uint64_t job, char *text, size_t room)
{
    const char *master_port = weft__job_variable(environment, "MASTER_PORT");
    int taken = master_port ? atoi(master_port) : 0;
    size_t used = 0;
    for (int i = 0; i < PORTS; i++) {
        job = weft__job_hash_text(job, "port");
        int port = PORT_FIRST + (int)(job % PORT_COUNT);
        port += port == taken;
        used += (size_t)snprintf(text + used, room - used, "%c%d", i ? ',' : ':', port);
    }
}

weft_result weft__job_address(char *const *environment, bool step, uint64_t job, char address[WEFT__ADDRESS_MAX])
{
    char host[300], ports[64];
    weft__address parsed;
    weft_result result = find_host(environment, step, host, sizeof host);
    if (result != WEFT_OK)
        return result;
    list_ports(environment, job, ports, sizeof ports);
    snprintf(address, WEFT__ADDRESS_MAX, "tcp://%s%s", host, ports);
    return weft__address_parse("the address that the launcher's variables give", address, &parsed);
}

/* ------------------------------------------------------------------------------------------- addresses of users */

weft_result weft__job_read_address(const char *from, const char *text, char address[WEFT__ADDRESS_MAX])
{
    static const char unix_scheme[] = "unix://";
    weft__address parsed;
    bool is_unix = strncmp(text, unix_scheme, sizeof unix_scheme - 1) == 0;
    const char *rest = is_unix ? text + sizeof unix_scheme - 1 : text;
    size_t longest = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    if (!is_unix && strncmp(text, "tcp://", 6) != 0 && strncmp(text, "file://", 7) != 0)
        return weft__fail(WEFT_E_INVALID,
                          "%s is '%s', none of unix:///path, unix://@name, tcp://host:port, file:///folder", from,
                          text);
    if (is_unix && ((*rest != '/' && *rest != '@') || !rest[1]))
        return weft__fail(WEFT_E_INVALID, "%s is '%s', neither unix:///path nor unix://@name", from, text);
    if (is_unix && strlen(rest) > longest)
        return weft__fail(WEFT_E_INVALID, "%s is '%s': more than %zu bytes behind unix://", from, text, longest);
    WEFT_TRY(weft__address_parse(from, rest, &parsed));
    snprintf(address, WEFT__ADDRESS_MAX, "%s", rest);
    return WEFT_OK;
}

weft_result weft__job_add_iface(const char *iface, char address[WEFT__ADDRESS_MAX])
{
    size_t bytes = strlen(address);
    if (!iface || bytes == 0 || address[0] == '/' || address[0] == '@' || strstr(address, "?iface="))
        return WEFT_OK;
    if (snprintf(address + bytes, WEFT__ADDRESS_MAX - bytes, "?iface=%s", iface) >= (int)(WEFT__ADDRESS_MAX - bytes))
        return weft__fail(WEFT_E_INVALID, "WEFT_IFACE is '%.100s...': there is no room for that much", iface);
    return WEFT_OK;
}

uint64_t weft__job_key(uint64_t job, const char *address)
{
    weft__address a;
    if (address[0] == '/' || address[0] == '@' || !address[0])
        return weft__job_hash_text(job, address);
    if (weft__address_parse("the place to meet", address, &a) != WEFT_OK)
        return job;
    /* Hosts may have different names for the same place. */
    return weft__hash(job, a.port, (size_t)a.ports * sizeof a.port[0]);
}
