/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, lowers and reads schedules for tests. */
#include "schedules.h"

#include <stdlib.h>
#include <weft/log.h>

#include "harness/test.h"

static void nowhere(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

void mute(void)
{
    weft_log_set(WEFT_LOG_ERROR, nowhere, NULL);
}

static weft_schedule *create(const weft_schedule_config *config)
{
    weft_schedule *s;
    CHECK_OK(weft_schedule_create(config, &s));
    return s;
}

weft_schedule *make(weft_policy policy, uint32_t stages, uint32_t microbatches, uint32_t chunks, uint32_t group)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = policy;
    config.stages = stages;
    config.microbatches = microbatches;
    config.chunks = chunks;
    config.group = group;
    return create(&config);
}

weft_schedule *make_forward_only(weft_policy policy, uint32_t stages, uint32_t microbatches, uint32_t chunks,
                                 uint32_t group)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = policy;
    config.stages = stages;
    config.microbatches = microbatches;
    config.chunks = chunks;
    config.group = group;
    config.flags = WEFT_SCHEDULE_FORWARD_ONLY;
    return create(&config);
}

weft_schedule *lower(const weft_schedule *s, weft_queues queues, weft_batching batching, uint32_t flags)
{
    weft_lower_config config = WEFT_LOWER_CONFIG_INIT;
    weft_schedule *lowered;
    config.queues = queues;
    config.batching = batching;
    config.flags = flags;
    CHECK_OK(weft_schedule_lower(s, &config, &lowered));
    return lowered;
}

weft_policy next_policy(weft_policy policy)
{
    for (int next = (int)policy + 1; next < WEFT_POLICIES; next++)
        if (weft_policy_traits((weft_policy)next) & WEFT_POLICY_WRITES)
            return (weft_policy)next;
    return WEFT_POLICY_NONE;
}

uint32_t chunks_of(weft_policy policy, uint32_t chunks)
{
    return weft_policy_traits(policy) & WEFT_POLICY_CHUNKS ? chunks : 1;
}

weft_schedule *split_backwards(const weft_schedule *s)
{
    weft_schedule *out;
    CHECK_OK(weft__schedule_new(s->stages, s->chunks, s->microbatches, &out));
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        weft_action late = {.kind = WEFT_ACTION_F};
        for (size_t i = 0; i < s->lists[stage].count; i++) {
            const weft_action *a = &s->lists[stage].at[i];
            CHECK_OK(weft_schedule_append(out, stage, a));
            if (a->kind != WEFT_ACTION_B)
                continue;
            if (late.kind == WEFT_ACTION_W)
                CHECK_OK(weft_schedule_append(out, stage, &late));
            late = *a;
            late.kind = WEFT_ACTION_W;
        }
        if (late.kind == WEFT_ACTION_W)
            CHECK_OK(weft_schedule_append(out, stage, &late));
    }
    return out;
}

weft_schedule *from_text(const char *text)
{
    weft_schedule *s;
    CHECK_OK(weft_schedule_read(text, strlen(text), &s));
    return s;
}

char *text_of(const weft_schedule *s, weft_schedule_format format)
{
    size_t length = weft_schedule_write(s, format, NULL, 0);
    char *text = malloc(length + 1);
    CHECK(text && weft_schedule_write(s, format, text, length + 1) == length);
    return text;
}

const char *stage_text(const weft_schedule *s, uint32_t stage)
{
    static char line[1 << 16];
    char *text = text_of(s, WEFT_SCHEDULE_TEXT), begin[32];
    int n = snprintf(begin, sizeof begin, "stage %u: ", stage);
    const char *at = strstr(text, begin);
    CHECK(at);
    at += n;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
    return line;
}

weft_result verify(const weft_schedule *s, weft_queues queues)
{
    weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
    config.queues = queues;
    return weft_schedule_verify(s, &config, NULL);
}
