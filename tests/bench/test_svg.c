/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of pictures, element by element; whole pictures are read in test_pictures.py. */
#include "harness/test.h"
#include "svg.h"

static char written[4096];
static FILE *out;

static FILE *begin(void)
{
    memset(written, 0, sizeof written);
    out = fmemopen(written, sizeof written, "w");
    CHECK(out);
    return out;
}

static const char *end(void)
{
    CHECK(fclose(out) == 0);
    return written;
}

TEST(texts_are_escaped_and_what_is_no_character_is_replaced)
{
    static const struct {
        const char *text, *want;
    } texts[] = {
        {"a<b>&\"c\"'d'", "a&lt;b&gt;&amp;&quot;c&quot;'d'"},
        {"\t\n\r", "\t\n\r"},
        {"\x01\x1f", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                         /* a surrogate */
        {"\xef\xbf\xbe\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* U+FFFE */
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        svg_escape(begin(), texts[i].text);
        CHECK_STR(end(), texts[i].want);
    }
}

TEST(shapes_have_all_in_their_attributes)
{
    svg_rect(begin(), (svg_box){1, 2.5, 30, 4.123456}, &(svg_style){.fill = SVG_BLUE}, NULL);
    CHECK_STR(end(), "<rect x=\"1\" y=\"2.5\" width=\"30\" height=\"4.12\" fill=\"#0072b2\"/>\n");
    svg_style framed = {.fill = 0x00000f, .line = 0xffffff, .line_width = 0.5, .radius = 3, .dashed = true};
    svg_rect(begin(), (svg_box){-0.001, 0, 1e7, 1}, &framed, "<tip>");
    CHECK_STR(end(), "<rect x=\"0\" y=\"0\" width=\"10000000\" height=\"1\" fill=\"#00000f\" rx=\"3\" "
                     "stroke=\"#ffffff\" stroke-width=\"0.5\" stroke-dasharray=\"3 2\"><title>&lt;tip&gt;</title>"
                     "</rect>\n");
    svg_text(begin(), 10, 20, &(svg_type){.size = 10, .colour = SVG_INK, .anchor = SVG_END, .bold = true}, "%d<", 7);
    CHECK_STR(end(), "<text x=\"10\" y=\"23.6\" font-size=\"10\" fill=\"#222222\" text-anchor=\"end\" "
                     "font-weight=\"bold\">7&lt;</text>\n");
}

TEST(a_curve_has_gaps_where_there_is_no_point)
{
    const double nan = (double)NAN;
    const double points[] = {0, 1, 1, 2, 2, nan, 3, 4, nan, 5, 6, (double)INFINITY, 7, 8, 8, 9};
    svg_curve(begin(), points, 8, SVG_BLUE, 1);
    CHECK_HAS(end(), " d=\"M0 1L0 1L1 2M3 4L3 4M7 8L7 8L8 9\"/>");
}

TEST(an_arrow_ends_in_a_head)
{
    svg_arrow(begin(), 0, 10, 0, 0, 5, SVG_BLUE, 1);
    CHECK_HAS(end(), " d=\"M0 10L0 0M2.04 4.57L0 0L-2.04 4.57\"/>"); /* 5 sin 0.42, 5 cos 0.42 */
}

/* By the formula of WCAG 2, worked out elsewhere: white on blue is 5.19, on green 3.42, on vermilion 3.87. */
TEST(ink_can_be_read_on_every_colour)
{
    CHECK_INT(svg_ink_on(SVG_BLUE), SVG_PAPER);
    CHECK_INT(svg_ink_on(SVG_INK), SVG_PAPER);
    const svg_colour light[] = {SVG_PAPER, SVG_SHADE,     SVG_FRAME,  SVG_ORANGE, SVG_GREEN,
                                SVG_SKY,   SVG_VERMILION, SVG_PURPLE, SVG_YELLOW};
    for (size_t i = 0; i < sizeof light / sizeof *light; i++)
        CHECK_INT(svg_ink_on(light[i]), SVG_INK_ON_COLOUR);
}

TEST(colours_are_mixed_part_by_part)
{
    CHECK_INT(svg_mix(0x000000, 0xffffff, 0.5), 0x808080);
    CHECK_INT(svg_mix(0x102030, 0x306090, 0.25), 0x183048);
    CHECK_INT(svg_mix(0x123456, 0xabcdef, 0), 0x123456);
    CHECK_INT(svg_mix(0x123456, 0xabcdef, 1), 0xabcdef);
}

TEST(ticks_are_round)
{
    const double least[] = {1, 1.5, 2.1, 5.1, 0.03, 60, 999}, want[] = {1, 2, 5, 10, 0.05, 100, 1000};
    for (size_t i = 0; i < sizeof least / sizeof *least; i++)
        CHECK_NEAR(svg_tick_step(least[i]), want[i], 1e-12);
}

TEST(characters_are_counted_not_bytes)
{
    CHECK_NEAR(svg_text_width("a\xc3\xa9\xe2\x82\xac", 10), svg_text_width("abc", 10), 0);
}
