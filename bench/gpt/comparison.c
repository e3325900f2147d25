/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a comparison. */
#include "gpt/comparison.h"

#include <math.h>

double gpt_comparison_eta(const gpt_comparison *c)
{
    static const double least = 1e-3; /* of a step: less is no communication to speak of */
    if (c->steps == 0 || c->talk_ms <= least * c->serial.ms[GPT_TIME_STEP])
        return (double)NAN;
    return c->saved_ms / c->talk_ms;
}

double gpt_comparison_perfect(const gpt_comparison *c)
{
    const gpt_phases *p = &c->phases;
    return p->forward > 0 ? p->forward + p->backward + p->optimizer + p->reduces + p->gathers : (double)NAN;
}

double gpt_comparison_took(const gpt_comparison *c)
{
    const gpt_phases *p = &c->phases;
    return p->forward > 0 ? p->forward + p->backward + p->optimizer + c->exposed_ms : (double)NAN;
}

double gpt_comparison_hidden(const gpt_comparison *c)
{
    double communicating = gpt_times_communicating(&c->overlapped);
    return communicating > 0 ? c->overlapped.ms[GPT_TIME_HIDDEN] / communicating : (double)NAN;
}
