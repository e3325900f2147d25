/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a device, and who last wrote and read each byte of it: an access that nothing orders behind the ones it
 * must not meet is a race, whatever order the operations happened to run in. */
#ifndef STANDIN_SHADOW_H
#define STANDIN_SHADOW_H
#include <stddef.h>

#include "clock.h"
#include "standin.h"

typedef enum standin_where { STANDIN_UNKNOWN, STANDIN_PINNED, STANDIN_DEVICE } standin_where;

/* Who accesses. */
typedef struct standin_access {
    const char *what; /* static text */
    int stream;       /* its number */
    standin_moment when;
    const standin_clock *before; /* what lies before it */
} standin_access;

/* Remember a block of memory; give one up, wherever in it @p memory points: false if it is none of that kind. */
void standin_shadow_add(void *memory, size_t bytes, standin_where where, int device);
bool standin_shadow_remove(const void *memory, standin_where where);
/* What @p memory is, and on which device. */
standin_where standin_shadow_find(const void *memory, int *device_out);
size_t standin_shadow_device_bytes(int device);

/* Check what an operation touches and note it; races are reported. False if it touches what no device may. */
bool standin_shadow_touch(const standin_access *access, const standin_range *ranges, size_t count);

/* What is wrong, to whoever standin_on_race() has named. */
void standin_report(const char *text);

#endif
