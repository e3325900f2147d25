/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof report`: its options, and the limit that a run may be held to. */
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "out.h"
#include "prof/prof.h"
#include "prof/report.h"
#include "prof/view.h"

typedef struct report_values {
    const char *json, *step, *fail_exposed;
    int rank;
} report_values;

#define AT(field) offsetof(report_values, field)
static const option table[] = {
    {"step", OPTION_TEXT, AT(step), 0, 0, "N|A-B", "look at these steps (all but the first)"},
    {"rank", OPTION_INT, AT(rank), 0, 1 << 24, "R", "look at this rank (all)"},
    {"json", OPTION_FILE, AT(json), 0, 0, "FILE", "one JSON object; - = standard output, with nothing else"},
    {"fail-exposed", OPTION_TEXT, AT(fail_exposed), 0, 0, "PART",
     "exit with 3 if more than this part of the step is exposed: 5%"},
};
enum { OPTIONS = sizeof table / sizeof *table };

static const char usage[] =
    "usage: weft prof report [options] DIR\n\n"
    "Reads the traces that the ranks of a run wrote into folder DIR, also of ranks that were killed, and says where "
    "the\n"
    "time of a step went (milliseconds): how much communication computing hid, what was exposed and why, which ranks "
    "came\n"
    "last, and what may be done. The closed form is what a perfect overlap would leave exposed.\n\n"
    "Exit code: 0 done; 1 there is no trace that can be read; 2 wrong usage; 3 more was exposed than --fail-exposed.";

/* "5%" is 0.05. */
static bool read_part(const char *text, double *part_out)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0 || !(percent >= 0 && percent <= 100))
        return false;
    *part_out = percent / 100;
    return true;
}

/* "7", or "7-9". */
static bool read_steps(const char *text, uint64_t *first, uint64_t *last)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *first = *last = strtoull(text, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        *last = strtoull(end + 1, &end, 10);
    return *end == 0 && *first <= *last;
}

/* The steps and the rank that were asked for, among those there are. */
static int select_from(const prof_run *run, const report_values *v, prof_selection *selection)
{
    *selection = prof_select_default(run);
    if (v->rank >= 0) {
        selection->rank = prof_rank_index(run, v->rank);
        if (selection->rank < 0)
            return complain(EXIT_USAGE, "--rank %d: there is no trace of it in '%s'", v->rank, run->folder);
    }
    uint64_t first, last;
    if (!v->step)
        return OPTIONS_GO;
    if (!read_steps(v->step, &first, &last))
        return complain(EXIT_USAGE, "--step is '%s', not N or A-B", v->step);
    int from = 0, to = run->step_count - 1;
    while (from < run->step_count && run->steps[from].number < first)
        from++;
    while (to >= 0 && run->steps[to].number > last)
        to--;
    if (from > to)
        return complain(EXIT_USAGE, "--step %s: the trace has steps %llu to %llu", v->step,
                        (unsigned long long)run->steps[0].number,
                        (unsigned long long)run->steps[run->step_count - 1].number);
    selection->first = from;
    selection->last = to;
    return OPTIONS_GO;
}

static int print(const prof_analysis *a, const report_values *v)
{
    FILE *json = v->json ? out_open(v->json) : NULL;
    if (v->json && !json)
        return out_complain(v->json);
    double record_ns = prof_record_cost();
    if (json)
        prof_print_json(json, a, record_ns);
    if (json != stdout)
        prof_print_text(stdout, a, record_ns);
    return json && !out_close(json) ? out_complain(v->json) : EXIT_DONE;
}

static int judge(const prof_analysis *a, const report_values *v, double most)
{
    const prof_budget *b = &a->totals.mean;
    if (!v->fail_exposed)
        return EXIT_DONE;
    if (a->totals.windows == 0)
        return complain(EXIT_FAILED, "there is no whole step in '%s' to hold to --fail-exposed", a->run->folder);
    if (b->exposed <= most * b->step)
        return EXIT_DONE;
    return complain(EXIT_LIMIT, "%.2f %% of the step is exposed, more than %s", prof_percent(b->exposed, b->step),
                    v->fail_exposed);
}

static int report(const prof_run *run, const report_values *v, double most)
{
    prof_split split = {0};
    prof_analysis a = {0};
    prof_selection selection;
    int code = select_from(run, v, &selection);
    if (code != OPTIONS_GO)
        return code;
    if (prof_split_open(run, &split) && prof_analyse(&split, selection, &a))
        code = print(&a, v);
    else
        code = complain(EXIT_FAILED, "no memory for the trace");
    if (code == EXIT_DONE)
        code = judge(&a, v, most);
    prof_analysis_close(&a);
    prof_split_close(&split);
    return code;
}

int prof_report(int argc, char **argv)
{
    report_values v = {.rank = -1};
    const char *folder;
    double most = 1;
    int code = prof_view_options(usage, table, OPTIONS, argc, argv, &v, &folder);
    if (code != OPTIONS_GO)
        return code;
    if (v.fail_exposed && !read_part(v.fail_exposed, &most))
        return complain(EXIT_USAGE, "--fail-exposed is '%s', not a part of the step such as 5%%", v.fail_exposed);
    code = out_spare("--json", v.json, folder, PROF_FILES);
    if (code != EXIT_DONE)
        return code;
    prof_run run;
    code = prof_run_open(folder, &run);
    if (code == EXIT_DONE)
        code = report(&run, &v, most);
    prof_run_close(&run);
    return code;
}
