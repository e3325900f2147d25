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

/* What became of a backend in a world, by its place in the registry. */
typedef enum weft__backend_state {
    WEFT__BACKEND_NEW,     /* not looked at, or not wanted so far */
    WEFT__BACKEND_TRIED,   /* open, or it does not serve this world */
    WEFT__BACKEND_LEFT_OUT /* it failed to open */
} weft__backend_state;

typedef struct weft__backend_trial {
    weft__backend_state state;
    char why[256];
} weft__backend_trial;

/* Open those that serve this world: the one that its config names, else all that are known; and modules if it spans
 * hosts or wants one. Of those that it does not name, what cannot be opened is left out. */
weft_result weft__backends_open(weft_world *world);
/* And those that have become known since; @p name: NULL, or the one that is wanted. */
weft_result weft__backends_renew(weft_world *world, const char *name);
/* Those that could not be opened, which nobody had asked for. */
void weft__backends_tell_left_out(const weft_world *world,
                                  void (*tell)(void *cookie, const char *name, const char *why), void *cookie);
void weft__backends_close(weft_world *world);
/* The instance for these ranks: the one named, or the best. One that is not known is looked for among the modules.
 * E_NOT_FOUND, E_UNSUPPORTED. */
weft_result weft__backends_choose(weft_world *world, const weft_comm_config *config, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out);

#endif
