/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: shared objects that weft loads on demand. They hold a backend (backend/modules.h), a device, or what a
 * program keeps in one, and are never unloaded, since libraries below them start threads and handlers. */
#ifndef WEFT_LIBCOMM_MODULE_H
#define WEFT_LIBCOMM_MODULE_H
#include <stdbool.h>
#include <stddef.h>

/* Visit the folders of WEFT_MODULE_PATH, then the one that weft's library is in, until one answers true: then true. */
bool weft__module_folders(bool (*visit)(void *cookie, const char *folder), void *cookie);
/* Load @p path; its symbol of that name, or NULL and *why_not (static, or until the next call of this thread). The
 * handlers of signals stay those of the program. */
void *weft__module_load(const char *path, const char *symbol, const char **why_not);

#endif
