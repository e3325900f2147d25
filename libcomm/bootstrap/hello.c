/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and judges the first words on a link; pure. */
#include "bootstrap/hello.h"

#include <string.h>
#include <unistd.h>

#define HELLO_MAGIC   0x6f6c6c6568746677ull
#define WELCOME_MAGIC 0x656d636c65777466ull

_Static_assert(sizeof(weft__hello) == 32 && sizeof(weft__welcome) == 24, "the same in all protocols");

weft__hello weft__hello_make(uint64_t key, int rank, int size)
{
    return (weft__hello){.magic = HELLO_MAGIC,
                         .key = key,
                         .protocol = WEFT__HELLO_PROTOCOL,
                         .rank = rank,
                         .size = size,
                         .pid = (int32_t)getpid()};
}

weft__welcome weft__welcome_make(uint64_t key)
{
    return (weft__welcome){.magic = WELCOME_MAGIC, .key = key, .protocol = WEFT__HELLO_PROTOCOL};
}

/* A stranger is known by its first wrong byte: nobody waits for the rest. */
static weft__heard judge(const void *bytes, size_t count, size_t whole, uint64_t magic, uint64_t key)
{
    const uint64_t start[] = {magic, key};
    size_t known = count < sizeof start ? count : sizeof start;
    if (memcmp(bytes, start, known < sizeof magic ? known : sizeof magic) != 0)
        return WEFT__HEARD_STRANGER;
    if (memcmp(bytes, start, known) != 0)
        return WEFT__HEARD_OTHER;
    return count < whole ? WEFT__HEARD_PART : WEFT__HEARD_ALL;
}

weft__heard weft__hello_judge(const void *bytes, size_t count, uint64_t key)
{
    return judge(bytes, count, sizeof(weft__hello), HELLO_MAGIC, key);
}

weft__heard weft__welcome_judge(const void *bytes, size_t count, uint64_t key)
{
    return judge(bytes, count, sizeof(weft__welcome), WELCOME_MAGIC, key);
}
