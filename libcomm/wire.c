/* SPDX-License-Identifier: Apache-2.0 */
/* How wires are armed, slept on and watched. */
#include "wire.h"

#include <poll.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "world.h"

#define HUNG_MS 10 /* between two looks at a wire whose descriptor has hung up */

void weft__wires_stir(weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++)
        weft__wire_stir(&world->backends[i]);
}

bool weft__wires_arm(weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++) {
        weft__backend_instance *b = &world->backends[i];
        if (b->wire.fd < 0 || atomic_load(&b->wire.armed))
            continue;
        if (b->table->arm(b->state) != WEFT_OK)
            return false;
        atomic_store(&b->wire.armed, true);
    }
    return true;
}

int weft__wires_sleep_ms(const weft_world *world, int most_ms)
{
    int any_hung = 0;
    for (int i = 0; i < world->backend_count; i++)
        any_hung |= atomic_load(&world->backends[i].wire.hung);
    return any_hung && most_ms > HUNG_MS ? HUNG_MS : most_ms;
}

void weft__wires_doubt(weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++)
        atomic_store(&world->backends[i].wire.hung, 0);
    weft__wires_stir(world);
}

int weft__wires_sleep(weft_world *world, int most_ms)
{
    struct pollfd fds[1 + WEFT__BACKENDS] = {{.fd = world->progress.bell_fd, .events = POLLIN}};
    for (int i = 0; i < world->backend_count; i++) {
        const weft__wire *wire = &world->backends[i].wire;
        fds[1 + i] = (struct pollfd){.fd = atomic_load(&wire->hung) ? -1 : wire->fd, .events = POLLIN};
    }
    int n = poll(fds, 1 + (nfds_t)world->backend_count, weft__wires_sleep_ms(world, most_ms));
    if (n <= 0)
        return n;
    if (fds[0].revents)
        weft__segment_hear(world->own, WEFT__CALLER_SLEEPS);
    for (int i = 0; i < world->backend_count; i++)
        if (fds[1 + i].revents) {
            if (fds[1 + i].revents & (POLLHUP | POLLERR))
                atomic_store(&world->backends[i].wire.hung, WEFT__HUNG_FOR_CALLER);
            weft__wire_stir(&world->backends[i]);
        }
    return n;
}

/* ------------------------------------------------------------------------------------------- the engine */

weft_result weft__wire_add(weft_world *world, int index, uint64_t data)
{
    weft__wire *wire = &world->backends[index].wire;
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = data}; /* until it is watched, not even its end */
    wire->data = data;
    if (wire->fd >= 0 && epoll_ctl(world->progress.epoll_fd, EPOLL_CTL_ADD, wire->fd, &event) != 0)
        return weft__fail_errno("cannot watch the descriptor of backend %s", world->backends[index].table->name);
    return WEFT_OK;
}

void weft__wires_watch(weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++) {
        weft__wire *wire = &world->backends[i].wire;
        bool is_known = atomic_load(&wire->hung) == WEFT__HUNG_FOR_ENGINE;
        if (wire->fd < 0 || is_known || atomic_exchange(&wire->watched, true))
            continue;
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = wire->data};
        if (epoll_ctl(world->progress.epoll_fd, EPOLL_CTL_MOD, wire->fd, &event) != 0)
            atomic_store(&wire->watched, false);
    }
}

void weft__wire_heard(weft__backend_instance *instance, uint32_t events)
{
    atomic_store(&instance->wire.watched, false);
    if (events & (EPOLLHUP | EPOLLERR))
        atomic_store(&instance->wire.hung, WEFT__HUNG_FOR_ENGINE);
    weft__wire_stir(instance);
}

bool weft__wires_guarded(const weft_world *world)
{
    for (int i = 0; i < world->backend_count; i++) {
        const weft__wire *wire = &world->backends[i].wire;
        bool is_heard = atomic_load(&wire->watched) || atomic_load(&wire->hung) == WEFT__HUNG_FOR_ENGINE;
        if (wire->fd >= 0 && !(atomic_load(&wire->armed) && is_heard))
            return false;
    }
    return true;
}
