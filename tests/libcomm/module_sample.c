/* SPDX-License-Identifier: Apache-2.0 */
/* A module as a program has it, on a library that takes a signal when it is loaded. */
#include <signal.h>

__attribute__((visibility("default"))) int sample_answer(void);

static void take(int signal)
{
    (void)signal;
}

__attribute__((constructor)) static void install(void)
{
    signal(SIGUSR1, take);
}

int sample_answer(void)
{
    return 42;
}
