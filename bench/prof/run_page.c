/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the page together. */
#include "prof/run_page.h"

#include <inttypes.h>
#include <stdlib.h>

#include "page.h"
#include "plural.h"
#include "prof/timeline.h"

static const char rules[] =
    ".timeline { user-select: none; } .timeline .labels { pointer-events: none; }\n"
    ".timeline .spans rect, .timeline .operations rect { stroke: var(--edge); stroke-width: 0.6px;\n"
    "  vector-effect: non-scaling-stroke; }\n"
    "button { font: inherit; min-width: 2.2em; }\n";

static bool put_timelines(FILE *out, const prof_page *p)
{
    int *ranks = malloc((size_t)p->run->count * sizeof *ranks);
    bool done = ranks != NULL;
    for (int i = 0; done && i < p->run->count; i++)
        ranks[i] = i;
    for (int i = 0; done && i < p->step_count; i++) {
        timeline t = {.run = p->run, .step = p->steps[i], .ranks = ranks, .count = p->run->count, .most = 12000};
        page_text(out, "h3", "Step %" PRIu64, p->run->steps[p->steps[i]].number);
        done = timeline_draw(out, &t);
    }
    free(ranks);
    return done;
}

/* To a reader of XML it is text, to one of HTML a script with comments around it. */
static void put_script(FILE *out)
{
    fputs("<script>//<![CDATA[\n", out);
    for (const char *const *line = prof_page_script; *line; line++)
        fprintf(out, "%s\n", *line);
    fputs("//]]></script>\n", out);
}

bool prof_page_write(FILE *out, const prof_page *p)
{
    page_open(out,
              &(page_head){.title = "weft prof", .heading = "A run", .width = TIMELINE_WIDTH + 20, .rules = rules});
    page_text(out, "h2", "Timeline");
    bool done = put_timelines(out, p);
    put_script(out);
    page_close(out);
    return done;
}
