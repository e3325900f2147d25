/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: which backends there are, and the choice among them for a comm. */
#ifndef WEFT_BACKEND_REGISTRY_H
#define WEFT_BACKEND_REGISTRY_H
#include <stdbool.h>
#include <weft/backend.h>

#include "wire.h"

extern const weft_backend weft__backend_self;  /* comms of one rank */
extern const weft_backend weft__backend_local; /* ranks of one machine */
extern const weft_backend weft__backend_host;  /* ranks of several, by local and a wire */
extern const weft_backend weft__backend_tcp;   /* ranks anywhere, by sockets; known when modules are */

#define WEFT__BACKENDS 16 /* that there can be */

/* Is there one of that name? The built-in ones and those that were registered. */
bool weft__backend_is_known(const char *name);

/* Open those that serve this world: all that are known, and modules if it spans hosts or wants one. */
weft_result weft__backends_open(weft_world *world);
/* And those that have become known since. */
weft_result weft__backends_renew(weft_world *world);
void weft__backends_close(weft_world *world);
/* The instance for these ranks: the one named, or the best. One that is not known is looked for among the modules.
 * E_NOT_FOUND, E_UNSUPPORTED. */
weft_result weft__backends_choose(weft_world *world, const weft_comm_config *config, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out);

#endif
