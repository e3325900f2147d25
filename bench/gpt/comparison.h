/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with overlap beside the same without, and what follows from them. Milliseconds a step, means over steps and
 * ranks. */
#ifndef WEFT_BENCH_GPT_COMPARISON_H
#define WEFT_BENCH_GPT_COMPARISON_H
#include "gpt/times.h"

/* What a step is made of if its communication is that of buckets alone. */
typedef struct gpt_phases {
    double forward, backward, optimizer;     /* computing, without overlap */
    double reduces, gathers;                 /* what a perfect overlap must leave exposed of them ... */
    double reduces_exposed, gathers_exposed; /* ... and what was */
    double reduces_alone, gathers_alone;     /* all of them, with nothing computed */
} gpt_phases;

typedef struct gpt_comparison {
    double steps; /* of each kind that were counted; 0: nothing was compared */
    gpt_times overlapped, serial;
    double talks, talk_ms; /* how often the communication was done alone, and how long operations were under way */
    /* Of a step with overlap beside those without that follow it: less than them, and more than their slowest rank
     * computes. The medians over pairs of blocks, since cores may be slow for a while, and half of the interval that
     * holds each with 95 %; not finite of less than 6 pairs. */
    double saved_ms, saved_error_ms;
    double exposed_ms, exposed_error_ms;
    gpt_phases phases; /* forward 0: unknown */
} gpt_comparison;

/* What the overlap saved, of the communication. */
double gpt_comparison_eta(const gpt_comparison *c);
/* The step that a perfect overlap would take, and the one that it took, by the computing of steps without. */
double gpt_comparison_perfect(const gpt_comparison *c);
double gpt_comparison_took(const gpt_comparison *c);
/* By the intervals of the trace: what was hidden of the time in which operations were under way. */
double gpt_comparison_hidden(const gpt_comparison *c);

#endif
