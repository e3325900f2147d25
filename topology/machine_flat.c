/* SPDX-License-Identifier: Apache-2.0 */
/* A machine of which only the PUs are known: those that this process may run on. */
#include "base/error.h"
#include "machine_build.h"

static weft_result add_pu(weft_machine *machine, int pu)
{
    int index;
    WEFT_TRY(weft__machine_begin(machine, WEFT_OBJECT_PU, 0, &index));
    machine->objects[index].os_number = pu;
    machine->objects[index].allowed = 1;
    weft__machine_end(machine, index);
    return WEFT_OK;
}

weft_result weft__machine_read_flat(weft_machine *machine)
{
    weft_pus pus;
    int root;
    WEFT_TRY(weft_pus_of_thread(&pus));
    machine->flat = 1;
    machine->allowed = pus;
    WEFT_TRY(weft__machine_begin(machine, WEFT_OBJECT_MACHINE, WEFT_NONE, &root));
    machine->objects[root].allowed = 1;
    for (int pu = 0; pu < WEFT_PUS_MAX; pu++)
        if (weft_pus_has(&pus, pu))
            WEFT_TRY(add_pu(machine, pu));
    weft__machine_end(machine, root);
    machine->source = weft__machine_text(machine, "the affinity of this process");
    return machine->source ? weft__machine_unseen(machine, "packages, NUMA nodes, caches, cores, GPUs, network cards")
                           : WEFT_E_NO_MEMORY;
}
