/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how a batch is cut into microbatches, and how it grows. */
#include "gpt/batch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

size_t gpt_batch_microbatches(size_t global, size_t micro, size_t ranks, bool round_down)
{
    size_t at_once = micro * ranks;
    return round_down || global % at_once == 0 ? global / at_once : 0;
}

/* A whole number, once the letter behind it has multiplied it; false if there is none. */
static bool read_number(const char **text, uint64_t *number)
{
    static const char letters[] = "KMBT";
    char *end;
    double value = isdigit((unsigned char)**text) ? strtod(*text, &end) : -1;
    if (value < 0)
        return false;
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    for (long i = letter ? letter - letters : -1; i >= 0; i--)
        value *= 1000;
    if (value > 0x1p53)
        return false;
    *number = (uint64_t)value;
    *text = end + (letter != NULL);
    return true;
}

static bool read_stage(const char **text, size_t sequence, gpt_batch_stage *stage)
{
    if (!read_number(text, &stage->from) || *(*text)++ != ':' || !read_number(text, &stage->samples))
        return false;
    stage->from /= sequence ? sequence : 1;
    return stage->samples > 0 && (**text == 0 || **text == ' ');
}

int gpt_batch_read(gpt_batch_course *course, const char *text, size_t sequence, gpt_failure *failure)
{
    const char *at = text;
    *course = (gpt_batch_course){0};
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        gpt_batch_stage stage = {0};
        if (course->count == GPT_BATCH_STAGES)
            return gpt_fail(failure, EXIT_USAGE, "'%s' has more than %d sizes of a batch", text, GPT_BATCH_STAGES);
        if (!read_stage(&at, sequence, &stage))
            return gpt_fail(failure, EXIT_USAGE, "'%s' is not places and sizes of a batch such as 0:768 250B:1536",
                            text);
        if (course->count ? stage.from <= course->stages[course->count - 1].from : stage.from > 0)
            return gpt_fail(failure, EXIT_USAGE, "the places of '%s' do not rise from 0", text);
        course->stages[course->count++] = stage;
    }
    return course->count ? 0 : gpt_fail(failure, EXIT_USAGE, "'%s' has no size of a batch", text);
}

uint64_t gpt_batch_at(const gpt_batch_course *course, uint64_t before)
{
    size_t i = course->count - 1;
    while (i > 0 && before < course->stages[i].from)
        i--;
    return course->stages[i].samples;
}
