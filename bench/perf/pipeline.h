/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf pipeline`: how near the step of a pipeline comes to what its schedule allows. */
#ifndef WEFT_BENCH_PERF_PIPELINE_H
#define WEFT_BENCH_PERF_PIPELINE_H

int perf_pipeline(int argc, char **argv);

#endif
