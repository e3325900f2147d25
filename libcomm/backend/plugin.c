/* SPDX-License-Identifier: Apache-2.0 */
/* Loading of modules, the shared objects that hold a backend each: looked for by name, loaded once, and never unloaded,
 * since libraries below them start threads and handlers. */
#include "backend/plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#define PREFIX          "libweft-backend-"
#define SUFFIX          ".so"
#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol
#define HANDLERS_KEPT   32 /* the classic signals: what libraries like to take */

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

/* A module that brought a copy of weft along would register itself there. */
static bool is_of_this_weft(void *module)
{
    Dl_info own, theirs;
    void *symbol = dlsym(module, "weft_backend_done");
    return !symbol || (dladdr((void *)(uintptr_t)weft_backend_done, &own) && dladdr(symbol, &theirs) &&
                       own.dli_fbase == theirs.dli_fbase);
}

static const char *why_not(void *module)
{
    if (!module)
        return dlerror();
    if (!is_of_this_weft(module))
        return "it is linked to another copy of weft than this program";
    weft_backend_module_function *entry = NULL;
    *(void **)&entry = dlsym(module, TEXT(WEFT_BACKEND_MODULE));
    if (!entry)
        return "it has no symbol " TEXT(WEFT_BACKEND_MODULE);
    const weft_backend *table = entry();
    if (!table)
        return "it says that it cannot work here";
    return weft_backend_register(table) == WEFT_OK ? NULL : weft_last_error();
}

/* What was found, for those who ask; never freed, as modules are not. */
typedef struct found {
    char *path, *why_not;
    struct found *next;
} found;
static found *first_found, **last_found = &first_found;

static void note(const char *path, const char *why)
{
    found *f = weft__alloc(sizeof *f);
    if (!f)
        return;
    f->path = strdup(path);
    f->why_not = why ? strdup(why) : NULL;
    *last_found = f;
    last_found = &f->next;
}

void weft__plugins_tell(void (*tell)(void *cookie, const char *path, const char *why_not), void *cookie)
{
    for (const found *f = first_found; f; f = f->next)
        tell(cookie, f->path ? f->path : "?", f->why_not);
}

static void load(const char *path)
{
    struct sigaction handlers[HANDLERS_KEPT];
    weft__last_error said = weft__error_keep();
    keep_handlers(handlers);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *why = why_not(module);
    restore_handlers(handlers);
    note(path, why);
    if (why)
        weft__log(WEFT_LOG_WARN, "module %s is left out: %s", path, why);
    else
        weft__log(WEFT_LOG_INFO, "module %s", path);
    weft__error_restore(&said);
}

/* ------------------------------------------------------------------------------------------- looking for them */

/* "ucx" of "libweft-backend-ucx.so"; false: it is no module. */
static bool name_of_module(const char *file, char name[WEFT_BACKEND_NAME_MAX + 1])
{
    size_t bytes = strlen(file), around = strlen(PREFIX) + strlen(SUFFIX);
    if (bytes <= around || bytes - around > WEFT_BACKEND_NAME_MAX || strncmp(file, PREFIX, strlen(PREFIX)) != 0 ||
        strcmp(file + bytes - strlen(SUFFIX), SUFFIX) != 0)
        return false;
    snprintf(name, WEFT_BACKEND_NAME_MAX + 1, "%.*s", (int)(bytes - around), file + strlen(PREFIX));
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_folder(const char *folder)
{
    struct dirent **files;
    int count = scandir(folder, &files, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[WEFT_BACKEND_NAME_MAX + 1], path[4096];
        bool fits = snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name) < (int)sizeof path;
        if (fits && name_of_module(files[i]->d_name, name) && !weft__backend_is_known(name))
            load(path);
        free(files[i]);
    }
    if (count >= 0)
        free(files);
}

static void load_path(const char *folders)
{
    while (folders && *folders) {
        char folder[4096];
        size_t bytes = strcspn(folders, ":");
        if (bytes && bytes < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)bytes, folders);
            load_folder(folder);
        }
        folders += bytes + (folders[bytes] == ':');
    }
}

static void load_beside_library(void)
{
    Dl_info own;
    const char *slash;
    char folder[4096];
    if (!dladdr((void *)(uintptr_t)weft_backend_done, &own) || !(slash = strrchr(own.dli_fname, '/')))
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - own.dli_fname), own.dli_fname);
    load_folder(folder);
}

void weft__plugins_load(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    weft__env env;
    pthread_mutex_lock(&lock);
    if (!loaded) {
        (void)weft__env_read(&env);
        load_path(env.module_path);
        load_beside_library();
        loaded = true;
    }
    pthread_mutex_unlock(&lock);
}
