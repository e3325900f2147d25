/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a run: finds the files of its ranks, and has them read, matched and put on one clock. */
#include "prof/run.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>
#include <weft/p2p.h>

#include "complain.h"
#include "plural.h"
#include "prof/lines.h"
#include "prof/parts.h"

void prof_note(prof_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prof_add_line(&run->notes, &run->note_count, format, arguments);
    va_end(arguments);
}

/* ---- the files ---- */

/* The rank that a file is named for; -1: it is not the name of a trace. */
static int rank_in(const char *name)
{
    char again[64];
    int rank;
    if (sscanf(name, "trace.%9d.weft", &rank) != 1 || rank < 0)
        return -1;
    snprintf(again, sizeof again, "trace.%d.weft", rank);
    return strcmp(name, again) == 0 ? rank : -1;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The ranks that have a file, in order (given), or NULL; *count_out is -1 if the folder cannot be read, as errno
 * says. */
static int *list_ranks(const char *folder, int *count_out)
{
    int *ranks = NULL, count = 0;
    DIR *directory = opendir(folder);
    *count_out = directory ? 0 : -1;
    if (!directory)
        return NULL;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        int rank = rank_in(entry->d_name);
        int *more = rank < 0 ? NULL : realloc(ranks, ((size_t)count + 1) * sizeof *ranks);
        if (!more)
            continue;
        ranks = more;
        ranks[count++] = rank;
    }
    closedir(directory);
    if (ranks)
        qsort(ranks, (size_t)count, sizeof *ranks, by_number);
    *count_out = count;
    return ranks;
}

/* Does a file belong to the run that @p first is of? Else why not. */
static bool belongs(const prof_file *file, int rank, const prof_file *first, char *why, size_t bytes)
{
    const weft_trace_header *h = &file->header, *f = &first->header;
    if (h->rank != rank)
        return snprintf(why, bytes, "holds the trace of rank %d", h->rank) < 0;
    if (h->size != f->size)
        return snprintf(why, bytes, "of a world of %d rank%s, not of %d as trace.%d.weft: of another run", h->size,
                        plural((size_t)h->size, "s"), f->size, f->rank) < 0;
    return true;
}

bool prof_files_read(prof_run *run, prof_file **files_out, int *count_out)
{
    int listed, count = 0, *ranks = list_ranks(run->folder, &listed);
    prof_file *files = calloc(listed > 0 ? (size_t)listed : 1, sizeof *files);
    for (int i = 0; files && i < listed; i++) {
        char path[4096], why[256];
        snprintf(path, sizeof path, "%s/trace.%d.weft", run->folder, ranks[i]);
        prof_file *file = &files[count];
        if (prof_file_read(path, file, why, sizeof why) && belongs(file, ranks[i], &files[0], why, sizeof why)) {
            count++;
            continue;
        }
        prof_file_close(file);
        prof_note(run, "trace.%d.weft is left out: %s", ranks[i], why);
    }
    free(ranks);
    *files_out = files;
    *count_out = listed < 0 ? -1 : count;
    return files != NULL;
}

/* ---- the run ---- */

static bool list_missing(prof_run *run)
{
    run->missing = calloc((size_t)(run->size - run->count) + 1, sizeof *run->missing);
    if (!run->missing)
        return false;
    for (int rank = 0, i = 0; rank < run->size; rank++) {
        if (i < run->count && run->ranks[i].rank == rank)
            i++;
        else
            run->missing[run->missing_count++] = rank;
    }
    return true;
}

static void note_losses(prof_run *run)
{
    for (const prof_rank *r = run->ranks; r < run->ranks + run->count; r++) {
        if (r->overwritten)
            prof_note(run,
                      "rank %d: the first %" PRIu64 " records were overwritten by later ones, %zu are left "
                      "(weft_world_config.trace_records makes room for more)",
                      r->rank, r->overwritten, r->count);
        if (r->lost)
            prof_note(run, "rank %d: %" PRIu64 " record%s not written whole, or cut off; %zu are whole", r->rank,
                      r->lost, r->lost == 1 ? " was" : "s were", r->count);
    }
}

static void note_cuts(prof_run *run, const prof_file *files, int count)
{
    for (const prof_file *f = files; f < files + count; f++) {
        const char *some = f->comm_count > 1 ? "some of its comms" : "its comms";
        if (f->bytes < f->whole_bytes)
            prof_note(run, "trace.%d.weft is cut off: %" PRIu64 " of %" PRIu64 " bytes; %s%s", f->header.rank, f->bytes,
                      f->whole_bytes, f->comms_cut ? some : "none of the comms that its records name",
                      f->comms_cut ? " are missing, and what depends on them is not known" : " is missing");
    }
}

static int no_memory(void)
{
    return complain(EXIT_FAILED, "no memory for the trace");
}

static int assemble(prof_run *run, prof_file *files, int count)
{
    run->size = files[0].header.size;
    note_cuts(run, files, count);
    if (!prof_convert(run, files, count) || !list_missing(run) || !prof_match(run) || !prof_align(run) ||
        !prof_list_steps(run))
        return no_memory();
    note_losses(run);
    return EXIT_DONE;
}

int prof_run_open(const char *folder, prof_run *run)
{
    *run = (prof_run){.folder = folder};
    prof_file *files;
    int count;
    errno = 0;
    if (!prof_files_read(run, &files, &count))
        return no_memory();
    int code = EXIT_FAILED;
    if (count > 0)
        code = assemble(run, files, count);
    else if (count < 0)
        complain(code, "cannot read folder '%s': %s", folder, strerror(errno));
    else if (run->note_count > 0)
        complain(code, "no trace in '%s' can be read: %s", folder, run->notes[0]);
    else
        complain(code, "there is no trace in '%s': no file trace.<rank>.weft (see --trace and WEFT_TRACE)", folder);
    for (int i = 0; i < count; i++)
        prof_file_close(&files[i]);
    free(files);
    return code;
}

void prof_run_close(prof_run *run)
{
    for (int i = 0; i < run->count; i++) {
        free(run->ranks[i].records);
        free(run->ranks[i].labels);
    }
    for (int i = 0; i < run->comm_count; i++)
        free(run->comms[i].world_ranks);
    if (run->steps)
        free(run->steps[0].windows); /* one piece of memory for all */
    free(run->ranks);
    free(run->missing);
    free(run->comms);
    free(run->groups);
    free(run->parts);
    free(run->steps);
    free(run->clocks);
    prof_free_lines(run->notes, run->note_count);
    *run = (prof_run){0};
}

/* ---- questions ---- */

int prof_rank_index(const prof_run *run, int world_rank)
{
    int low = 0, high = run->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (run->ranks[middle].rank < world_rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->count && run->ranks[low].rank == world_rank ? low : -1;
}

bool prof_is_mutual(const prof_record *r)
{
    if (r->kind != WEFT_TRACE_COLLECTIVE)
        return false;
    switch ((weft_collective_kind)r->operation) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        return r->bytes > 0;
    case WEFT_BARRIER:
        return true;
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
        break;
    }
    return false;
}

const char *prof_record_name(const prof_record *record)
{
    if (*record->label)
        return record->label;
    switch (record->kind) {
    case WEFT_TRACE_COLLECTIVE:
        return weft_collective_string((weft_collective_kind)record->operation);
    case WEFT_TRACE_P2P:
        return "messages";
    case WEFT_TRACE_MESSAGE:
        return record->operation == WEFT_SEND ? "send" : "receive";
    case WEFT_TRACE_STEP:
        return "step";
    default:
        return "span";
    }
}
