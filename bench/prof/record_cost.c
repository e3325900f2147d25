/* SPDX-License-Identifier: Apache-2.0 */
/* What the tracer itself costs: one record, written many times. */
#include <math.h>
#include <stdlib.h>
#include <weft/world.h>

#include "clock.h"
#include "prof/report.h"

double prof_record_cost(void)
{
    enum { ROUNDS = 5, SPANS = 4000 };
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    weft_world *world;
    config.ranks = 1;
    unsetenv("WEFT_TRACE"); /* which would put a new file in place of the one that is looked at */
    if (weft_world_open(&config, &world) != WEFT_OK)
        return (double)NAN;
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begin = clock_ns();
        for (uint64_t i = 0; i < SPANS; i++)
            weft_span_end(world, weft_span_begin(world, 0, i));
        best = fmin(best, (double)(clock_ns() - begin) / (2 * SPANS));
    }
    weft_world_close(world);
    return best;
}
