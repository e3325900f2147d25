/* SPDX-License-Identifier: Apache-2.0 */
/* Backends in modules: from a file to a row of the registry. How a module is loaded, module.h says. */
#ifndef WEFT_BACKEND_MODULES_H
#define WEFT_BACKEND_MODULES_H

/* Load and register those that are in the folders of WEFT_MODULE_PATH and beside the library and are not known yet.
 * What cannot be used is left out, and the log says why. Any thread; it may take a while. */
void weft__backend_modules_load(void);
/* Those that weft__backend_modules_load() has found, in their order; @p why_not is NULL for what was loaded. */
void weft__backend_modules_tell(void (*tell)(void *cookie, const char *path, const char *why_not), void *cookie);

#endif
