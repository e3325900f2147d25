/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's own comms, which the layers above make: their names begin with "weft.", and users' must not. */
#ifndef WEFT_BASE_RESERVED_H
#define WEFT_BASE_RESERVED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/comm.h>

/* In the flags of weft_comm_config: the comm is weft's own. */
#define WEFT__COMM_OWN UINT32_C(0x80000000)
/* And it has a communicator that the program made, as on all members. */
#define WEFT__COMM_NATIVE UINT32_C(0x40000000)

/* E_INVALID if the name is not for a comm with these flags. */
weft_result weft__reserved_check(const char *name, uint32_t flags);
/* "weft.", and @p parts joined by '/': a different name for every list of parts. Where that would be too long, or where
 * a part has a '/' itself, the end is the hash of all parts. */
void weft__reserved_name(const char *const *parts, size_t count, char name[WEFT_COMM_NAME_MAX + 1]);
/* Counts what is made over a comm under such a name, from 0: alike on its ranks if they make it in one order. */
uint32_t weft__reserved_number(weft_comm *comm);
/* Wait for what was finished on streams, which ends by itself. False: operations of the comm are stuck, and the memory
 * that they use is to be left alone. */
bool weft__comm_comes_to_rest(weft_comm *comm);

#endif
