/* SPDX-License-Identifier: Apache-2.0 */
/* What a pipeline holds from its creation on: shared by the file that makes it and the one that runs it. */
#ifndef WEFT_P2P_PIPELINE_H
#define WEFT_P2P_PIPELINE_H
#include "base/error.h"
#include "program.h"

struct weft_pipeline {
    weft_comm *comm; /* NULL: one stage without messages */
    weft_world *world;
    weft_pipeline_config config; /* complete */
    weft_device device;          /* of the comm */
    uint32_t stage, chunks;
    bool spans;
    weft_result (*compute[WEFT_ACTION_W + 1])(void *cookie, const weft_pipeline_task *task);
    weft__channel channels[WEFT_ACTION_KINDS]; /* of messages */
    weft__program program;
    weft__last_error said; /* when the run began */
};

#endif
