/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts to addresses, with a deadline. */
#ifndef WEFT_BOOTSTRAP_RESOLVE_H
#define WEFT_BOOTSTRAP_RESOLVE_H
#include "bootstrap/endpoint.h"

/* The addresses of @p host, port 0; how many, at most @p room. 0: none so far, and *why_out says why (static text). */
int weft__resolve(const char *host, uint64_t deadline_ns, weft__endpoint *found, int room, const char **why_out);

#endif
