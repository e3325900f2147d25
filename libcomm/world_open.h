/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a world: what its two files share. */
#ifndef WEFT_LIBCOMM_WORLD_OPEN_H
#define WEFT_LIBCOMM_WORLD_OPEN_H
#include "base/verdict.h"
#include "bootstrap/launch.h"
#include "world.h"

/* Come together, with what has gone wrong so far on this rank; at the end all ranks have an open world, or none. */
weft_result weft__world_meet(weft_world *world, const weft__launch *launch, weft__verdict *mine);
/* The last step: trace, backends and engine of a world whose ranks are known. */
weft_result weft__world_open_services(weft_world *world);

#endif
