/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for modules and loads them. */
#include "backend/module.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <weft/backend.h>

#include "base/env.h"

#define HANDLERS_KEPT 32 /* the classic signals: what libraries like to take */

/* ------------------------------------------------------------------------------------------- folders */

static bool visit_path(const char *folders, bool (*visit)(void *cookie, const char *folder), void *cookie)
{
    while (folders && *folders) {
        char folder[4096];
        size_t bytes = strcspn(folders, ":");
        if (bytes && bytes < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)bytes, folders);
            if (visit(cookie, folder))
                return true;
        }
        folders += bytes + (folders[bytes] == ':');
    }
    return false;
}

bool weft__module_folders(bool (*visit)(void *cookie, const char *folder), void *cookie)
{
    weft__env env;
    Dl_info own;
    const char *slash;
    char folder[4096];
    (void)weft__env_read(&env);
    if (visit_path(env.module_path, visit, cookie))
        return true;
    if (!dladdr((void *)(uintptr_t)weft_backend_done, &own) || !(slash = strrchr(own.dli_fname, '/')))
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - own.dli_fname), own.dli_fname);
    return visit(cookie, folder);
}

/* ------------------------------------------------------------------------------------------- one module */

/* Libraries below modules install signal handlers when they are loaded. They are the program's business. */
static void keep_handlers(struct sigaction *kept)
{
    for (int s = 1; s < HANDLERS_KEPT; s++)
        sigaction(s, NULL, &kept[s]);
}

static void restore_handlers(const struct sigaction *kept)
{
    for (int s = 1; s < HANDLERS_KEPT; s++)
        if (s != SIGKILL && s != SIGSTOP)
            sigaction(s, &kept[s], NULL);
}

/* A module that brought a copy of weft along would speak to that one. */
static bool is_of_this_weft(void *module)
{
    Dl_info own, theirs;
    void *symbol = dlsym(module, "weft_backend_done");
    return !symbol || (dladdr((void *)(uintptr_t)weft_backend_done, &own) && dladdr(symbol, &theirs) &&
                       own.dli_fbase == theirs.dli_fbase);
}

void *weft__module_load(const char *path, const char *symbol, const char **why_not)
{
    static _Thread_local char text[128];
    struct sigaction handlers[HANDLERS_KEPT];
    keep_handlers(handlers);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), *found = NULL;
    restore_handlers(handlers);
    *why_not = NULL;
    if (!module)
        *why_not = dlerror();
    else if (!is_of_this_weft(module))
        *why_not = "it is linked to another copy of weft than this program";
    else if (!(found = dlsym(module, symbol))) {
        snprintf(text, sizeof text, "it has no symbol %s", symbol);
        *why_not = text;
    }
    return found;
}
