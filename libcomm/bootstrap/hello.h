/* SPDX-License-Identifier: Apache-2.0 */
/* What is said first on a link. Who connects says hello; rank 0 answers only those who know the key of the job, so that
 * who connects learns that this is rank 0 of its job, and not somebody who has its port. Then it says that it comes
 * in: before, both may forget the link without harm; from there on its end is the end of a rank.
 *
 * Hello and welcome are the same in all protocols, so that different versions can tell that they differ. */
#ifndef WEFT_BOOTSTRAP_HELLO_H
#define WEFT_BOOTSTRAP_HELLO_H
#include <stddef.h>
#include <stdint.h>

#define WEFT__HELLO_PROTOCOL 5
#define WEFT__HELLO_COMING   0x21 /* one byte, behind the welcome */

typedef struct weft__hello {
    uint64_t magic, key;
    uint32_t protocol;
    int32_t rank, size, pid;
} weft__hello;

typedef struct weft__welcome {
    uint64_t magic, key;
    uint32_t protocol, reserved;
} weft__welcome;

typedef enum weft__heard {
    WEFT__HEARD_PART,     /* all right so far */
    WEFT__HEARD_ALL,      /* somebody of this job, of any protocol */
    WEFT__HEARD_OTHER,    /* somebody of another job */
    WEFT__HEARD_STRANGER, /* not weft */
} weft__heard;

weft__hello weft__hello_make(uint64_t key, int rank, int size);
weft__welcome weft__welcome_make(uint64_t key);
/* Judge the first @p count bytes of a hello, or of a welcome. */
weft__heard weft__hello_judge(const void *bytes, size_t count, uint64_t key);
weft__heard weft__welcome_judge(const void *bytes, size_t count, uint64_t key);

#endif
