/* SPDX-License-Identifier: Apache-2.0 */
/* Microbatches against golden ones. */
#include "gpt/batch.h"

#include "harness/golden.h"
#include "harness/json.h"
#include "harness/test.h"

static size_t number(const json *record, const char *key)
{
    int64_t value = json_int(json_get(record, key), -1);
    CHECK_MSG(value >= 0, "a record has no number '%s'", key);
    return (size_t)value;
}

static int check_constant(const json *record)
{
    size_t global = number(record, "global_batch_size"), micro = number(record, "micro_batch_size"),
           ranks = number(record, "dp");
    size_t got = gpt_batch_microbatches(global, micro, ranks, json_bool(json_get(record, "decrease"), false));
    if (json_get(record, "error")) {
        CHECK_INT(got, 0);
        return 1;
    }
    CHECK_INT(got, number(record, "num_microbatches"));
    CHECK_INT(got * micro * ranks, number(record, "running"));
    return 1;
}

static int check_course(const json *record)
{
    gpt_batch_course course;
    gpt_failure failure = {0};
    const json *sequence = json_get(record, "seq_length"), *parsed = json_get(record, "parsed"),
               *at = json_get(record, "at");
    const char *text = json_text(json_get(record, "schedule"), "");
    int code = gpt_batch_read(&course, text, (size_t)json_int(sequence, 0), &failure);
    if (json_get(record, "error")) {
        CHECK_INT(code, 2);
        CHECK_HAS(failure.text, text);
        return 1;
    }
    CHECK_MSG(code == 0, "%s", failure.text);
    CHECK_INT(course.count, parsed->count);
    for (size_t i = 0; i < course.count; i++) {
        CHECK_INT(course.stages[i].from, json_int(json_at(json_at(parsed, i), 0), -1));
        CHECK_INT(course.stages[i].samples, json_int(json_at(json_at(parsed, i), 1), -1));
    }
    for (const json *one = at->first; one; one = one->next) {
        uint64_t samples = gpt_batch_at(&course, (uint64_t)json_int(json_at(one, 0), -1));
        bool round_down = !json_bool(json_at(one, 1), false);
        CHECK_INT(samples, json_int(json_at(one, 3), -1));
        CHECK_INT(gpt_batch_microbatches(samples, number(record, "micro_batch_size"), number(record, "dp"), round_down),
                  json_int(json_at(one, 2), -1));
    }
    return (int)at->count;
}

static int check_record(const json *record)
{
    const char *kind = json_text(json_get(record, "kind"), "");
    if (strcmp(kind, "constant") == 0)
        return check_constant(record);
    CHECK_STR(kind, "step");
    return check_course(record);
}

static void check_line(char *text, void *cookie)
{
    char message[128];
    json *record = json_parse(text, message, sizeof message);
    CHECK_MSG(record, "'%s': %s", text, message);
    *(int *)cookie += check_record(record);
    json_free(record);
}

TEST(every_golden_number_of_microbatches_is_reproduced)
{
    int compared = 0;
    golden_lines("num_microbatches.jsonl", check_line, &compared);
    CHECK(compared > 40);
    test_note("%d numbers of microbatches compared, 0 deviations", compared);
}

TEST(a_course_that_makes_no_sense_is_refused)
{
    static const char *const texts[] = {"",        " ",    "5",        "0:",   "0:8x",
                                        "0:8,1:9", "0:0",  "0:8 K:16", "1:8",  "0:8 1K:9 1000:10",
                                        "0:-8",    "-1:8", "0:1e300",  "0:8 T"};
    gpt_batch_course course;
    gpt_failure failure;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_MSG(gpt_batch_read(&course, texts[i], 0, &failure) == 2, "'%s' is taken", texts[i]);
    CHECK(gpt_batch_read(&course, " 0:1k  1.5m:2K", 0, &failure) == 0);
    CHECK(course.stages[0].samples == 1000 && course.stages[1].from == 1500000 && course.stages[1].samples == 2000);
    CHECK(gpt_batch_at(&course, 1499999) == 1000 && gpt_batch_at(&course, 1500000) == 2000);
}
