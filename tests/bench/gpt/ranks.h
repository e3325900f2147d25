/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallel ranks as threads, with the few collectives of the model behind a comm. An operation is carried out
 * when it is finished, so that a model that reads its result or changes its buffer before gets wrong values. */
#ifndef WEFT_TESTS_BENCH_GPT_RANKS_H
#define WEFT_TESTS_BENCH_GPT_RANKS_H
#include <weft/comm.h>

/* Run @p body on @p count threads, each with its rank of one comm. */
void ranks_run(int count, void (*body)(weft_comm *comm, void *argument), void *argument);

#endif
