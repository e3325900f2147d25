/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of a benchmark, and makes an exit code of how they ended. */
#include "perf/ranks.h"

#include "complain.h"

int perf_ranks_refuse_launcher(int threads)
{
    weft_world *world;
    if (weft_world_open(NULL, &world) != WEFT_OK)
        return complain(EXIT_FAILED, "%s", weft_last_error());
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    weft_world_close(world);
    if (ranks == 1)
        return EXIT_DONE;
    return rank ? EXIT_USAGE
                : complain(EXIT_USAGE, "-t, -g: %d threads, but the launcher has started %d ranks: say one of them",
                           threads, ranks);
}

int perf_ranks_run(int threads, const weft_world_config *config, weft_rank_function body, void *argument)
{
    int code = threads > 1 ? perf_ranks_refuse_launcher(threads) : EXIT_DONE;
    if (code != EXIT_DONE)
        return code;
    weft_result result =
        threads > 1 ? weft_team_run(threads, config, body, argument) : weft_world_run(config, body, argument);
    if (result != WEFT_OK)
        return complain(result == WEFT_E_TIMEOUT ? EXIT_DEADLINE : EXIT_FAILED, "%s",
                        *weft_last_error() ? weft_last_error() : weft_result_string(result));
    return EXIT_DONE;
}
