/* SPDX-License-Identifier: Apache-2.0 */
/* The units and limits of each kind of quantity, in a table. */
#include "hosts/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    double least, most;
    struct {
        const char *name;
        double factor;
    } units[3];
} kinds[] = {
    [QUANTITY_RATE] = {"a rate from 1kbit to 100gbit", 1e3, 1e11, {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}},
    [QUANTITY_TIME] = {"a time such as 500us, 5ms or 1s, up to 10s", 0, 10, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}},
    [QUANTITY_PART] = {"a part such as 0.1%, less than 100%", 0, 0.999999, {{"%", 0.01}}},
};

bool quantity_read(quantity kind, const char *text, double *value)
{
    char *unit;
    double number = strtod(text, &unit);
    if (unit == text || !isdigit((unsigned char)*text) || !isfinite(number))
        return false;
    for (size_t i = 0; i < sizeof kinds[kind].units / sizeof *kinds[kind].units; i++)
        if (kinds[kind].units[i].name && strcmp(unit, kinds[kind].units[i].name) == 0) {
            *value = number * kinds[kind].units[i].factor;
            return *value >= kinds[kind].least && *value <= kinds[kind].most;
        }
    return false;
}

const char *quantity_name(quantity kind)
{
    return kinds[kind].name;
}
