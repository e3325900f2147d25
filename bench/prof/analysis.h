/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows: where the time of its steps went, operation by operation and rank by rank. Times are ns; unless it
 * says otherwise they are means over the selected steps and ranks, so that parts add up to wholes. */
#ifndef WEFT_BENCH_PROF_ANALYSIS_H
#define WEFT_BENCH_PROF_ANALYSIS_H
#include "prof/split.h"

/* What to look at. */
typedef struct prof_selection {
    int first, last; /* steps [first, last] of run->steps, but for those run in a special way */
    int rank;        /* into run->ranks; -1: all */
} prof_selection;

/* A step that was run in a special way, by its label. */
#define PROF_SERIAL "serial" /* without overlap */
#define PROF_ALONE  "alone"  /* communication without computing */

/* Of one rank in one step, or the mean of many: the four parts add up to `step`, skew, transfer and unknown to
 * `exposed`. */
typedef struct prof_budget {
    double step, computing, hidden, exposed, idle;
    double skew, transfer, unknown; /* of what is exposed: before the last rank came, after; where that is not known */
} prof_budget;

/* Means of the same over all steps that were looked at, and how long steps were. */
typedef struct prof_totals {
    prof_budget mean;
    prof_budget *ranks;   /* [index into run->ranks]: the same of each */
    double *steps;        /* lengths of the steps, each that of its slowest rank, sorted */
    int step_count;       /* of them */
    int slowest;          /* into run->ranks: who computed longest; -1: no steps */
    size_t windows;       /* steps times ranks that went in */
    double serial, alone; /* steps of those kinds; NaN if there are none */
    double serial_comm;   /* while communicating, in serial steps */
    double eta;           /* (serial - step) / (alone, else serial_comm); NaN: not measured */
} prof_totals;

/* Operations that are alike: of one label, or of one kind on comms of one purpose. */
typedef struct prof_row {
    char kind[WEFT_TRACE_LABEL_BYTES]; /* "reduce", "gather", "p2p", or what comms are called */
    char name[2 * WEFT_TRACE_LABEL_BYTES];
    size_t count;                         /* operations that went in */
    double bytes, queue, skew, transfer;  /* means of one operation */
    double bus_bytes_per_s;               /* 0 = not known */
    double hidden, exposed, exposed_skew; /* sums, by step and rank */
    double alone;                         /* transfer of one operation in serial steps or alone; NaN = not measured */
    size_t alone_count;                   /* such operations */
    int late;                             /* into run->ranks: who came last most often; -1 = not known */
    size_t late_times, known_times;       /* how often it did, of how many times that are known */
    double late_by;                       /* by how much then */
} prof_row;

/* Spans of computing of one label. */
typedef struct prof_computing {
    const char *name;
    size_t count;       /* spans that went in */
    double sum, beside; /* by step and rank: of all, and of it while operations were under way */
} prof_computing;

/* How often a rank came last, and what that cost the others. */
typedef struct prof_late {
    size_t times, of; /* collectives in which it did, of those it took part in */
    double by;        /* how much behind the last but one, then */
    double cost;      /* exposed skew of one other rank, a step, for it */
    int worst;        /* row in which that is most; -1: none */
    double worst_cost;
} prof_late;

/* Measured, and what a perfect overlap of the same operations must leave (closed_form.h), of one step and rank. */
typedef struct prof_ideal {
    size_t count;                    /* phases that went in: steps times ranks times sets; 0: none */
    double ideal, exposed, transfer; /* of the whole phase */
    double ready;                    /* from the first to the last one ready */
    double between;                  /* gathers: computing between the first and the last one that is waited for */
    double last_cost, buckets;       /* transfer of the last bucket; how many there are */
    double smaller_last;             /* the ideal if three quarters of the last bucket were in the one before it */
    bool alone;                      /* costs are those of operations without computing */
} prof_ideal;

typedef struct prof_analysis {
    const prof_run *run;
    const prof_split *split;
    prof_selection selection;
    prof_totals totals;
    prof_row *rows;
    int row_count;
    int **row_of;    /* [rank][record]: its row; -1: none */
    prof_late *late; /* [index into run->ranks] */
    prof_ideal reduces, gathers;
    prof_computing *computing;
    int computing_count;
    double unmarked;       /* computing that no span marks */
    double records_a_step; /* that tracing wrote, on one rank */
    char **checks;         /* a line for each finding, ... */
    char **hints;          /* ... and for what may be done, with what it would bring */
    size_t check_count, hint_count;
    bool order_differs, order_known;            /* known: of all ranks that left a trace */
    size_t collectives_least, collectives_most; /* of a rank in a step */
} prof_analysis;

/* The steps to look at by themselves: all, but for the first if there are enough others. */
prof_selection prof_select_default(const prof_run *run);
/* Is a step looked at? */
bool prof_is_selected(const prof_analysis *analysis, int step);
static inline bool prof_rank_selected(const prof_analysis *analysis, int rank)
{
    return analysis->selection.rank < 0 || analysis->selection.rank == rank;
}
/* Is it known of all ranks looked at, who the members of their comms are? */
bool prof_comms_known(const prof_analysis *analysis);

/* False: no memory. Give back with prof_analysis_close() whatever the answer. */
bool prof_analyse(const prof_split *split, prof_selection selection, prof_analysis *analysis);
void prof_analysis_close(prof_analysis *analysis);

/* Its parts, in this order. False: no memory. */
bool prof_total(prof_analysis *analysis);
bool prof_make_rows(prof_analysis *analysis);
bool prof_find_late(prof_analysis *analysis);
bool prof_find_ideal(prof_analysis *analysis);
bool prof_sum_computing(prof_analysis *analysis);
bool prof_check(prof_analysis *analysis);
bool prof_hint(prof_analysis *analysis);

/* What comms are for, by the name of one: the same for "tp.0" and "tp.1", and "reduce" for what weft's buckets reduce
 * on. At most @p bytes. */
void prof_purpose(const char *comm, char *purpose, size_t bytes);

#endif
