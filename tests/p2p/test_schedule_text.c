/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules written and read again, and what is said of text that is none. */
#include <stdlib.h>

#include "harness/test.h"
#include "schedules.h"

static const char small_text[] = "# 2 stages, 1 chunks a stage, 2 microbatches\n"
                                 "stage 0: F0.0 SEND_F0.0>1#0 F1.0 [SEND_F1.0>1#1 RECV_B0.0<1#0] B0.0 RECV_B1.0<1#0 "
                                 "SYNC.0 B1.0\n"
                                 "stage 1: RECV_F0.0<0#0 F0.0 B0.0 [SEND_B0.0>0#0 RECV_F1.0<0#0] F1.0 SYNC.0 B1.0 "
                                 "SEND_B1.0>0#1\n";

static const char small_csv[] = "stage,action,microbatch,chunk,peer,batch,buffer\n"
                                "0,F,0,0,,,\n"
                                "0,SEND_F,0,0,1,0,0\n"
                                "0,F,1,0,,,\n"
                                "0,SEND_F,1,0,1,1,1\n"
                                "0,RECV_B,0,0,1,1,0\n"
                                "0,B,0,0,,,\n"
                                "0,RECV_B,1,0,1,0,0\n"
                                "0,SYNC,,0,,,\n"
                                "0,B,1,0,,,\n"
                                "1,RECV_F,0,0,0,0,0\n"
                                "1,F,0,0,,,\n"
                                "1,B,0,0,,,\n"
                                "1,SEND_B,0,0,0,1,0\n"
                                "1,RECV_F,1,0,0,1,0\n"
                                "1,F,1,0,,,\n"
                                "1,SYNC,,0,,,\n"
                                "1,B,1,0,,,\n"
                                "1,SEND_B,1,0,0,0,1\n";

static void check_text(const weft_schedule *s, weft_schedule_format format, const char *want)
{
    char *text = text_of(s, format);
    CHECK_STR(text, want);
    free(text);
}

TEST(text_and_csv_are_as_documented)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    weft_schedule *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_EXCHANGE, 0);
    check_text(out, WEFT_SCHEDULE_TEXT, small_text);
    check_text(out, WEFT_SCHEDULE_CSV, small_csv);
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(what_is_written_is_read_back_unchanged)
{
    for (uint32_t v = 1; v <= 3; v++)
        for (int batching = WEFT_BATCHING_NONE; batching <= WEFT_BATCHING_STEP; batching++)
            for (int format = WEFT_SCHEDULE_TEXT; format <= WEFT_SCHEDULE_CSV; format++) {
                weft_schedule *s = make(v > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_GPIPE, 3, 6, v, 0);
                weft_schedule *out = lower(s, WEFT_QUEUES_ONE, (weft_batching)batching, 0);
                char *text = text_of(out, (weft_schedule_format)format);
                weft_schedule *read = from_text(text);
                CHECK_INT(weft_schedule_stages(read), 3);
                CHECK_INT(weft_schedule_chunks(read), v);
                CHECK_INT(weft_schedule_microbatches(read), 6);
                for (uint32_t stage = 0; stage < 3; stage++) {
                    CHECK_INT(read->lists[stage].count, out->lists[stage].count);
                    CHECK(memcmp(read->lists[stage].at, out->lists[stage].at,
                                 out->lists[stage].count * sizeof(weft_action)) == 0);
                }
                free(text);
                weft_schedule_destroy(s);
                weft_schedule_destroy(out);
                weft_schedule_destroy(read);
            }
}

TEST(hand_written_csv_may_leave_out_what_is_clear)
{
    weft_schedule *s = from_text("\xef\xbb\xbf# mine\r\n"
                                 "\r\n"
                                 " action , stage,microbatch\r\n"
                                 "F,0,0\r\n"
                                 "SEND_F, 0 ,0\r\n"
                                 "# between\n"
                                 "RECV_F,1,0\n"
                                 "F,1,0\n"
                                 "SYNC,1\n"
                                 "B,1,0\n"
                                 "SEND_B,1,0\n"
                                 "RECV_B,0,0\n"
                                 "B,0,0");
    check_text(s, WEFT_SCHEDULE_TEXT,
               "# 2 stages, 1 chunks a stage, 1 microbatches\n"
               "stage 0: F0.0 SEND_F0.0>1 RECV_B0.0<1 B0.0\n"
               "stage 1: RECV_F0.0<0 F0.0 SYNC.0 B0.0 SEND_B0.0>0\n");
    CHECK_OK(verify(s, WEFT_QUEUES_ONE));
    weft_schedule_destroy(s);
}

TEST(a_stage_may_go_on_in_a_later_line)
{
    weft_schedule *s = from_text("stage 1: RECV_F0.0 [ RECV_F1.0 ] F0.0\nstage 0: F0.0 SEND_F0.0\nstage 1: F1.0\n"
                                 "stage 0:F1.0 SEND_F1.0 \n");
    CHECK_STR(stage_text(s, 1), "RECV_F0.0<0 [RECV_F1.0<0] F0.0 F1.0");
    CHECK_STR(stage_text(s, 0), "F0.0 SEND_F0.0>1 F1.0 SEND_F1.0>1");
    weft_schedule_destroy(s);
}

TEST(text_is_cut_where_it_does_not_fit)
{
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 1, 1, 1, 0);
    char text[16] = "xxxxxxxxxxxxxxx";
    size_t whole = weft_schedule_write(s, WEFT_SCHEDULE_CSV, NULL, 0);
    CHECK_INT(weft_schedule_write(s, WEFT_SCHEDULE_CSV, text, 10), whole);
    CHECK_STR(text, "stage,act");
    CHECK(text[10] == 'x');
    weft_schedule_destroy(s);
}

TEST(what_cannot_be_read_is_named_with_its_line)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "no actions"},
        {"# nothing\n\n", "no actions"},
        {"F0.0\n", "line 1: no 'stage N:' at 'F0.0'"},
        {"stage x: F0.0\n", "line 1: no number at 'x: F0.0'"},
        {"stage 0 F0.0\n", "line 1: no ':' behind the stage"},
        {"stage 0: F0.0\nstage 1: G0.0\n", "line 2: no action (F, B, W"},
        {"stage 0: F0\n", "line 1: no '.' before the chunk"},
        {"stage 0: F0.0>1\n", "line 1: no action (F, B, W, SEND_F, RECV_F, SEND_B, RECV_B, SYNC) at '>1'"},
        {"stage 0: SEND_F0.0<1\n", "at '<1'"},
        {"stage 0: F0.0 [SEND_F0.0>1\nstage 1: F0.0\n", "line 1: no ']'"},
        {"stage 0: [F0.0]\n", "line 1: something other than a message in a batch"},
        {"stage 0: [[SEND_F0.0]]\n", "line 1: no action"},
        {"stage 0: F4294967295.0\n", "line 1: a number that is too large at '4294967295.0'"},
        {"stage 0: F99999999999999999999.0\n", "too large"},
        {"stage 0: F0.0 RECV_F0.0\n", "line 1: RECV_F of chunk 0 on stage 0 has no stage at its other end"},
        {"stage 0: SEND_F0.0>7\nstage 1: F0.0\n", "line 1: SEND_F of chunk 0 on stage 0 has no stage at its other end"},
        {"stage,action\n0,F\n", "line 1: the columns lack 'microbatch'"},
        {"stage,action,microbatch,colour\n0,F,0,1\n", "line 1: no column"},
        {"stage,action,microbatch,stage\n", "line 1: no column"},
        {"stage action,microbatch\n", "line 1: no ','"},
        {"stage,action,microbatch\n0,F,0,0\n", "line 2: more than the columns at ',0'"},
        {"stage,action,microbatch\n0,F\n", "line 2: stage, action or microbatch is missing in '0,F'"},
        {"stage,action,microbatch\n,F,0\n", "line 2: stage, action or microbatch is missing"},
        {"stage,action,microbatch\n0,,0\n", "line 2: no action"},
        {"stage,action,microbatch\n0,F,-1\n", "line 2: no number at '-1'"},
        {"stage,action,microbatch\n0,F,1x\n", "line 2: more than the columns at 'x'"},
        {"stage,action,microbatch\n0,f,1\n", "line 2: no action"},
    };
    mute();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_schedule *s = (weft_schedule *)&wrong;
        weft_result result = weft_schedule_read(wrong[i].text, strlen(wrong[i].text), &s);
        CHECK_MSG(result == WEFT_E_INVALID && s == NULL, "accepted: %s", wrong[i].text);
        CHECK_HAS(weft_last_error(), wrong[i].says);
    }
    weft_schedule *s;
    CHECK_RESULT(weft_schedule_read("stage 4294967294: F0.0", 22, &s), WEFT_E_RANGE);
    CHECK_RESULT(weft_schedule_read(NULL, 0, &s), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_read("", 0, NULL), WEFT_E_INVALID);
}

/* Whatever is done to a text, reading it fails or gives a schedule; sanitizers see the rest. */
TEST(damaged_text_is_read_or_refused)
{
    const char *const sources[] = {small_text, small_csv};
    uint32_t random = 1;
    size_t read = 0, tries = 0;
    mute();
    for (size_t source = 0; source < 2; source++) {
        size_t bytes = strlen(sources[source]);
        for (size_t cut = 0; cut < bytes; cut++)
            for (int damage = 0; damage < 20; damage++, tries++) {
                char *copy = malloc(bytes);
                memcpy(copy, sources[source], bytes);
                for (int k = 0; k < damage; k++) {
                    random = random * 1664525u + 1013904223u;
                    copy[(random >> 8) % bytes] = "0123456789,.:<>#[]\nFBW SEND_RECV\0\xff"[random >> 27];
                }
                weft_schedule *s;
                if (weft_schedule_read(copy, bytes - cut, &s) == WEFT_OK) {
                    read++;
                    weft_schedule *lowered;
                    if (weft_schedule_lower(s, NULL, &lowered) == WEFT_OK)
                        weft_schedule_destroy(lowered);
                    (void)!verify(s, WEFT_QUEUES_ONE);
                }
                weft_schedule_destroy(s);
                free(copy);
            }
    }
    test_note("%zu of %zu damaged texts were schedules", read, tries);
    CHECK(read > 0 && read < tries);
}
