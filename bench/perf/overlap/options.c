/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of `weft perf overlap` and says which do not go together. */
#include "perf/overlap/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "option.h"
#include "out.h"

#define FIELD(name) offsetof(overlap_options, name)
static const option table[] = {
    {"bytes", OPTION_TEXT, FIELD(bytes), 0, 0, "BYTES",
     "of all gradients; or of each bucket, as 8M,4M,1M in the order in which they are reduced; K M G may follow "
     "(64M)"},
    {"buckets", OPTION_INT, FIELD(buckets), 1, OVERLAP_BUCKETS_MOST, "N", "cut them into N even buckets (8)"},
    {"ratio", OPTION_REAL, FIELD(ratio), 1e-3, 1e3, "X",
     "compute so long that communication is X of it (0.5; with --one 1)"},
    {"compute-ms", OPTION_REAL, FIELD(compute_ms), 1e-2, 1e6, "MS", "compute so long instead"},
    {"forward", OPTION_REAL, FIELD(forward), 1e-3, 1e3, "X", "computing of the forward over that of the backward (1)"},
    {"compute", OPTION_TEXT, FIELD(compute), 0, 0, "HOW",
     "product: matrices; fma: registers alone; timed, or timed:MS for MS of it: sleeps, and takes no core (product)"},
    {"one", OPTION_CHOICE, FIELD(one), 0, 0, "none|reduce_scatter|all_gather|all_reduce",
     "one operation of --bytes instead of a step (none)"},
    {"sweep", OPTION_FLAG, FIELD(sweep), 0, 0, NULL, "try bucket sizes: a line each"},
    {"b|minbytes", OPTION_SIZE, FIELD(min_bytes), OVERLAP_ELEMENT, 1e15, "BYTES",
     "smallest bucket of a sweep (a 64th of all)"},
    {"e|maxbytes", OPTION_SIZE, FIELD(max_bytes), OVERLAP_ELEMENT, 1e15, "BYTES", "largest bucket of a sweep (all)"},
    {"f|stepfactor", OPTION_REAL, FIELD(factor), 1.1, 1e6, "X", "from size to size of a sweep, multiplied (2)"},
    {"rounds", OPTION_INT, FIELD(rounds), 1, 10000, "N", "turns of measuring (as many as fit --row-s)"},
    {"row-s", OPTION_REAL, FIELD(row_s), 1e-3, 1e5, "SECONDS", "measure for so long, but 3 rounds or more (5)"},
    {"within", OPTION_REAL, FIELD(within_ms), 0, 1e6, "MS",
     "measure no longer when what both take longer than computing alone is known within +- MS (0: go on)"},
    {"t|nthreads", OPTION_INT, FIELD(threads), 1, 256, "N",
     "ranks are N threads of this process, a core each if there are so many"},
    {"T|timeout", OPTION_INT, FIELD(timeout_s), 0, 1000000, "SECONDS",
     "deadline of each operation (0: WEFT_TIMEOUT_MS)"},
    {"backend", OPTION_TEXT, FIELD(backend), 0, 0, "NAME", "what carries the operations (chosen)"},
    {"J|json", OPTION_FILE, FIELD(json), 0, 0, "FILE", "a line of JSON a phase; - = stdout, the text then on stderr"},
    {"svg", OPTION_FILE, FIELD(svg), 0, 0, "FILE", "a picture of the sweep"},
};

static const char usage[] =
    "usage: weft perf overlap [options]\n"
    "\n"
    "How much communication hides behind computing here: gradients in buckets are reduced while a backward computes,\n"
    "and values gathered while the forward does, through weft_buckets, as a trainer has it. Ranks come from `weft run\n"
    "-n N`, `weft hosts`, mpirun or torchrun, or are threads (-t N).\n"
    "\n"
    "In turn, round after round: computing alone and both together side by side, one after the other, and "
    "communication\n"
    "alone (all buckets ready at once), each as long as its slowest rank. Shown are medians over the rounds; of both\n"
    "together and one after the other, of what they took longer than computing alone in the same round, so that cores\n"
    "which are faster and slower by turns fall out. Where the time went is told of the round in which both took the\n"
    "median longer, by the rank that computed longest. A bucket's computing is as large a part as its bytes. T_b and "
    "T_f\n"
    "are the computing of backward and forward, T_c is the communication alone.\n"
    "\n"
    "  exposed, stop-watch   both together less computing alone\n"
    "    +-                  half of the interval that holds it with 95 %, by how far rounds are apart\n"
    "  exposed, trace        the caller waits while operations are under way\n"
    "    for ranks to come   ... and the last rank has not started them yet\n"
    "  exposed, transfer     the former without the latter, of the rank of which that is most, the median of rounds\n"
    "  exposed, at least     what a perfect overlap leaves by what was measured: when each piece of computing alone\n"
    "                        ended, and what each operation alone cost. Backward: max over i of (ready i + costs of i\n"
    "                        and what follows) - T_b; a forward is that in reverse. JSON: closed_ms\n"
    "  ..., if even          the same if all B operations cost c = T_c / B and pieces are equal:\n"
    "                        max(c, B c - (1 - 1/B) T). JSON: closed_even_ms\n"
    "  hidden, trace         of the time in which operations are under way, the part that is not exposed: 0 to 100 %\n"
    "  hidden, transfer      the same but for ranks to come, of the rank that hides least, the median of rounds\n"
    "  hidden, stop-watch    (T_c - exposed, stop-watch) / T_c: below 0 where both together took longer than one "
    "after\n"
    "                        the other would\n"
    "  eta                   (one after the other - both) / T_c\n"
    "\n"
    "Computing that takes a core shows what communication costs it. With more ranks than cores take --compute timed: "
    "it\n"
    "sleeps until each piece would be done. --sweep keeps the computing and tries bucket sizes; of its columns "
    "'clock'\n"
    "are the stop-watch's, 'trace' the trace's, and 'least' is 'exposed, at least'.\n"
    "--one: one operation is started, then computed, then waited for, without a call in between.";

static const weft_collective_kind operations[] = {WEFT_BARRIER, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER, WEFT_ALL_REDUCE};

static int read_compute(overlap_options *o)
{
    static const char *const words[] = {"product", "fma", "timed"};
    const char *colon = strchr(o->compute, ':');
    size_t length = colon ? (size_t)(colon - o->compute) : strlen(o->compute);
    for (int k = 0; k < 3; k++) {
        if (strlen(words[k]) != length || strncmp(o->compute, words[k], length) != 0)
            continue;
        o->kernel = (overlap_kernel)k;
        if (!colon)
            return OPTIONS_GO;
        char *end;
        double ms = strtod(colon + 1, &end);
        if (k != OVERLAP_TIMED || end == colon + 1 || *end || !(ms >= 1e-2 && ms <= 1e6))
            break;
        if (o->compute_ms > 0)
            return complain(EXIT_USAGE, "--compute %s and --compute-ms both say how long: say one of them", o->compute);
        o->compute_ms = ms;
        return OPTIONS_GO;
    }
    return complain(EXIT_USAGE, "--compute is '%s', not product, fma, timed or timed:MS with ms from 0.01 to 1000000",
                    o->compute);
}

/* A list says how many there are. */
static int read_shape(overlap_options *o)
{
    int code = overlap_shape_read(&o->shape, o->bytes);
    bool listed = code == OPTIONS_GO && o->shape.count > 1;
    size_t total = overlap_shape_total(&o->shape), buckets = o->buckets > 0       ? (size_t)o->buckets
                                                             : o->one || o->sweep ? 1
                                                                                  : 8;
    if (code != OPTIONS_GO)
        return code;
    if (listed && (o->buckets > 0 || o->one || o->sweep))
        return complain(EXIT_USAGE, "%s does not go with the bytes of each bucket (--bytes %s)",
                        o->buckets > 0 ? "--buckets"
                        : o->one       ? "--one"
                                       : "--sweep",
                        o->bytes);
    if (!listed && !overlap_shape_even(&o->shape, total, buckets))
        return complain(EXIT_USAGE, "--bytes %s is less than an element a bucket (--buckets %zu)", o->bytes, buckets);
    return OPTIONS_GO;
}

/* Gradients and values of each rank here. */
static int check_memory(const overlap_options *o)
{
    double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double wanted = 2 * (double)overlap_shape_total(&o->shape) * o->threads;
    if (there > 0 && wanted > there)
        return complain(EXIT_FAILED, "--bytes %s: gradients and values are %.4g GiB here, and the machine has %.4g GiB",
                        o->bytes, wanted / (1 << 30), there / (1 << 30));
    return OPTIONS_GO;
}

static int read_sweep(overlap_options *o)
{
    size_t total = overlap_shape_total(&o->shape);
    if (out_apart("--json", o->json, "--svg", o->svg) != EXIT_DONE)
        return EXIT_USAGE;
    if (o->svg && !o->sweep)
        return complain(EXIT_USAGE, "--svg is a picture of a sweep: say --sweep too");
    if (!o->sweep)
        return o->min_bytes || o->max_bytes || o->factor > 0
                   ? complain(EXIT_USAGE, "-b, -e and -f are for a sweep: say --sweep too")
                   : OPTIONS_GO;
    if (o->one || o->buckets > 0)
        return complain(EXIT_USAGE, "--sweep does not go with %s", o->one ? "--one" : "--buckets");
    o->factor = o->factor > 0 ? o->factor : 2;
    o->max_bytes = o->max_bytes ? o->max_bytes : total;
    if (!o->min_bytes)
        o->min_bytes = total / 64 < OVERLAP_ELEMENT ? OVERLAP_ELEMENT : total / 64;
    if (o->max_bytes > total || o->min_bytes > o->max_bytes)
        return complain(EXIT_USAGE, "a sweep from buckets of %zu to %zu bytes (-b, -e) does not fit into --bytes %s",
                        o->min_bytes, o->max_bytes, o->bytes);
    if (overlap_options_most(o) > OVERLAP_BUCKETS_MOST)
        return complain(EXIT_USAGE, "-b %zu makes %zu buckets of --bytes %s, and there can be %d", o->min_bytes,
                        overlap_options_most(o), o->bytes, OVERLAP_BUCKETS_MOST);
    return OPTIONS_GO;
}

int overlap_options_read(overlap_options *o, int argc, char **argv)
{
    int rest;
    *o = (overlap_options){.bytes = "64M", .compute = "product", .forward = 1, .row_s = 5, .threads = 1};
    int code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, o, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "'%s' is one word too many (see weft perf overlap --help)", argv[rest]);
    if (o->one && o->buckets > 1)
        return complain(EXIT_USAGE, "--one is a single operation: --buckets %d does not go with it", o->buckets);
    o->operation = operations[o->one];
    code = read_compute(o);
    if (code == OPTIONS_GO && o->ratio > 0 && o->compute_ms > 0)
        return complain(EXIT_USAGE, "--ratio and %s both say how long to compute: say one of them",
                        strchr(o->compute, ':') ? "--compute timed:MS" : "--compute-ms");
    if (o->ratio <= 0)
        o->ratio = o->one ? 1 : 0.5;
    code = code == OPTIONS_GO ? read_shape(o) : code;
    code = code == OPTIONS_GO ? read_sweep(o) : code;
    return code == OPTIONS_GO ? check_memory(o) : code;
}

/* ------------------------------------------------------------------------------------------- the sweep */

static size_t buckets_of(const overlap_options *o, size_t bytes)
{
    size_t total = overlap_shape_total(&o->shape);
    return total / bytes + (total % bytes > 0);
}

size_t overlap_options_most(const overlap_options *o)
{
    return o->sweep ? buckets_of(o, o->min_bytes) : o->shape.count;
}

bool overlap_options_first(const overlap_options *o, overlap_shape *shape)
{
    *shape = o->shape;
    return !o->sweep || overlap_shape_even(shape, overlap_shape_total(&o->shape), buckets_of(o, o->min_bytes));
}

bool overlap_options_next(const overlap_options *o, overlap_shape *shape)
{
    double bytes = (double)o->min_bytes;
    while (o->sweep && (bytes *= o->factor) < (double)o->max_bytes * (1 + 1e-9)) {
        size_t buckets = buckets_of(o, (size_t)bytes);
        if (buckets < shape->count)
            return overlap_shape_even(shape, overlap_shape_total(&o->shape), buckets);
    }
    return false;
}
