/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a comparison. */
#include "gpt/comparison.h"

#include <math.h>

double gpt_comparison_error(double pairs, double sum, double squares)
{
    if (pairs < 2)
        return (double)NAN;
    double variance = (squares - sum * sum / pairs) / (pairs - 1);
    return 2 * sqrt(fmax(variance, 0) / pairs);
}

double gpt_comparison_eta(const gpt_comparison *c)
{
    static const double least = 1e-3; /* of a step: less is no communication to speak of */
    double serial = c->serial.ms[GPT_TIME_STEP];
    if (c->steps == 0 || c->talk_ms <= least * serial)
        return (double)NAN;
    return (serial - c->overlapped.ms[GPT_TIME_STEP]) / c->talk_ms;
}

double gpt_comparison_perfect(const gpt_comparison *c)
{
    const gpt_phases *p = &c->phases;
    return p->forward > 0 ? p->forward + p->backward + p->optimizer + p->reduces + p->gathers : (double)NAN;
}

double gpt_comparison_hidden(const gpt_comparison *c)
{
    double communicating = gpt_times_communicating(&c->overlapped);
    return communicating > 0 ? c->overlapped.ms[GPT_TIME_HIDDEN] / communicating : (double)NAN;
}
