/* SPDX-License-Identifier: Apache-2.0 */
/* UCX as one world uses it: a context and a worker of its own, configured by call, never through the environment. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fabric.h"
#include "ucx.h"

/* It fits into one segment of UCX's TCP transport (64 KiB, its own heads included), so that it is read at once and
 * handed to us where it lies. */
#define RECORD_BYTES ((size_t)1022 * 64)

/* ------------------------------------------------------------------------------------------- opening */

/* Without a transport that serves it the world goes on, and comms that want this backend are refused. */
static weft_result fail(ucs_status_t status, const char *what)
{
    const char *why = ucs_status_string(status);
    if (status == UCS_ERR_NO_MEMORY)
        return weft_backend_error(WEFT_E_NO_MEMORY, "ucx: cannot %s: %s", what, why);
    if (status == UCS_ERR_IO_ERROR || status == UCS_ERR_SHMEM_SEGMENT || status == UCS_ERR_NO_RESOURCE)
        return weft_backend_error(WEFT_E_SYSTEM, "ucx: cannot %s: %s", what, why);
    weft_backend_log(WEFT_LOG_WARN,
                     "backend ucx is left out: it cannot %s: %s (UCX_TLS and UCX_NET_DEVICES say by what "
                     "means)",
                     what, why);
    return WEFT_E_UNSUPPORTED;
}

/* What UCX_* in the environment say stands, but for what must be. @p transports, @p zcopy: NULL = as it says, too. */
static ucs_status_t configure(ucp_config_t *config, const char *transports, const char *zcopy)
{
    static const struct {
        const char *name, *value;
    } settings[] = {
        {"MAX_EAGER_LANES", "1"},    /* records must not overtake each other */
        {"ADDRESS_DEBUG_INFO", "n"}, /* an address must fit on a card */
    };
    ucs_status_t status = UCS_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == UCS_OK; i++)
        status = ucp_config_modify(config, settings[i].name, settings[i].value);
    if (status == UCS_OK && transports)
        status = ucp_config_modify(config, "TLS", transports);
    return status == UCS_OK && zcopy ? ucp_config_modify(config, "ZCOPY_THRESH", zcopy) : status;
}

/* The same for all worlds of a process. */
static atomic_bool has_fabric, has_looked;

bool weft__ucx_has_fabric(void)
{
    return has_fabric;
}

static void look_for_fabric(ucp_context_h context)
{
    char *text = NULL, name[64] = "";
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return;
    ucp_context_print_info(context, stream);
    fclose(stream);
    if (text && weft__ucx_fabric_in(text, name, sizeof name))
        has_fabric = true;
    free(text);
    if (!atomic_exchange(&has_looked, true))
        weft_backend_log(WEFT_LOG_INFO, "ucx: %s%s",
                         has_fabric ? "it goes before sockets, since there is a fabric: "
                                    : "sockets go before it, since it has found no fabric among its transports",
                         name);
}

/* Descriptors that this process has open, of @p most; 0: nobody can tell. */
static size_t count_descriptors(size_t most)
{
    size_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    if (!all)
        return errno == EMFILE ? most : 0;
    while (readdir(all))
        count++;
    closedir(all);
    return count > 3 ? count - 3 : 0; /* ".", "..", and its own */
}

/* Where a context and a worker find too few, UCX 1.13 may end the process (an assertion). With one interface they keep
 * 20, two for each other, and on their way they take some more. */
static weft_result need_descriptors(void)
{
    enum { NEEDED = 32 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return WEFT_OK;
    size_t most = (size_t)limit.rlim_cur, open = count_descriptors(most);
    if (most >= open && most - open >= NEEDED)
        return WEFT_OK;
    return weft_backend_error(WEFT_E_SYSTEM,
                              "ucx: it needs %d descriptors, and this process has %zu open of the %zu that it may "
                              "have (ulimit -n)",
                              NEEDED, open, most);
}

static weft_result try_context(weft__ucx *ucx, const char *transports, const char *zcopy)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return fail(status, "read its configuration");
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                 .name = "weft"};
    status = configure(config, transports, zcopy);
    if (status == UCS_OK)
        status = ucp_init(&params, config, &ucx->context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return fail(status, "make a context");
    look_for_fabric(ucx->context);
    return WEFT_OK;
}

/* When a peer dies, UCX 1.13 may end this process too if its TCP was sending from where things lie (an assertion in
 * uct_iface.h): without a fabric it copies. */
static weft_result make_context(weft__ucx *ucx, const char *transports)
{
    weft_result result = try_context(ucx, transports, NULL);
    if (result != WEFT_OK || has_fabric || getenv("UCX_ZCOPY_THRESH"))
        return result;
    ucp_cleanup(ucx->context);
    ucx->context = NULL;
    return try_context(ucx, transports, "inf");
}

static ucs_status_t create_worker(weft__ucx *ucx)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    return ucp_worker_create(ucx->context, &params, &ucx->worker);
}

/* A worker takes megabytes of /dev/shm, of which a container has 64 by default. Without room there, ranks of one host
 * reach each other by other means, unless somebody has chosen the means. */
static bool may_choose(void)
{
    const char *chosen = getenv("UCX_TLS");
    return !chosen || strcmp(chosen, "all") == 0;
}

static weft_result make_context_with_worker(weft__ucx *ucx)
{
    weft_result result = need_descriptors();
    if (result == WEFT_OK)
        result = make_context(ucx, NULL);
    if (result != WEFT_OK)
        return result;
    ucs_status_t status = create_worker(ucx);
    if ((status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_NO_MEMORY) && may_choose()) {
        weft_backend_log(WEFT_LOG_INFO, "ucx: no room in /dev/shm: it goes on without what needs that");
        ucp_cleanup(ucx->context);
        ucx->context = NULL;
        result = make_context(ucx, "^posix");
        if (result != WEFT_OK)
            return result;
        status = create_worker(ucx);
    }
    return status == UCS_OK ? WEFT_OK : fail(status, "make a worker");
}

static weft_result make_reachable(weft__ucx *ucx)
{
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = 0,
        .cb = weft__ucx_hear,
        .arg = ucx};
    ucs_status_t status = ucp_worker_set_am_recv_handler(ucx->worker, &handler);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(ucx->worker, &ucx->fd);
    if (status != UCS_OK)
        return fail(status, "be woken by its transports");
    status = ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_bytes);
    return status == UCS_OK ? WEFT_OK : fail(status, "tell its address");
}

/* UCX starts a thread that accepts connections. Signals are the program's business, not that thread's. */
static weft_result start_ucx(weft__ucx *ucx)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    weft_result result = make_context_with_worker(ucx);
    if (result == WEFT_OK)
        result = make_reachable(ucx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static weft_result open_all(void *state, weft__net *net)
{
    weft__ucx *ucx = state;
    ucx->net = net;
    int ranks = weft_world_size(net->world);
    ucx->endpoints = calloc((size_t)ranks, sizeof *ucx->endpoints);
    if (!ucx->endpoints)
        return weft_backend_error(WEFT_E_NO_MEMORY, "ucx: no memory for the ways to %d ranks", ranks);
    return start_ucx(ucx);
}

/* ------------------------------------------------------------------------------------------- moving, sleeping */

static void flushed(void *request, ucs_status_t status, void *data)
{
    weft__ucx *ucx = data;
    (void)status;
    ucp_request_free(request);
    ucx->flush = NULL;
}

static bool flushes(void *state)
{
    weft__ucx *ucx = state;
    if (ucx->flush || !ucx->unflushed)
        return ucx->flush;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = flushed, .user_data = ucx};
    ucs_status_ptr_t request = ucp_worker_flush_nbx(ucx->worker, &param);
    ucx->unflushed = false;
    ucx->flush = UCS_PTR_IS_PTR(request) ? request : NULL;
    return ucx->flush;
}

static bool progress(void *state)
{
    return ucp_worker_progress(((weft__ucx *)state)->worker);
}

static int fd(void *state)
{
    return ((weft__ucx *)state)->fd;
}

static weft_result arm(void *state)
{
    return ucp_worker_arm(((weft__ucx *)state)->worker) == UCS_OK ? WEFT_OK : WEFT_AGAIN;
}

static weft_result address(void *state, unsigned char *to, size_t room, size_t *bytes_out)
{
    const weft__ucx *ucx = state;
    if (ucx->address_bytes > room)
        return weft_backend_error(
            WEFT_E_UNSUPPORTED,
            "ucx: this rank has %zu bytes of addresses, more than the %zu that a card holds; name "
            "fewer transports or devices in UCX_TLS or UCX_NET_DEVICES",
            ucx->address_bytes, room);
    memcpy(to, ucx->address, ucx->address_bytes);
    *bytes_out = ucx->address_bytes;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- closing */

static void close_all(void *state)
{
    weft__ucx *ucx = state;
    if (ucx->worker)
        weft__ucx_endpoints_close(ucx);
    if (ucx->address)
        ucp_worker_release_address(ucx->worker, ucx->address);
    if (ucx->worker)
        ucp_worker_destroy(ucx->worker);
    if (ucx->context)
        ucp_cleanup(ucx->context);
    free(ucx->endpoints);
}

static const weft__carrier carrier = {
    .name = "ucx",
    .record_bytes = RECORD_BYTES,
    .slot_bytes = RECORD_BYTES,
    .stage_bytes = 32 * RECORD_BYTES,
    .state_bytes = sizeof(weft__ucx),
    .open = open_all,
    .close = close_all,
    .fd = fd,
    .arm = arm,
    .progress = progress,
    .lingers = flushes,
    .address = address,
    .reach = weft__ucx_reach,
    .lost = weft__ucx_lost,
    .send = weft__ucx_send,
};

weft_result weft__ucx_open(weft_world *world, void **state_out)
{
    return weft__net_open(world, &carrier, state_out);
}
