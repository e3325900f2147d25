/* SPDX-License-Identifier: Apache-2.0 */
/* What reading a run is made of; only prof_run_open() calls these, in this order. */
#ifndef WEFT_BENCH_PROF_PARTS_H
#define WEFT_BENCH_PROF_PARTS_H
#include "prof/file.h"
#include "prof/run.h"

/* A line for run->notes. */
__attribute__((format(printf, 2, 3))) void prof_note(prof_run *run, const char *format, ...);

/* Find the files of run->folder and read them, by rank, into *files_out (given), *count_out of them; notes say what is
 * wrong with those that were left out. False: no memory. */
bool prof_files_read(prof_run *run, prof_file **files_out, int *count_out);
/* From files to ranks and records, each on its machine's clock. False: no memory. */
bool prof_convert(prof_run *run, prof_file *files, int count);
/* Find what belongs together on several ranks. False: no memory. */
bool prof_match(prof_run *run);
/* Put all clocks on that of the first rank. False: no memory. */
bool prof_align(prof_run *run);
/* List the steps, and say of each record in which it was. False: no memory. */
bool prof_list_steps(prof_run *run);

#endif
