/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the command, this is a BLAS that takes every processor for one of 2004, whatever it is told; and it
 * leaves a line for every start of the command. */
#include <stdio.h>
#include <stdlib.h>

char *openblas_get_corename(void);

__attribute__((constructor)) static void count_start(void)
{
    const char *path = getenv("OLD_BLAS_STARTS"), *core = getenv("OPENBLAS_CORETYPE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", core ? core : "none");
    fclose(file);
}

__attribute__((visibility("default"))) char *openblas_get_corename(void)
{
    static char name[] = "Prescott";
    return name;
}
