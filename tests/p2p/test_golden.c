/* SPDX-License-Identifier: Apache-2.0 */
/* Compares whole schedules with recorded runs of another implementation: in which order each stage computes, what it
 * sends and receives in which batch between two computations, and which backwards run with gradient sync on.
 *
 * Both are written in one form and compared as text: "F0.0 [RECV_F1.0 SEND_F0.0] F1.0 ...", the messages of a batch
 * sorted, each with the microbatch and chunk of the computation on its own stage that it is for. */
#include <ctype.h>
#include <stdlib.h>

#include "harness/golden.h"
#include "harness/json.h"
#include "harness/test.h"
#include "schedules.h"

#define TEXT_BYTES (1 << 16)
#define NAME_BYTES 24
#define MOST       4096

typedef struct form {
    char orders[TEXT_BYTES];  /* F and B */
    char batches[TEXT_BYTES]; /* the same, with the batches between them */
    char synced[TEXT_BYTES];  /* the B that run with gradient sync on */
    size_t batch_count;
} form;

static void add(char *text, const char *before, const char *word)
{
    size_t used = strlen(text);
    CHECK(used + NAME_BYTES + 2 < TEXT_BYTES);
    snprintf(text + used, TEXT_BYTES - used, "%s%s", before, word);
}

static void add_computation(form *f, const char *name, bool synced)
{
    add(f->orders, " ", name);
    add(f->batches, " ", name);
    if (name[0] == 'B' && synced)
        add(f->synced, " ", name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void add_batch(form *f, char (*names)[NAME_BYTES], size_t count)
{
    qsort(names, count, NAME_BYTES, by_text);
    for (size_t i = 0; i < count; i++)
        add(f->batches, i ? " " : " [", names[i]);
    add(f->batches, "]", "");
    f->batch_count++;
}

/* ---- a recorded run ---- */

typedef struct recording {
    char *words[MOST];
    size_t count;
} recording;

/* The forward (backward) that uses the received tensor @p number, without its letter: "0.1". */
static void user_of(const recording *r, char kind, const char *number, char *out, size_t bytes)
{
    size_t n = strlen(number);
    for (size_t i = 0; i < r->count; i++) {
        const char *word = r->words[i], *in = strchr(word, '(');
        if (word[0] != kind || !in || strncmp(in + 1, number, n) != 0 || in[1 + n] != ')')
            continue;
        snprintf(out, bytes, "%.*s", (int)(in - word - 1), word + 1);
        return;
    }
    FAIL("nothing uses %s", number);
}

/* "sp:g0.0" -> "SEND_B0.0", "rp:r3" -> "RECV_F0.1" */
static void name_message(const recording *r, const char *word, char *out)
{
    bool send = word[0] == 's', forward = word[3] == (send ? 'a' : 'r');
    CHECK_MSG(word[2] == ':' && (word[1] == 'n') == (send == forward), "%s goes the wrong way", word);
    int n = snprintf(out, NAME_BYTES, "%s_%c", send ? "SEND" : "RECV", forward ? 'F' : 'B');
    if (send)
        snprintf(out + n, NAME_BYTES - (size_t)n, "%s", word + 4);
    else
        user_of(r, forward ? 'F' : 'B', word + 3, out + n, NAME_BYTES - (size_t)n);
}

static void read_recording(char *text, form *f)
{
    static recording r;
    bool synced = true;
    char names[64][NAME_BYTES];
    *f = (form){0};
    r.count = split(text, ' ', r.words, MOST);
    CHECK(r.count < MOST);
    for (size_t i = 0; i < r.count; i++) {
        char *word = r.words[i];
        if ((word[0] == 'F' || word[0] == 'B') && isdigit((unsigned char)word[1])) {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "("), word);
            add_computation(f, name, synced);
        } else if (word[0] == 'G') {
            synced = word[1] == '+';
        } else if (word[0] == '[') {
            size_t count = 0;
            for (bool last = false; !last; i++) {
                char *message = r.words[i] + (count == 0);
                last = message[strlen(message) - 1] == ']';
                message[strlen(message) - last] = 0;
                CHECK(count < 64);
                name_message(&r, message, names[count++]);
            }
            i--;
            add_batch(f, names, count);
        }
    }
}

/* ---- a schedule of ours ---- */

static void read_schedule(const weft_schedule *s, uint32_t stage, form *f)
{
    size_t count;
    const weft_action *at = weft_schedule_actions(s, stage, &count);
    bool synced[16] = {false};
    char names[64][NAME_BYTES];
    *f = (form){0};
    for (size_t i = 0; i < count; i++) {
        size_t begin = i, n = 0;
        for (; i < count && weft_action_is_message(at[i].kind); i++) {
            if (i > begin && (at[i].batch == 0 || at[i].batch != at[i - 1].batch))
                break;
            snprintf(names[n++], NAME_BYTES, "%s%u.%u", weft_action_string(at[i].kind), at[i].microbatch, at[i].chunk);
        }
        if (n) {
            add_batch(f, names, n);
            i--;
        } else if (at[i].kind == WEFT_ACTION_SYNC) {
            synced[at[i].chunk] = true;
        } else {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "%s%u.%u", weft_action_string(at[i].kind), at[i].microbatch, at[i].chunk);
            add_computation(f, name, synced[at[i].chunk]);
        }
    }
}

/* ---- records ---- */

typedef struct tally {
    size_t records, orders, batches, syncs, refused, deviations;
    size_t only_orders; /* stages of records in modes whose messages are not compared */
} tally;

typedef struct record {
    const char *kind, *mode;
    uint32_t p, m, v, g;
} record;

static const char *describe(const record *r)
{
    static char text[128];
    snprintf(text, sizeof text, "%s p %u m %u v %u g %u, %s", r->kind, r->p, r->m, r->v, r->g, r->mode);
    return text;
}

static void deviates(tally *t, const record *r, uint32_t stage, const char *what, const char *got, const char *want)
{
    size_t same = 0;
    while (got[same] && got[same] == want[same])
        same++;
    same = same > 30 ? same - 30 : 0;
    test_note("%s, stage %u: %s differ: ...%.60s... is not ...%.60s...", describe(r), stage, what, got + same,
              want + same);
    t->deviations++;
}

/* Why a policy here may accept what fails there; NULL: it may not. */
static const char *reason_to_accept(const record *r)
{
    if (strcmp(r->kind, "interleaved") != 0 || strstr(r->mode, "both"))
        return "it is about messages, which no policy decides here";
    if (r->v == 1)
        return "one chunk fails there by accident and is plain 1F1B here";
    if (r->g > r->m)
        return "all microbatches are one group here";
    return r->p == 1 ? "one stage gives its tensors to itself here" : NULL;
}

/* What the reference refuses, or fails in. */
static void check_error(tally *t, const record *r, const json *value)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    weft_schedule *s;
    config.policy = WEFT_POLICY_INTERLEAVED;
    config.stages = r->p;
    config.microbatches = r->m;
    config.chunks = r->v;
    config.group = r->g;
    if (weft_schedule_create(&config, &s) == WEFT_E_INVALID) {
        t->refused++;
        return;
    }
    const char *reason = reason_to_accept(r), *error = json_text(json_get(value, "error"), "?");
    test_note("not compared: %s: %s there; %s", describe(r), error, reason ? reason : "accepted here");
    t->deviations += !reason;
    weft_schedule_destroy(s);
}

static void check_stage(tally *t, const record *r, const weft_schedule *s, uint32_t stage, json *recorded)
{
    static form got, want;
    read_schedule(s, stage, &got);
    read_recording(recorded->text, &want);
    t->orders++;
    if (strcmp(got.orders, want.orders) != 0)
        deviates(t, r, stage, "orders", got.orders, want.orders);
    if (strncmp(r->mode, "batched", 7) != 0 && strcmp(r->mode, "-") != 0) {
        t->only_orders++;
        return;
    }
    t->batches += want.batch_count;
    if (strcmp(got.batches, want.batches) != 0)
        deviates(t, r, stage, "batches", got.batches, want.batches);
    if (strstr(r->mode, "grad_sync") || strstr(r->mode, "forward_only"))
        return;
    t->syncs++;
    if (strcmp(got.synced, want.synced) != 0)
        deviates(t, r, stage, "backwards with sync", got.synced, want.synced);
}

static void check_record(char *text, void *cookie)
{
    tally *t = cookie;
    char message[256];
    json *value = json_parse(text, message, sizeof message);
    CHECK_MSG(value, "%s", message);
    record r = {.kind = json_text(json_get(value, "kind"), ""),
                .mode = json_text(json_get(value, "mode"), ""),
                .p = (uint32_t)json_int(json_get(value, "p"), 0),
                .m = (uint32_t)json_int(json_get(value, "m"), 0),
                .v = (uint32_t)json_int(json_get(value, "v"), 1),
                .g = (uint32_t)json_int(json_get(value, "g"), 0)};
    t->records++;
    if (json_get(value, "error")) {
        check_error(t, &r, value);
        json_free(value);
        return;
    }
    weft_policy policy = strcmp(r.kind, "interleaved") == 0 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B;
    weft_schedule *s = (strstr(r.mode, "forward_only") ? make_forward_only : make)(policy, r.p, r.m, r.v, r.g);
    weft_schedule *lowered = lower(s, WEFT_QUEUES_ONE, r.v > 1 ? WEFT_BATCHING_STEP : WEFT_BATCHING_EXCHANGE, 0);
    for (uint32_t stage = 0; stage < r.p; stage++) {
        json *recorded = json_at(json_get(value, "ranks"), stage);
        CHECK(recorded && recorded->kind == JSON_TEXT);
        check_stage(t, &r, lowered, stage, recorded);
    }
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
    json_free(value);
}

static void check_file(const char *name)
{
    tally t = {0};
    mute();
    golden_lines(name, check_record, &t);
    if (t.only_orders)
        test_note("messages of %zu stages not compared: recorded in modes without batches", t.only_orders);
    test_note("compared %zu records: %zu orders, %zu batches, %zu stages with gradient sync, %zu refused by both, "
              "%zu deviations",
              t.records, t.orders, t.batches, t.syncs, t.refused, t.deviations);
    CHECK(t.orders > 0 && t.batches > 0 && t.deviations == 0);
}

TEST(golden_1f1b)
{
    check_file("sched_1f1b.jsonl");
}

TEST(golden_interleaved)
{
    check_file("sched_interleaved.jsonl");
}
