/* SPDX-License-Identifier: Apache-2.0 */
/* The options of nccl-tests, and those that it lacks. */
#include "perf/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "out.h"
#include "perf/element.h"

#define FIELD(name) offsetof(perf_settings, name)
/* Any other value would ask for what is not here. */
#define ZERO(help) OPTION_CHOICE, FIELD(only_zero), 0, 0, "0", help

static const option table[] = {
    {"b|minbytes", OPTION_SIZE, FIELD(min_bytes), 0, 1e15, "BYTES", "smallest size; K M G may follow (32M)"},
    {"e|maxbytes", OPTION_SIZE, FIELD(max_bytes), 0, 1e15, "BYTES",
     "largest size (32M, or the smallest if that is more)"},
    {"i|stepbytes", OPTION_SIZE, FIELD(step_bytes), 0, 1e15, "BYTES", "from size to size, without -f (1M)"},
    {"f|stepfactor", OPTION_REAL, FIELD(factor), 1, 1e9, "X", "from size to size, multiplied (1: off)"},
    {"o|op", OPTION_TEXT, FIELD(reduction), 0, 0, "OP", "sum, prod, max, min, avg or all (sum)"},
    {"d|datatype", OPTION_TEXT, FIELD(dtype), 0, 0, "TYPE",
     "float, half, bfloat16, double, int32, int64, uint8 or all (float)"},
    {"r|root", OPTION_TEXT, FIELD(root), 0, 0, "RANK", "root; all, or -1: each in turn (0)"},
    {"t|nthreads", OPTION_INT, FIELD(threads), 1, 256, "N",
     "ranks are N threads of this process, a core each if there are so many"},
    {"g|ngpus", OPTION_INT, FIELD(gpus), 1, 256, "N", "the same, multiplied with -t: there are no GPUs here (1)"},
    {"n|iters", OPTION_INT, FIELD(iterations), 1, 100000, "N", "timed samples (20 or more, see above)"},
    {"w|warmup_iters", OPTION_INT, FIELD(warmup), 0, 1000000, "N", "calls before, not timed (1)"},
    {"m|agg_iters", OPTION_INT, FIELD(aggregate), 1, PERF_IN_FLIGHT_MAX, "N", "operations in flight at once (1)"},
    {"N|run_cycles", OPTION_INT, FIELD(cycles), 0, INT_MAX, "N", "run all of it N times; 0: for ever (1)"},
    {"c|check", OPTION_INT, FIELD(check), 0, 1000, "N",
     "checked calls before the timed ones, which are checked too; 0: no checks (1)"},
    {"z|blocking", OPTION_INT, FIELD(blocking), 0, 3, "N",
     "1: a barrier in each call; 3: one before each sample, not timed (0)"},
    {"a|average", OPTION_INT, FIELD(average), 0, 3, "N",
     "time of 0: rank 0, 1: the mean, 2: the fastest, 3: the slowest rank (3)"},
    {"T|timeout", OPTION_INT, FIELD(timeout_s), 0, 1000000, "SECONDS",
     "deadline of each operation (0: WEFT_TIMEOUT_MS)"},
    {"u|unalign", OPTION_INT, FIELD(unalign), 0, 63, "N", "buffers begin N elements later (0)"},
    {"S|report_timestamps", OPTION_INT, FIELD(timestamps), 0, 1, "0|1", "a column with the time of day (0)"},
    {"I|per_iter_timing", OPTION_INT, FIELD(per_iteration), 0, 1, "0|1", "columns of min, max, p99 and variation (0)"},
    {"J|json|output_file", OPTION_FILE, FIELD(json), 0, 0, "FILE",
     "a line of JSON a row and half; - = standard output, with nothing else"},
    {"csv", OPTION_FILE, FIELD(csv), 0, 0, "FILE", "the same fields, separated by commas"},
    {"backend", OPTION_TEXTS, FIELD(backends), 0, 0, "NAME", "what carries the operations; may be repeated, see above"},
    {"rounds", OPTION_INT, FIELD(rounds), 1, PERF_ROUNDS_MAX, "N", "turns of measuring (1; with several backends 15)"},
    {"buffers", OPTION_CHOICE, FIELD(buffers), 0, 0, "rotated|same|rewritten", "see above (rotated)"},
    {"rotate-bytes", OPTION_SIZE, FIELD(rotate_bytes), 1, 1e12, "BYTES",
     "what a rank rotates through (the last cache, 32M to 128M)"},
    {"memory", OPTION_CHOICE, FIELD(memory), 0, 0, "heap|malloc", "of weft_memory_alloc() or the program's own (heap)"},
    {"row-ms", OPTION_REAL, FIELD(row_ms), 0.001, 1e6, "MS",
     "without -n: measure for so long, all rounds together (50)"},
    {"limits", OPTION_FLAG, FIELD(limits), 0, 0, NULL, "measure and show the limit too, see above"},
    {"contend", OPTION_FLAG, FIELD(contend), 0, 0, NULL,
     "measure again beside a matrix product on every rank, and show what both lose"},
    {"p|parallel_init", OPTION_CHOICE, FIELD(only_zero), 0, 0, "0|1",
     "understood, without effect: ranks always start together"},
    {"G|cudagraph", ZERO("there are no CUDA graphs here: 0")},
    {"y|stream_null", ZERO("there are no CUDA streams here: 0")},
    {"C|report_cputime", ZERO("times are those of completion: 0")},
    {"R|local_register", ZERO("see --memory: 0")},
    {"D|device_implementation", ZERO("there is no device code: 0")},
    {"M", ZERO("nothing is reported of memory: 0")},
    {"K|per_iter_skip", ZERO("no sample is left out: 0")},
};
enum { TABLE = sizeof table / sizeof *table };

static const char usage[] =
    "usage: weft perf OPERATION... [options]\n"
    "       weft perf limits [OPERATION...] [options]\n"
    "       OPERATION_perf [options]\n"
    "\n"
    "operations: all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv\n"
    "hypercube, or all. Table and options are those of nccl-tests. Ranks come from `weft run -n N`, mpirun or\n"
    "torchrun, or are threads (-t N); of one rank alone busbw is 0.\n"
    "\n"
    "time is that of the median sample, and algbw and busbw follow from it. A sample is a run of calls, long enough\n"
    "for the clock: 10 us. Ranks take the time themselves; of each sample that of the slowest rank counts (-a).\n"
    "Without -n there are 20 samples, and more, up to 1000, while they take less than --row-ms. After a barrier at\n"
    "the beginning samples follow each other without one (-z).\n"
    "\n"
    "--buffers rotated: each call takes the next of many buffers, which together do not fit the caches. same: every\n"
    "call takes the same ones; nobody writes the input or reads the output in between, so caches hold what they would\n"
    "not hold in a program. rewritten: before each call every rank writes its input and waits for the others, which\n"
    "is not timed; the time is that of the call and, behind it, of reading the whole output on each rank.\n"
    "\n"
    "#wrong counts elements on all ranks: in calls of their own (-c), and in what the last timed call left in every\n"
    "buffer; in place, reductions have then been repeated on their own results. Wrong values end the command with\n"
    "exit code 7. alltoallv: what rank i has for rank j is nothing, a half or a whole part, by (i + j + 1) mod 3.\n"
    "\n"
    "Several --backend are measured in turn at each size, --rounds times. ratio is the median over the rounds of a\n"
    "backend's median time over that of the first: above 1 it is slower than the first.\n"
    "--limits: the time of the same reads and writes by as many ranks, each in memory of its own, none waiting for\n"
    "another, by the fastest of a few ways to store; share is limit over time. Not with --buffers rewritten, and of\n"
    "reductions only for sums of float.\n"
    "--contend: slower is the time beside a matrix product over the time without, product the part of its rate that\n"
    "was left to the product, which runs on a thread of its own on the cores of each rank.\n"
    "\n"
    "The probe sends a flag to and fro between the cores of ranks 0 and 1: ns one way; more than 160 is called far.";

static const char limits_usage[] =
    "usage: weft perf limits [OPERATION...] [options]        (without an operation: all)\n"
    "\n"
    "What memory allows: the time in which as many ranks make the same reads and writes as the operation, each in\n"
    "memory of its own, none waiting for another, by the fastest of a few ways to store. algbw and busbw follow from "
    "it\n"
    "as in the table of weft perf. N/A: there is nothing to move, as in place on one rank; the averages leave it out.\n"
    "Ranks come from `weft run -n N`, mpirun or torchrun, or are threads (-t N).\n"
    "\n"
    "These options have a meaning here: -b -e -i -f for sizes, -r, -t, -g, -n, -N, -a, -T, -u, -S, -I, -J, --csv,\n"
    "--buffers rotated|same, --rotate-bytes, --memory and --row-ms; -d of what only copies. Of reductions sums of "
    "float\n"
    "are known and no others. --backend, --contend and --buffers rewritten are refused; the rest, which is about the\n"
    "operations themselves, is read and has no effect.";

/* ------------------------------------------------------------------------------------------- names */

/* As nccl-tests call them. The help of -d and -o lists them. */
static const char *const dtype_names[] = {
    [WEFT_FP32] = "float",  [WEFT_BF16] = "bfloat16", [WEFT_FP16] = "half",  [WEFT_FP64] = "double",
    [WEFT_INT32] = "int32", [WEFT_INT64] = "int64",   [WEFT_UINT8] = "uint8"};
static const char *const reduction_names[] = {
    [WEFT_SUM] = "sum", [WEFT_AVERAGE] = "avg", [WEFT_MIN] = "min", [WEFT_MAX] = "max", [WEFT_PRODUCT] = "prod"};
#define ROWS(table) (sizeof(table) / sizeof *(table))
_Static_assert(ROWS(dtype_names) == WEFT_DTYPES && ROWS(reduction_names) == WEFT_REDUCTIONS, "all have names");

const char *perf_dtype_name(weft_dtype dtype)
{
    return dtype_names[dtype];
}

const char *perf_reduction_name(weft_reduction reduction)
{
    return reduction_names[reduction];
}

const char *perf_buffer_mode_name(int mode)
{
    static const char *const names[] = {"rotated", "same", "rewritten"};
    return names[mode];
}

bool perf_can_reduce(weft_dtype dtype, weft_reduction reduction)
{
    return !(perf_element_is_whole(dtype) && reduction == WEFT_AVERAGE);
}

static int read_dtypes(perf_settings *s)
{
    bool all = strcmp(s->dtype, "all") == 0;
    for (int d = 0; d < WEFT_DTYPES; d++)
        if (all || strcmp(s->dtype, dtype_names[d]) == 0 || strcmp(s->dtype, weft_dtype_string((weft_dtype)d)) == 0)
            s->dtypes[s->dtype_count++] = (weft_dtype)d;
    if (!s->dtype_count)
        return complain(EXIT_USAGE, "-d is '%s': weft has float, half, bfloat16, double, int32, int64, uint8",
                        s->dtype);
    return OPTIONS_GO;
}

static int read_reductions(perf_settings *s)
{
    bool all = strcmp(s->reduction, "all") == 0;
    for (int o = 0; o < WEFT_REDUCTIONS; o++)
        if (all || strcmp(s->reduction, reduction_names[o]) == 0 ||
            strcmp(s->reduction, weft_reduction_string((weft_reduction)o)) == 0)
            s->reductions[s->reduction_count++] = (weft_reduction)o;
    if (!s->reduction_count)
        return complain(EXIT_USAGE, "-o is '%s': weft has sum, prod, max, min, avg", s->reduction);
    if (!all && s->dtype_count == 1 && !perf_can_reduce(s->dtypes[0], s->reductions[0]))
        return complain(EXIT_USAGE, "there is no %s of %s (-o, -d)", s->reduction, s->dtype);
    return OPTIONS_GO;
}

static int read_root(perf_settings *s)
{
    char *end;
    errno = 0;
    long root = strcmp(s->root, "all") == 0 ? -1 : strtol(s->root, &end, 10);
    bool number = strcmp(s->root, "all") == 0 || (end != s->root && !*end && !errno);
    if (!number || root < -1 || root > INT_MAX)
        return complain(EXIT_USAGE, "-r is '%s', not a rank, -1 or all", s->root);
    s->first_root = (int)root;
    return OPTIONS_GO;
}

/* ------------------------------------------------------------------------------------------- words */

static bool has(const perf_settings *s, const perf_operation *operation)
{
    for (int i = 0; i < s->operation_count; i++)
        if (s->operations[i] == operation)
            return true;
    return false;
}

static void add(perf_settings *s, const perf_operation *operation)
{
    if (!has(s, operation))
        s->operations[s->operation_count++] = operation;
}

static void add_all(perf_settings *s)
{
    for (size_t i = 0; perf_operation_at(i); i++)
        add(s, perf_operation_at(i));
}

static bool is_operation(const char *word)
{
    return strcmp(word, "all") == 0 || perf_operation_named(word, strlen(word));
}

static int take_operation(void *settings, const char *word)
{
    perf_settings *s = settings;
    const perf_operation *operation = perf_operation_named(word, strlen(word));
    if (strcmp(word, "all") == 0)
        add_all(s);
    else if (operation)
        add(s, operation);
    else
        return complain(EXIT_USAGE, "there is no operation '%s' (see weft perf --help)", word);
    return OPTIONS_GO;
}

/* A program of one operation, such as all_reduce_perf, takes no other. */
static int take_none(void *settings, const char *word)
{
    (void)settings;
    return complain(EXIT_USAGE, "'%s' is one word too many (see --help)", word);
}

/* A value may follow its letter at once, as in -b8: here it becomes a word of its own. */
static char **take_apart(int argc, char **argv, int *count)
{
    static char letters[UCHAR_MAX + 1][3], help[] = "--help";
    char **words = malloc((2 * (size_t)argc + 1) * sizeof *words);
    *count = 0;
    for (int i = 0; words && i < argc; i++) {
        const char *value;
        char *letter = letters[(unsigned char)(argv[i][0] == '-' ? argv[i][1] : 0)];
        snprintf(letter, sizeof *letters, "%.2s", argv[i][0] == '-' ? argv[i] : "");
        bool attached = letter[0] && letter[1] && letter[1] != '-' && argv[i][2] && argv[i][2] != '=' &&
                        !options_find(table, TABLE, argv[i], &value) && options_find(table, TABLE, letter, &value);
        if (attached)
            words[(*count)++] = letter;
        words[(*count)++] = attached ? argv[i] + 2 : strcmp(argv[i], "-h") == 0 ? help : argv[i];
    }
    return words;
}

/* What has no limit, or none that is known. */
static int check_limits(const perf_settings *s)
{
    bool reduces = false, float_only = s->dtype_count == 1 && s->dtypes[0] == WEFT_FP32;
    for (int i = 0; i < s->operation_count; i++)
        reduces |= s->operations[i]->reduces;
    if (s->backends.count)
        return complain(EXIT_USAGE, "--backend does not go with limits: none carries them");
    if (s->contend)
        return complain(EXIT_USAGE, "--contend does not go with limits: there is no operation beside the product");
    if (s->buffers == PERF_REWRITTEN)
        return complain(EXIT_USAGE, "--buffers rewritten does not go with limits: rotated and same do");
    if (reduces && !float_only)
        return complain(EXIT_USAGE, "-d %s: the limits of reductions are known for float only", s->dtype);
    if (reduces && (s->reduction_count > 1 || s->reductions[0] != WEFT_SUM))
        return complain(EXIT_USAGE, "-o %s: the limits of reductions are known for sum only", s->reduction);
    return OPTIONS_GO;
}

static int complete(perf_settings *s, int argc, char **argv)
{
    bool given_max = options_given("e|maxbytes", argc, argv);
    bool given_min = options_given("b|minbytes", argc, argv);
    if (!given_max && s->max_bytes < s->min_bytes)
        s->max_bytes = s->min_bytes;
    if (!given_min && s->min_bytes > s->max_bytes)
        s->min_bytes = s->max_bytes;
    if (s->min_bytes > s->max_bytes)
        return complain(EXIT_USAGE, "-b %zu is more than -e %zu", s->min_bytes, s->max_bytes);
    if (out_apart("--json", s->json, "--csv", s->csv) != EXIT_DONE)
        return EXIT_USAGE;
    if (s->aggregate > 1 && s->buffers == PERF_REWRITTEN)
        return complain(EXIT_USAGE, "-m %d does not go with --buffers rewritten: there is one input", s->aggregate);
    for (int i = 0; i < s->operation_count; i++)
        if (s->aggregate > 1 && !s->operations[i]->start && s->operations[i]->collective < 0)
            return complain(EXIT_USAGE, "-m %d: %s is several batches, one after the other", s->aggregate,
                            s->operations[i]->name);
    if (s->rounds == 0)
        s->rounds = s->backends.count > 1 ? 15 : 1;
    int code = read_dtypes(s);
    code = code == OPTIONS_GO ? read_reductions(s) : code;
    code = code == OPTIONS_GO ? read_root(s) : code;
    return code == OPTIONS_GO && s->limits_only ? check_limits(s) : code;
}

static int read_words(perf_settings *s, const perf_operation *only, int argc, char **argv)
{
    const options_operands any = {is_operation, take_operation, s}, none = {NULL, take_none, s};
    if (only)
        add(s, only);
    int code =
        options_read_mixed(s->limits_only ? limits_usage : usage, table, TABLE, argc, argv, s, only ? &none : &any);
    if (code == OPTIONS_GO && s->operation_count == 0 && s->limits_only)
        add_all(s);
    if (code == OPTIONS_GO && s->operation_count == 0)
        return complain(EXIT_USAGE, "which operation? (see weft perf --help)");
    return code == OPTIONS_GO ? complete(s, argc, argv) : code;
}

int perf_settings_read(perf_settings *s, const perf_operation *only, int argc, char **argv)
{
    bool limits_only = s->limits_only;
    *s = (perf_settings){.threads = 1,
                         .gpus = 1,
                         .min_bytes = 32u << 20,
                         .max_bytes = 32u << 20,
                         .step_bytes = 1u << 20,
                         .factor = 1,
                         .warmup = 1,
                         .aggregate = 1,
                         .cycles = 1,
                         .check = 1,
                         .reduction = "sum",
                         .dtype = "float",
                         .root = "0",
                         .average = 3,
                         .row_ms = 50,
                         .limits_only = limits_only,
                         .limits = limits_only};
    int count;
    char **words = take_apart(argc, argv, &count);
    int code = words ? read_words(s, only, count, words) : complain(EXIT_FAILED, "no memory for the options");
    free(words); /* the texts are those of argv */
    return code;
}

size_t perf_next_size(const perf_settings *s, size_t bytes)
{
    double next = s->factor > 1 ? (bytes ? (double)bytes * s->factor : 1) : (double)bytes + (double)s->step_bytes;
    if (next > (double)s->max_bytes || (size_t)next <= bytes)
        return 0;
    return (size_t)next;
}
