/* SPDX-License-Identifier: Apache-2.0 */
/* The backends there are, and the choice among them for a comm. */
#ifndef WEFT_BACKEND_REGISTRY_H
#define WEFT_BACKEND_REGISTRY_H
#include <weft/backend.h>

extern const weft_backend weft__backend_self;  /* comms of one rank */
extern const weft_backend weft__backend_local; /* ranks of one host */

/* One backend as a world uses it. */
typedef struct weft__backend_instance {
    const weft_backend *table; /* without gaps */
    void *state;
} weft__backend_instance;

/* Make a backend known to the worlds that are opened from now on, for as long as the process lives. @p given is
 * copied; its name stays. The built-in ones are registered so when they are first needed. Any thread.
 * E_INVALID (name or size makes no sense, or the name is taken), E_UNSUPPORTED (another abi), E_BUSY. */
weft_result weft__backend_register(const weft_backend *given);

/* Open those that serve this world. */
weft_result weft__backends_open(weft_world *world);
void weft__backends_close(weft_world *world);
/* The instance for these ranks: the one named, or the best. E_NOT_FOUND, E_UNSUPPORTED. */
weft_result weft__backends_choose(const weft_world *world, const char *name, uint32_t comm_flags, const int *ranks,
                                  int count, const weft__backend_instance **instance_out,
                                  weft_backend_facts *facts_out);

#endif
