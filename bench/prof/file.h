/* SPDX-License-Identifier: Apache-2.0 */
/* One trace file, DIR/trace.<rank>.weft, as it was written: checked, so that whoever reads on can trust every index,
 * whatever the file holds. */
#ifndef WEFT_BENCH_PROF_FILE_H
#define WEFT_BENCH_PROF_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/trace.h>

typedef struct prof_file {
    weft_trace_header header; /* of version 1: zero where it has nothing; texts end with 0 */
    char *labels;             /* label_count texts of header.label_bytes each, all ended with 0 and printable */
    uint32_t label_count;
    weft_trace_comm *comms; /* comm_count of them, entry 0 unused; those without a label were not written */
    size_t comm_count;
    weft_trace_record *records; /* the whole ones, in order of their numbers */
    size_t count;
    uint64_t overwritten;        /* records that later ones replaced */
    uint64_t lost;               /* records that were not written whole, or are cut off with the file */
    uint64_t bytes, whole_bytes; /* of the file; of all that its header speaks of: fewer are there if it is cut off */
    bool records_cut;            /* some records are cut off */
    bool comms_cut;              /* some comms that its records name are cut off */
} prof_file;

/* Read a file; what little there is of one cut off. False: it is none, and @p why (of @p bytes) says so without its
 * name. Give back with prof_file_close() whatever the answer. */
bool prof_file_read(const char *path, prof_file *file, char *why, size_t bytes);
void prof_file_close(prof_file *file);

/* The text of a label; "" for none. */
const char *prof_file_label(const prof_file *file, uint32_t label);

#endif
