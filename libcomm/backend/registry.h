/* SPDX-License-Identifier: Apache-2.0 */
/* The backends there are, and the choice among them for a comm. */
#ifndef WEFT_BACKEND_REGISTRY_H
#define WEFT_BACKEND_REGISTRY_H
#include <stdbool.h>
#include <weft/backend.h>

#define WEFT__BACKENDS 2

extern const weft_backend weft__backend_self;  /* comms of one rank */
extern const weft_backend weft__backend_local; /* ranks of one host */

/* One backend as a world uses it. */
typedef struct weft__backend_instance {
    weft_backend table; /* gaps filled */
    void *state;
    bool open;
} weft__backend_instance;

/* Open those that serve this world. */
weft_result weft__backends_open(weft_world *world);
void weft__backends_close(weft_world *world);
/* The instance for these ranks: the one named, or the best. E_NOT_FOUND, E_UNSUPPORTED. */
weft_result weft__backends_choose(weft_world *world, const char *name, uint32_t comm_flags, const int *ranks, int count,
                                  weft__backend_instance **instance_out, weft_backend_facts *facts_out);

#endif
