/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a GPU, so that every wait ends. What its streams hold may wait for other ranks: deadlines see to it that
 * such operations end, or are known to be stuck. So the host looks at events, moves works along meanwhile, and gives up
 * once a comm is stuck; a call of the device that waits would not come back then. */
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm.h"
#include "device/gpu.h"

#define SPIN_NS  100000u       /* before the first sleep between two looks, */
#define SLEEP_NS 50000         /* which then takes so long */
#define GRACE_NS 5000000000ull /* what waits for no stuck comm may take so long yet, or the timeout if that is less */

bool weft__gpu_is_stuck(const weft_world *world)
{
    return atomic_load(&world->gpu_stuck);
}

/* ------------------------------------------------------------------------------------------- looking again */

typedef struct patience {
    uint64_t since_ns, stuck_ns; /* of the first look, and of the first with a stuck comm */
} patience;

static void rest(weft_world *world, patience *p)
{
    uint64_t now = weft__now_ns();
    p->since_ns = p->since_ns ? p->since_ns : now;
    if (weft__gpu_is_stuck(world) && !p->stuck_ns)
        p->stuck_ns = now;
    if (now - p->since_ns < SPIN_NS) {
        sched_yield();
        return;
    }
    weft__progress_try(world);
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

/* Wait a little for what is still to come. E_STUCK: it was given time enough. */
static weft_result look_again(weft_world *world, patience *p)
{
    uint64_t timeout_ns = (uint64_t)world->config.timeout_ms * 1000000u;
    uint64_t grace_ns = timeout_ns < GRACE_NS ? timeout_ns : GRACE_NS;
    if (p->stuck_ns && weft__now_ns() - p->stuck_ns > grace_ns)
        return weft__fail(
            WEFT_E_STUCK,
            "rank %d: what a stream of its GPU holds does not end, and operations of comms there are stuck",
            world->rank);
    rest(world, p);
    return WEFT_OK;
}

weft_result weft__gpu_await(weft_world *world, weft__event *event)
{
    weft__device *gpu = world->gpu;
    patience p = {0};
    weft_result result;
    while ((result = gpu->calls->reached(gpu, event)) == WEFT_PENDING)
        WEFT_TRY(look_again(world, &p));
    return result == WEFT_OK ? gpu->calls->await(gpu, event) : result; /* what this thread does next comes behind it */
}

weft_result weft__gpu_synchronize(weft_world *world, weft_stream stream)
{
    weft__device *gpu;
    patience p = {0};
    weft_result result;
    WEFT_TRY(weft__gpu_of(world, (weft_device)stream.kind, &gpu));
    while ((result = gpu->calls->idle(gpu, stream)) == WEFT_PENDING)
        WEFT_TRY(look_again(world, &p));
    return result;
}

weft_result weft__gpu_copy(weft_world *world, void *to, const void *from, size_t bytes)
{
    const weft_stream plain = {NULL, world->gpu->calls->kind};
    WEFT_TRY(world->gpu->calls->copy(world->gpu, to, from, bytes, plain));
    return weft__gpu_synchronize(world, plain);
}

/* ------------------------------------------------------------------------------------------- giving memory back */

static bool is_in_flight(weft_world *world)
{
    bool found = false;
    weft__progress_enter(world);
    for (const weft_comm *comm = world->comms; comm && !found; comm = comm->next)
        for (uint32_t i = 0; comm->gpu && comm->slots && i < comm->slots->count && !found; i++) {
            weft__work *work = weft__work_at(comm->slots, i);
            found = !weft__work_is_free(work) && !weft__work_ended(work);
        }
    weft__progress_leave(world);
    return found;
}

/* To give memory back waits for the whole GPU. True: nothing of weft's is in flight there any more. */
static bool comes_to_rest(weft_world *world)
{
    patience p = {0};
    while (!weft__gpu_is_stuck(world) && is_in_flight(world))
        rest(world, &p);
    if (!weft__gpu_is_stuck(world))
        return true;
    if (!atomic_exchange(&world->gpu_kept, true))
        weft__log(WEFT_LOG_ERROR, "memory of the GPU is kept: operations there are stuck, and may yet write to it");
    return false;
}

void weft__gpu_release(weft_world *world, void *memory)
{
    if (memory && comes_to_rest(world))
        world->gpu->calls->release(world->gpu, memory);
}

void weft__gpu_release_host(weft_world *world, void *memory)
{
    if (memory && comes_to_rest(world))
        world->gpu->calls->release_host(world->gpu, memory);
}
