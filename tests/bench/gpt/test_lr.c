/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates against golden ones. */
#include <stdlib.h>

#include "gpt/lr.h"
#include "harness/golden.h"
#include "harness/test.h"

static int index_of(const char *words, const char *word)
{
    int index = 0;
    for (const char *at = words; *at; index++) {
        size_t length = strcspn(at, "|");
        if (strlen(word) == length && strncmp(at, word, length) == 0)
            return index;
        at += length + (at[length] == '|');
    }
    return -1;
}

static void check_row(char *line, void *cookie)
{
    char style[32], curve[32], anneal[32], warmup[32], decay[32], samples[32], want[64];
    double first, highest, lowest;
    int *rows = cookie;
    if ((*rows)++ == 0) /* the columns' names */
        return;
    CHECK(sscanf(line, "%31s %31s %31s %lf %lf %lf %31s %31s %*s %*s %*s %*s %31s %63s", style, curve, anneal, &first,
                 &highest, &lowest, warmup, decay, samples, want) == 10);
    gpt_lr lr = {.style = (gpt_lr_style)index_of(GPT_LR_STYLES, style),
                 .first = first,
                 .highest = highest,
                 .lowest = lowest,
                 .warmup = strtoull(warmup, NULL, 10),
                 .decay = strtoull(decay, NULL, 10)};
    CHECK_MSG((int)lr.style >= 0, "no style %s", style);
    if (lr.style == GPT_LR_STABLE) {
        lr.curve = (gpt_lr_curve)index_of(GPT_LR_CURVES, curve);
        lr.anneal = strtoull(anneal, NULL, 10);
        CHECK_MSG((int)lr.curve >= 0, "no curve %s", curve);
    }
    double rate = gpt_lr_at(&lr, strtoull(samples, NULL, 10));
    CHECK_MSG(fabs(rate - strtod(want, NULL)) <= 1e-12 * highest, "%s %s at %s is %.17g, not %s", style, curve, samples,
              rate, want);
}

TEST(every_golden_learning_rate_is_reproduced)
{
    int lines = 0;
    golden_lines("lr_schedule.tsv", check_row, &lines);
    CHECK(lines > 400);
    test_note("%d learning rates compared, 0 deviations", lines - 1);
}

TEST(a_decay_without_length_is_over_at_once)
{
    const gpt_lr lr = {.style = GPT_LR_COSINE, .highest = 1, .lowest = 0.1, .warmup = 10, .decay = 10};
    CHECK_NEAR(gpt_lr_at(&lr, 5), 0.5, 1e-15);
    CHECK_NEAR(gpt_lr_at(&lr, 10), 1, 0);
    CHECK_NEAR(gpt_lr_at(&lr, 11), 0.1, 0);
}
