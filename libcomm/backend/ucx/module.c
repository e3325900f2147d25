/* SPDX-License-Identifier: Apache-2.0 */
/* The module: the table of the backend, and UCX's log. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucs/debug/log_def.h>

#include "ucx.h"

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    weft__net_facts(facts);
    bool has_fabric = weft__ucx_has_fabric();
    facts->score = question->count < 2 ? WEFT_SCORE_NONE : has_fabric ? WEFT__SCORE_FABRIC : WEFT__SCORE_UCX_OVER_TCP;
    if (facts->size >= offsetof(weft_backend_facts, why) + sizeof facts->why)
        facts->why = has_fabric ? "UCX has InfiniBand, RoCE or the like" : "UCX has no network but TCP";
    return WEFT_OK;
}

static const weft_backend table = {
    .abi_major = WEFT_BACKEND_ABI,
    .size = sizeof(weft_backend),
    .name = "ucx",
    .query = query,
    .open = weft__ucx_open,
    WEFT__NET_CALLS,
};

/* ------------------------------------------------------------------------------------------- UCX's log */

/* UCX writes to stdout, which is the program's. What it calls an error is mostly a rank that has ended, which weft
 * tells by itself. What it says while it is being loaded, if asked for, comes before this. */
static ucs_log_func_rc_t take_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                  const ucs_log_component_config_t *component, const char *message, va_list arguments)
{
    char text[512];
    (void)file, (void)line, (void)function, (void)component;
    vsnprintf(text, sizeof text, message, arguments);
    weft_backend_log(level <= UCS_LOG_LEVEL_FATAL  ? WEFT_LOG_ERROR
                     : level <= UCS_LOG_LEVEL_WARN ? WEFT_LOG_INFO
                                                   : WEFT_LOG_DEBUG,
                     "ucx: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;

const weft_backend *WEFT_BACKEND_MODULE(void)
{
    if (!getenv("UCX_LOG_FILE"))
        ucs_log_push_handler(take_log);
    return &table;
}
