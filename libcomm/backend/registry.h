/* SPDX-License-Identifier: Apache-2.0 */
/* The backends there are, and the choice among them for a comm. */
#ifndef WEFT_BACKEND_REGISTRY_H
#define WEFT_BACKEND_REGISTRY_H
#include <stdatomic.h>
#include <stdbool.h>
#include <weft/backend.h>

extern const weft_backend weft__backend_self;  /* comms of one rank */
extern const weft_backend weft__backend_local; /* ranks of one machine */
extern const weft_backend weft__backend_host;  /* ranks of several, by local and a wire */

#define WEFT__BACKENDS 16 /* that there can be */

/* One backend as a world uses it. */
typedef struct weft__backend_instance {
    const weft_backend *table; /* without gaps */
    void *state;
    unsigned answer;      /* of `progress`, the last */
    int fd;               /* tells when there is something to do, once armed; -1 = none */
    _Atomic bool armed;   /* and nothing has happened since: `progress` is not called */
    _Atomic bool watched; /* the engine sleeps on the descriptor too */
} weft__backend_instance;

/* Is there one of that name? The built-in ones and those that were registered. */
bool weft__backend_is_known(const char *name);

/* Open those that serve this world: all that are known, and modules if it spans hosts or wants one. */
weft_result weft__backends_open(weft_world *world);
/* And those that have become known since. */
weft_result weft__backends_renew(weft_world *world);
void weft__backends_close(weft_world *world);
/* The instance for these ranks: the one named, or the best. One that is not known is looked for among the modules.
 * E_NOT_FOUND, E_UNSUPPORTED. */
weft_result weft__backends_choose(weft_world *world, const char *name, uint32_t comm_flags, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out);

/* There may be something to do for it: have `progress` called again. Any thread. */
static inline void weft__backend_stir(weft__backend_instance *instance)
{
    if (atomic_load_explicit(&instance->armed, memory_order_relaxed))
        atomic_store(&instance->armed, false);
}

#endif
