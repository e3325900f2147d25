/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof`: picks what is to be made of a trace. */
#include "prof/prof.h"

#include "menu.h"
#include "subcommands.h"

static const menu_item views[] = {
    {"cost", "what tracing costs: steps with and without it, in turn (needs no DIR)", prof_cost},
    {"html", "a page with timelines that says the same as the report, for a browser", prof_html},
    {"report", "what was hidden, what was not, and why, as text and JSON", prof_report},
    {"trace", "trace events, for ui.perfetto.dev", prof_trace},
};

static const menu all = {
    "weft prof",
    "usage: weft prof VIEW [options] DIR\n\nReads the traces that the ranks of a run wrote into folder "
    "DIR (--trace DIR, WEFT_TRACE=DIR).\n\nviews (each has --help):\n",
    "view", views, sizeof views / sizeof *views};

int command_prof(int argc, char **argv)
{
    return menu_run(&all, argc, argv);
}
