/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: backends in shared objects of their own. */
#ifndef WEFT_BACKEND_PLUGIN_H
#define WEFT_BACKEND_PLUGIN_H

/* Load and register those that are in the folders of WEFT_MODULE_PATH and beside the library and are not known yet.
 * What cannot be used is left out, and the log says why. Any thread; it may take a while. */
void weft__plugins_load(void);

#endif
