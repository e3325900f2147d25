/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the library: from call PERF_FAULT on, of this process, collectives that are measured spoil one element;
 * with PERF_HANG rank 1 comes 3 s late, once. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/collective.h>

typedef weft_result (*run_function)(weft_comm *comm, const weft_collective *what, weft_stream stream);

__attribute__((visibility("default"))) weft_result weft_collective_run(weft_comm *comm, const weft_collective *what,
                                                                       weft_stream stream)
{
    static _Atomic long calls, hung;
    run_function run;
    void *symbol = dlsym(RTLD_NEXT, "weft_collective_run");
    memcpy(&run, &symbol, sizeof run);
    if (strcmp(weft_comm_name(comm), "perf0") != 0) /* by which ranks agree */
        return run(comm, what, stream);
    long call = atomic_fetch_add(&calls, 1) + 1;
    const char *fault = getenv("PERF_FAULT"), *hang = getenv("PERF_HANG");
    if (hang && call >= atol(hang) && weft_comm_rank(comm) == 1 && !atomic_exchange(&hung, 1))
        sleep(3);
    weft_result result = run(comm, what, stream);
    if (fault && call >= atol(fault) && what->count)
        *(unsigned char *)what->recv ^= 1;
    return result;
}
