/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that hold a backend each: finds them by the names of their files, loads them once, and registers what they
 * hold. */
#include "backend/modules.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "module.h"

#define PREFIX          "libweft-backend-"
#define SUFFIX          ".so"
#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

/* ------------------------------------------------------------------------------------------- one module */

static const char *load_and_register(const char *path, const char *name)
{
    static _Thread_local char other[128];
    const char *why_not;
    weft_backend_module_function *entry = NULL;
    *(void **)&entry = weft__module_load(path, TEXT(WEFT_BACKEND_MODULE), &why_not);
    if (!entry)
        return why_not;
    const weft_backend *table = entry();
    if (!table)
        return "it says that it cannot work here";
    if (table->abi_major == WEFT_BACKEND_ABI && table->name && *table->name && strcmp(table->name, name) != 0) {
        snprintf(other, sizeof other, "its backend is called '%.*s', so its file must be " PREFIX "%.*s" SUFFIX,
                 WEFT_BACKEND_NAME_MAX, table->name, WEFT_BACKEND_NAME_MAX, table->name);
        return other;
    }
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

void weft__backend_modules_tell(void (*tell)(void *cookie, const char *path, const char *why_not), void *cookie)
{
    for (const found *f = first_found; f; f = f->next)
        tell(cookie, f->path ? f->path : "?", f->why_not);
}

static void load(const char *path, const char *name)
{
    weft__last_error said = weft__error_keep();
    const char *why = load_and_register(path, name);
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

static bool load_folder(void *cookie, const char *folder)
{
    (void)cookie;
    struct dirent **files;
    int count = scandir(folder, &files, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[WEFT_BACKEND_NAME_MAX + 1], path[4096];
        bool fits = snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name) < (int)sizeof path;
        if (fits && name_of_module(files[i]->d_name, name) && !weft__backend_is_known(name))
            load(path, name);
        free(files[i]);
    }
    if (count >= 0)
        free(files);
    return false;
}

void weft__backend_modules_load(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    if (!loaded) {
        /* Built in, but of no use where none of these is looked for: ranks of one host should not poll it. */
        (void)weft_backend_register(&weft__backend_tcp);
        (void)weft__module_folders(load_folder, NULL);
        loaded = true;
    }
    pthread_mutex_unlock(&lock);
}
