/* SPDX-License-Identifier: Apache-2.0 */
/* Shared objects that weft loads on demand: where they are looked for, and how one is loaded. They are never unloaded,
 * since libraries below them start threads and handlers. */
#ifndef WEFT_BACKEND_MODULE_H
#define WEFT_BACKEND_MODULE_H
#include <stdbool.h>
#include <stddef.h>

/* Visit the folders of WEFT_MODULE_PATH, then the one that weft's library is in, until one answers true: then true. */
bool weft__module_folders(bool (*visit)(void *cookie, const char *folder), void *cookie);
/* Load @p path; its symbol of that name, or NULL and *why_not (static, or until the next call of this thread). The
 * handlers of signals stay those of the program. */
void *weft__module_load(const char *path, const char *symbol, const char **why_not);

#endif
