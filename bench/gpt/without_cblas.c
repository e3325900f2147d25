/* SPDX-License-Identifier: Apache-2.0 */
/* `weft gpt` in a build without a CBLAS: says so. */
#include "complain.h"
#include "subcommands.h"

int command_gpt(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return complain(EXIT_FAILED, "built without a CBLAS, so there is no GPT (Debian: libopenblas-serial-dev)");
}
