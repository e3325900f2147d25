/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, whatever they hold: looks for a shared object in the folders where they may be, and loads it. */
#include "module.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/backend.h>
#include <weft/module.h>

#include "base/env.h"
#include "base/error.h"

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

/* @p between: a folder before weft's own, or NULL. */
static bool visit_all(const char *between, bool (*visit)(void *cookie, const char *folder), void *cookie)
{
    weft__env env;
    Dl_info own;
    const char *slash;
    char folder[4096];
    (void)weft__env_read(&env);
    if (visit_path(env.module_path, visit, cookie) || (between && *between && visit(cookie, between)))
        return true;
    if (!dladdr((void *)(uintptr_t)weft_backend_done, &own) || !(slash = strrchr(own.dli_fname, '/')))
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - own.dli_fname), own.dli_fname);
    return visit(cookie, folder);
}

bool weft__module_folders(bool (*visit)(void *cookie, const char *folder), void *cookie)
{
    return visit_all(NULL, visit, cookie);
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

/* ------------------------------------------------------------------------------------------- of a program */

typedef struct search {
    const char *file, *symbol;
    void *found;
    char path[4200], why_not[256]; /* of the last that was there */
} search;

static bool look_in(void *cookie, const char *folder)
{
    search *s = cookie;
    char path[sizeof s->path];
    const char *why_not;
    if (snprintf(path, sizeof path, "%s/%s", folder, s->file) >= (int)sizeof path || access(path, F_OK) != 0)
        return false;
    memcpy(s->path, path, sizeof path);
    s->found = weft__module_load(path, s->symbol, &why_not);
    snprintf(s->why_not, sizeof s->why_not, "%s", why_not ? why_not : "");
    return s->found;
}

weft_result weft_module_open(const char *file, const char *folder, const char *symbol, void **symbol_out, char *path,
                             size_t path_bytes)
{
    search s = {.file = file, .symbol = symbol};
    if (!file || !*file || strchr(file, '/') || !symbol || !symbol_out)
        return weft__fail(WEFT_E_INVALID, "a module without the name of its file, or of its symbol and a place for it");
    (void)visit_all(folder, look_in, &s);
    if (path && path_bytes)
        snprintf(path, path_bytes, "%s", s.path);
    if (!s.path[0])
        return weft__fail(WEFT_E_NOT_FOUND, "there is no %s in WEFT_MODULE_PATH%s%s, or beside weft's library", file,
                          folder && *folder ? ", in " : "", folder && *folder ? folder : "");
    if (!s.found)
        return weft__fail(WEFT_E_UNSUPPORTED, "%.120s cannot be loaded: %s", s.path, s.why_not);
    *symbol_out = s.found;
    return WEFT_OK;
}
