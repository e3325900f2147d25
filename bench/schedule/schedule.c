/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule`: makes, shows and checks pipeline schedules. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/log.h>
#include <weft/schedule.h>

#include "complain.h"
#include "option.h"
#include "out.h"
#include "picture.h"
#include "subcommands.h"
#include "table.h"

typedef struct values {
    int policy; /* index into the choices; -1 = none */
    int stages, microbatches, chunks, group;
    int forward_slots, backward_slots, weights_slots, message_slots;
    bool forward_only, run_ahead;
    int queues, batching;
    bool no_lookahead, align_sync;
    const char *csv, *text, *svg, *verify;
} values;

#define FIELD(name) offsetof(values, name)

/* The policies to choose from, as the library has them. */
static struct {
    weft_policy at[WEFT_POLICIES];
    int count;
    char names[16 * WEFT_POLICIES]; /* "gpipe|1f1b|..." */
} choices;

static const option table[] = {
    {"policy", OPTION_CHOICE, FIELD(policy), 0, 0, choices.names, "who writes the schedule"},
    {"p", OPTION_INT, FIELD(stages), 1, 65536, "STAGES", "pipeline stages"},
    {"m", OPTION_INT, FIELD(microbatches), 1, 16777216, "N", "microbatches of one step"},
    {"v", OPTION_INT, FIELD(chunks), 1, 65536, "CHUNKS", "model chunks a stage, for policies that take several (1)"},
    {"g", OPTION_INT, FIELD(group), 1, 16777216, "N",
     "with several chunks: microbatches a chunk takes before the next chunk's turn (STAGES)"},
    {"forward-only", OPTION_FLAG, FIELD(forward_only), 0, 0, NULL, "evaluation: no backwards"},
    {"run-ahead", OPTION_FLAG, FIELD(run_ahead), 0, 0, NULL,
     "1f1b: two forwards ahead for each stage behind, not one, so that messages hide; keeps more activations"},
    {"queues", OPTION_CHOICE, FIELD(queues), 0, 0, "direction|peer|channel|one",
     "prove it for a backend with a queue for each of these, or with a single one (direction)"},
    {"batching", OPTION_CHOICE, FIELD(batching), 0, 0, "auto|none|exchange|step",
     "how messages are grouped (auto: as little as the queues allow)"},
    {"no-lookahead", OPTION_FLAG, FIELD(no_lookahead), 0, 0, NULL, "without batches: post receives as late as is safe"},
    {"align-sync", OPTION_FLAG, FIELD(align_sync), 0, 0, NULL, "begin gradient reductions on all stages together"},
    {"slots-f", OPTION_INT, FIELD(forward_slots), 1, 1000, "N", "slots of time a forward takes (1)"},
    {"slots-b", OPTION_INT, FIELD(backward_slots), 1, 1000, "N",
     "... the gradient of the input, which is B where backwards are split (1)"},
    {"slots-w", OPTION_INT, FIELD(weights_slots), 1, 1000, "N",
     "... the gradients of the weights: W, or the rest of a B that is not split (1)"},
    {"slots-message", OPTION_INT, FIELD(message_slots), 0, 1000, "N",
     "... a message, from the end of what makes it until it is there (0)"},
    {"csv", OPTION_FILE, FIELD(csv), 0, 0, "FILE", "write every action instead, messages included, as CSV"},
    {"text", OPTION_FILE, FIELD(text), 0, 0, "FILE", "write every action instead, messages included, a line a stage"},
    {"svg", OPTION_FILE, FIELD(svg), 0, 0, "FILE", "draw it instead, messages included, as SVG; - = standard output"},
    {"verify", OPTION_TEXT, FIELD(verify), 0, 0, "FILE",
     "check this schedule, CSV or text (- = standard input); if it has no messages they are added first"},
};

static const char usage_format[] =
    "usage: weft schedule --policy %s -p STAGES -m MICROBATCHES [-v CHUNKS] [options]\n"
    "       weft schedule --verify FILE [options]\n\n"
    "Prints when each stage of a pipeline computes what, if no message waits for another, and what it has to keep. "
    "Every\n"
    "schedule printed has been proved: nothing in it can deadlock, and every tensor arrives where it belongs. Exit\n"
    "code 1: the schedule is wrong; what is wrong is named.";

/* Names of the policies with all of @p traits, each but the first behind @p between. */
static void list_policies(uint32_t traits, const char *between, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (int policy = 0; policy < WEFT_POLICIES; policy++)
        if ((weft_policy_traits((weft_policy)policy) & traits) == traits && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? between : "",
                                     weft_policy_string((weft_policy)policy));
}

static void find_choices(void)
{
    choices.count = 0;
    for (int policy = 0; policy < WEFT_POLICIES; policy++)
        if (weft_policy_traits((weft_policy)policy) & WEFT_POLICY_WRITES)
            choices.at[choices.count++] = (weft_policy)policy;
    list_policies(WEFT_POLICY_WRITES, "|", choices.names, sizeof choices.names);
}

static void drop(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

/* Pass on what the library said last. */
static int complain_of(int code)
{
    return complain(code, "%s", weft_last_error());
}

/* ---- reading ---- */

/* The whole of a file, to be freed; NULL after a complaint. */
static char *read_all(const char *path, size_t *bytes)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    *bytes = 0;
    while (file && !feof(file) && !ferror(file)) {
        if (*bytes == room) {
            char *grown = realloc(text, room = room ? 2 * room : 65536);
            if (!grown)
                break;
            text = grown;
        }
        *bytes += fread(text + *bytes, 1, room - *bytes, file);
    }
    bool whole = file && feof(file) && !ferror(file);
    int saved = errno;
    if (file && file != stdin)
        fclose(file);
    if (whole)
        return text;
    free(text);
    complain(0, "%s: %s", path, strerror(saved));
    return NULL;
}

static bool has_messages(const weft_schedule *s)
{
    for (uint32_t stage = 0; stage < weft_schedule_stages(s); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(s, stage, &count);
        for (size_t i = 0; i < count; i++)
            if (weft_action_is_message(at[i].kind))
                return true;
    }
    return false;
}

/* ---- the schedule asked for ---- */

static int lower(const values *v, weft_schedule **schedule)
{
    weft_lower_config config = WEFT_LOWER_CONFIG_INIT;
    weft_schedule *lowered;
    config.queues = (weft_queues)v->queues;
    config.batching = (weft_batching)v->batching;
    config.flags = (v->no_lookahead ? WEFT_LOWER_NO_LOOKAHEAD : 0u) | (v->align_sync ? WEFT_LOWER_ALIGN_SYNC : 0u);
    if (weft_schedule_lower(*schedule, &config, &lowered) < 0)
        return complain_of(EXIT_FAILED);
    weft_schedule_destroy(*schedule);
    *schedule = lowered;
    return EXIT_DONE;
}

static int read_schedule(const values *v, weft_schedule **schedule)
{
    size_t bytes;
    char *text = read_all(v->verify, &bytes);
    if (!text)
        return EXIT_USAGE;
    weft_result result = weft_schedule_read(text, bytes, schedule);
    free(text);
    if (result < 0)
        return complain(EXIT_USAGE, "%s: %s", v->verify, weft_last_error());
    return has_messages(*schedule) ? EXIT_DONE : lower(v, schedule);
}

static int make_schedule(const values *v, weft_schedule **schedule)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = choices.at[v->policy];
    config.stages = (uint32_t)v->stages;
    config.microbatches = (uint32_t)v->microbatches;
    config.chunks = (uint32_t)v->chunks;
    config.group = (uint32_t)v->group;
    config.flags = (v->forward_only ? WEFT_SCHEDULE_FORWARD_ONLY : 0u) | (v->run_ahead ? WEFT_SCHEDULE_RUN_AHEAD : 0u);
    if (weft_schedule_create(&config, schedule) < 0)
        return complain_of(EXIT_USAGE);
    return lower(v, schedule);
}

/* ---- showing ---- */

static int write_actions(const weft_schedule *s, weft_schedule_format format, const char *path)
{
    size_t bytes = weft_schedule_write(s, format, NULL, 0) + 1;
    char *text = malloc(bytes);
    if (!text)
        return complain(EXIT_FAILED, "no memory for %zu bytes of text", bytes);
    weft_schedule_write(s, format, text, bytes);
    FILE *out = out_open(path);
    if (out)
        fputs(text, out);
    free(text);
    return out && out_close(out) ? EXIT_DONE : out_complain(path);
}

static const char *name_of(const values *v)
{
    if (!v->verify)
        return weft_policy_string(choices.at[v->policy]);
    return strcmp(v->verify, "-") == 0 ? "standard input" : v->verify;
}

static void print_title(const values *v, const weft_schedule *s)
{
    printf("%s: stages p = %u, microbatches m = %u, chunks a stage v = %u\n", name_of(v), weft_schedule_stages(s),
           weft_schedule_microbatches(s), weft_schedule_chunks(s));
}

/* A proof for one kind of queues holds for all that are more independent; perhaps there is one for others as well. */
static void print_queues(const weft_schedule *s)
{
    static const char *const names[] = {"direction", "peer", "channel", "one"};
    printf("proved: every tensor arrives where it belongs, and nothing deadlocks with queues:");
    for (int queues = WEFT_QUEUES_DIRECTION; queues <= WEFT_QUEUES_ONE; queues++) {
        weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
        config.queues = (weft_queues)queues;
        if (weft_schedule_verify(s, &config, NULL) == WEFT_OK)
            printf(" %s", names[queues]);
    }
    putchar('\n');
}

static int print_tables(const values *v, const timeline *line, const weft_stage_needs *needs)
{
    print_title(v, line->schedule);
    table_print_times(line);
    table_print_needs(line->schedule, needs);
    print_queues(line->schedule);
    return EXIT_DONE;
}

static int draw(const values *v, const timeline *line, const weft_times_config *times)
{
    FILE *out = out_open(v->svg);
    if (!out)
        return out_complain(v->svg);
    bool drawn = picture_draw(out, line, times, name_of(v));
    if (!out_close(out))
        return out_complain(v->svg);
    return drawn ? EXIT_DONE : complain(EXIT_FAILED, "no memory for the picture");
}

static int show_times(const values *v, const weft_schedule *s, const weft_stage_needs *needs)
{
    weft_times_config times = WEFT_TIMES_CONFIG_INIT;
    timeline line;
    times.forward = (uint32_t)v->forward_slots;
    times.backward = (uint32_t)v->backward_slots;
    times.weights = (uint32_t)v->weights_slots;
    times.message = (uint32_t)v->message_slots;
    if (timeline_open(&line, s, &times) < 0)
        return complain_of(EXIT_FAILED);
    int code = v->svg ? draw(v, &line, &times) : print_tables(v, &line, needs);
    timeline_close(&line);
    return code;
}

static int show(const values *v, const weft_schedule *s)
{
    weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
    weft_stage_needs *needs = calloc(weft_schedule_stages(s), sizeof *needs);
    int code;
    config.queues = (weft_queues)v->queues;
    if (!needs)
        code = complain(EXIT_FAILED, "no memory for %u stages", weft_schedule_stages(s));
    else if (weft_schedule_verify(s, &config, needs) < 0)
        code = complain_of(EXIT_FAILED);
    else if (v->csv || v->text)
        code = v->csv ? write_actions(s, WEFT_SCHEDULE_CSV, v->csv) : write_actions(s, WEFT_SCHEDULE_TEXT, v->text);
    else
        code = show_times(v, s, needs);
    free(needs);
    if (fflush(stdout) != 0 && code == EXIT_DONE)
        code = complain(EXIT_FAILED, "standard output: %s", strerror(errno));
    return code;
}

static int spare_input(const values *v)
{
    const struct {
        const char *option, *path;
    } files[] = {{"--svg", v->svg}, {"--csv", v->csv}, {"--text", v->text}};
    int code = EXIT_DONE;
    for (size_t i = 0; i < sizeof files / sizeof *files && code == EXIT_DONE; i++)
        code = out_spare(files[i].option, files[i].path, v->verify, "*");
    return code;
}

/* What fits together? */
static int check(const values *v, int argc, char **argv)
{
    static const char *const shape[] = {"policy", "p", "m", "v", "g", "forward-only", "run-ahead"};
    for (size_t i = 0; v->verify && i < sizeof shape / sizeof *shape; i++)
        if (options_given(shape[i], argc, argv))
            return complain(EXIT_USAGE, "--verify takes its schedule from the file, so %s%s says nothing",
                            shape[i][1] ? "--" : "-", shape[i]);
    if (!!v->csv + !!v->text + !!v->svg > 1)
        return complain(EXIT_USAGE, "--csv, --text or --svg: one of them");
    if (v->verify)
        return spare_input(v);
    if (v->policy < 0)
        return complain(EXIT_USAGE, "--policy %s or --verify FILE is missing", choices.names);
    if (v->stages == 0 || v->microbatches == 0)
        return complain(EXIT_USAGE, "%s is missing",
                        v->stages ? "-m, the number of microbatches," : "-p, the number of stages,");
    if (v->group && !(weft_policy_traits(choices.at[v->policy]) & WEFT_POLICY_GROUPS)) {
        char names[sizeof choices.names];
        list_policies(WEFT_POLICY_GROUPS, "|", names, sizeof names);
        return complain(EXIT_USAGE, "-g is for --policy %s", names);
    }
    return EXIT_DONE;
}

int command_schedule(int argc, char **argv)
{
    values v = {.policy = -1, .chunks = 1};
    char usage[sizeof usage_format + sizeof choices.names];
    find_choices();
    snprintf(usage, sizeof usage, usage_format, choices.names);
    int rest, code = options_read(usage, table, sizeof table / sizeof *table, argc, argv, &v, &rest);
    if (code != OPTIONS_GO)
        return code;
    if (rest < argc)
        return complain(EXIT_USAGE, "schedule: '%s' is no option", argv[rest]);
    code = check(&v, argc, argv);
    if (code != EXIT_DONE)
        return code;
    weft_log_set(WEFT_LOG_ERROR, drop, NULL); /* each failure is complained of once, here */
    weft_schedule *schedule = NULL;
    code = (v.verify ? read_schedule : make_schedule)(&v, &schedule);
    if (code == EXIT_DONE)
        code = show(&v, schedule);
    weft_schedule_destroy(schedule);
    return code;
}
