/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft prof` makes of a trace; argv[0] is the name of the view. The answer is the exit code. */
#ifndef WEFT_BENCH_PROF_PROF_H
#define WEFT_BENCH_PROF_PROF_H

int prof_cost(int argc, char **argv);
int prof_html(int argc, char **argv);
int prof_report(int argc, char **argv);
int prof_trace(int argc, char **argv);

#endif
