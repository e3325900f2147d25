/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof trace`: a run as a file of trace events. */
#include "prof/prof.h"
#include "prof/trace_events.h"
#include "prof/view.h"

static const char usage[] = "usage: weft prof trace DIR [--out FILE]\n\n"
                            "Writes the traces in DIR as trace events (JSON), which ui.perfetto.dev and "
                            "chrome://tracing open: a process for each\n"
                            "rank; in it steps, computing, waiting, the spans that were marked, and a track for each "
                            "comm. Arrows lead from where\n"
                            "an operation was started to where it was finished, from the sender of a message to its "
                            "receiver, and from the rank\n"
                            "that came last to those that waited for it more than a tenth of the operation. Counters "
                            "say how many operations and\n"
                            "bytes are in flight, and what share of a step was exposed.";

typedef struct values {
    const char *out;
} values;

static const option table[] = {
    {"out", OPTION_FILE, offsetof(values, out), 0, 0, "FILE", "where to; - = standard output (DIR/trace.json)"},
};

static bool write(FILE *out, const prof_split *split, void *state)
{
    (void)state;
    return prof_trace_events(out, split);
}

int prof_trace(int argc, char **argv)
{
    static const prof_view view = {.name = "trace.json", .write = write};
    values v = {0};
    const char *folder;
    int code = prof_view_options(usage, table, sizeof table / sizeof *table, argc, argv, &v, &folder);
    return code == OPTIONS_GO ? prof_view_write(&view, folder, v.out, NULL) : code;
}
