/* SPDX-License-Identifier: Apache-2.0 */
/* A training from its options to its summary, as one rank goes through it. */
#ifndef WEFT_BENCH_GPT_TRAIN_H
#define WEFT_BENCH_GPT_TRAIN_H
#include <stdatomic.h>
#include <weft/world.h>

#include "gpt/options.h"

/* What the ranks of this process have in common. */
typedef struct gpt_run {
    gpt_options options;
    gpt_failure failure; /* of reading them: all ranks are asked, one says it */
    int argc;            /* what was read, to note what it says without effect; NULL: nothing is noted */
    char **argv;
    _Atomic int code; /* out: the exit code of the first rank that failed; 0 if none did */
} gpt_run;

/* The world that the options ask for; their texts are borrowed. */
weft_world_config gpt_train_world(const gpt_run *run);
/* Be one rank; @p run is a gpt_run. What goes wrong is said on stderr. */
weft_result gpt_train(weft_world *world, void *run);

#endif
