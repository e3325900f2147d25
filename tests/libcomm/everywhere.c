/* SPDX-License-Identifier: Apache-2.0 */
/* Makes calls on every stretch, and looks at what they wrote. */
#include "everywhere.h"

/* A destination between guards, all of it known bytes before a call. */
enum { GUARD = 64 };
enum { SPACE = GUARD + OFFSETS + LENGTHS + GUARD, UNTOUCHED = 0xa5 };

static void check_guards(const call *c, const unsigned char *space, size_t begin, size_t end, size_t offset)
{
    static unsigned char untouched[SPACE * 8];
    size_t bytes = SPACE * weft_dtype_bytes(c->dtype);
    if (!untouched[0])
        memset(untouched, UNTOUCHED, sizeof untouched);
    if (memcmp(space, untouched, begin) != 0 || memcmp(space + end, untouched, bytes - end) != 0)
        FAIL("%s %s %s of %d wrote beside the %zu bytes at offset %zu", c->vector->name, c->what,
             weft_dtype_string(c->dtype), c->source_count, end - begin, offset);
}

static void check_results(const call *c, const void *dst, size_t begin, size_t count, size_t offset)
{
    size_t bytes = weft_dtype_bytes(c->dtype);
    if (memcmp(dst, (const char *)c->expected + begin * bytes, count * bytes) == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (!same_element(dst, i, c->expected, begin + i, c->dtype))
            FAIL("%s %s %s of %d: element %zu of %zu at offset %zu is %#llx, not %#llx", c->vector->name, c->what,
                 weft_dtype_string(c->dtype), c->source_count, i, count, offset,
                 (unsigned long long)bits_at(dst, i, c->dtype),
                 (unsigned long long)bits_at(c->expected, begin + i, c->dtype));
}

static void check_everywhere(const call *c)
{
    static _Alignas(64) unsigned char space[SPACE * 8];
    size_t bytes = weft_dtype_bytes(c->dtype);
    for (size_t offset = 0; offset < OFFSETS; offset++)
        for (size_t count = 1; count <= LENGTHS; count++) {
            size_t begin = (7 * offset + 3 * count) % OFFSETS;
            unsigned char *dst = space + (GUARD + offset) * bytes;
            memset(space, UNTOUCHED, SPACE * bytes);
            if (c->before)
                memcpy(dst, (const char *)c->before + begin * bytes, count * bytes);
            c->run(c, dst, begin, count);
            check_results(c, dst, begin, count, offset);
            check_guards(c, space, (size_t)(dst - space), (size_t)(dst - space) + count * bytes, offset);
        }
}

void check_on_all_sets(call *c)
{
    for (int i = 0; (c->vector = weft__vector_host_at(i)); i++)
        check_everywhere(c);
}

/* Room for the sources; source k begins k elements behind a line. */
static void *source_room(int k, weft_dtype dtype)
{
    static _Alignas(64) unsigned char room[MOST_SOURCES][(ELEMENTS + MOST_SOURCES) * 8];
    return room[k] + (size_t)k * weft_dtype_bytes(dtype);
}

const void *random_source(int k, weft_dtype dtype)
{
    void *room = source_room(k, dtype);
    random_elements(room, ELEMENTS, dtype, 1000 * (uint64_t)dtype + (uint64_t)k);
    return room;
}

const void *source_at(const call *c, int k, size_t begin)
{
    return (const char *)c->sources[k] + begin * weft_dtype_bytes(c->source_dtype);
}
