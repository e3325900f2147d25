/* SPDX-License-Identifier: Apache-2.0 */
/** @file  All of weft but the headers for those who write backends (weft/backend.h) and for users of CUDA and NCCL
 *  (weft/cuda.h, weft/nccl.h). */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

/* Communication: worlds, comms, operations. */
#include <weft/collective.h>
#include <weft/comm.h>
#include <weft/composed.h>
#include <weft/dtype.h>
#include <weft/info.h>
#include <weft/log.h>
#include <weft/memory.h>
#include <weft/module.h>
#include <weft/p2p.h>
#include <weft/result.h>
#include <weft/stream.h>
#include <weft/trace.h>
#include <weft/version.h>
#include <weft/work.h>
#include <weft/world.h>

/* Hardware: machines, placement, groups. */
#include <weft/cluster.h>
#include <weft/groups.h>
#include <weft/machine.h>
#include <weft/mesh.h>

/* Gradients and params in flat memory; the optimizer. */
#include <weft/adam.h>
#include <weft/buckets.h>
#include <weft/layout.h>
#include <weft/params.h>

/* Pipelines. */
#include <weft/pipeline.h>
#include <weft/schedule.h>

#endif
