/* SPDX-License-Identifier: Apache-2.0 */
/* "paperwire": a wire between machines for tests that carries messages and nothing else, through memory from before the
 * fork. It is slow on purpose: its pipes hold little, and every third batch is refused once. It cannot make a comm
 * called "unmade", and minds if one is destroyed that was not left. */
#ifndef WEFT_TESTS_LIBCOMM_HOST_WIRE_H
#define WEFT_TESTS_LIBCOMM_HOST_WIRE_H

/* For the ranks that are forked next. */
void wire_lay(void);

#endif
