/* SPDX-License-Identifier: Apache-2.0 */
/* What weft's own calls cost, apart from the moving of bytes. */
#ifndef WEFT_BENCH_PERF_API_H
#define WEFT_BENCH_PERF_API_H

int perf_api(int argc, char **argv);

#endif
