/* SPDX-License-Identifier: Apache-2.0 */
/* What a build without hwloc can read of a machine: nothing but a flat one. */
#include "base/error.h"
#include "machine_build.h"

weft_result weft__machine_read(weft_machine *machine, const weft_machine_config *config)
{
    if (config->xml || config->synthetic)
        return weft__fail(WEFT_E_UNSUPPORTED, "cannot read machine '%s': built without hwloc",
                          config->xml ? config->xml : config->synthetic);
    WEFT_TRY(weft__machine_unseen(machine, "more than a flat machine: built without hwloc"));
    return WEFT_AGAIN;
}
