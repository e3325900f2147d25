/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts bytes into buckets, or takes what a list says. */
#include "perf/overlap/shape.h"

#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "option.h"

bool overlap_shape_even(overlap_shape *shape, size_t total, size_t count)
{
    size_t elements = total / OVERLAP_ELEMENT;
    if (count == 0 || count > OVERLAP_BUCKETS_MOST || count > elements)
        return false;
    shape->count = count;
    shape->begins[0] = 0;
    for (size_t i = 0; i < count; i++)
        shape->begins[i + 1] = shape->begins[i] + (elements / count + (i < elements % count)) * OVERLAP_ELEMENT;
    return true;
}

static int add(overlap_shape *shape, const char *list, const char *word, size_t length)
{
    static const option size = {"bytes", OPTION_SIZE, 0, OVERLAP_ELEMENT, 1e15, "BYTES", NULL};
    char text[32], name[] = "--bytes", *words[] = {name, name, text};
    size_t bytes;
    int rest;
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    if (length >= sizeof text)
        return complain(EXIT_USAGE, "--bytes is '%s': '%s...' is no size", list, text);
    int code = options_read("", &size, 1, 3, words, &bytes, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (bytes % OVERLAP_ELEMENT)
        return complain(EXIT_USAGE, "--bytes is '%s': %zu is no multiple of %d, the bytes of a gradient", list, bytes,
                        OVERLAP_ELEMENT);
    if (shape->count == OVERLAP_BUCKETS_MOST)
        return complain(EXIT_USAGE, "--bytes has more than %d buckets", OVERLAP_BUCKETS_MOST);
    shape->begins[shape->count + 1] = shape->begins[shape->count] + bytes;
    shape->count++;
    return OPTIONS_GO;
}

int overlap_shape_read(overlap_shape *shape, const char *list)
{
    int code = OPTIONS_GO;
    *shape = (overlap_shape){0};
    for (const char *at = list; at && code == OPTIONS_GO;) {
        size_t length = strcspn(at, ",");
        code = add(shape, list, at, length);
        at = at[length] ? at + length + 1 : NULL;
    }
    return code;
}
