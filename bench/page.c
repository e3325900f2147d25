/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what pages have in common. Pictures have their colours in attributes, which the rules of a dark page overrule:
 * whoever draws knows nothing of it. */
#include "page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "svg.h"

static const char style[] =
    ":root { color-scheme: light dark; --paper: #ffffff; --ink: #222222; --muted: #666666;\n"
    "  --shade: #e8e8e8; --mark: #fff3d6; --edge: #00000070; }\n"
    "body { background: var(--paper); color: var(--ink); font: 16px/1.5 sans-serif;\n"
    "  margin: 2em auto; padding: 0 1em; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 1.8em 0 0.4em; }\n"
    "h3 { font-size: 1em; margin: 1.2em 0 0.2em; }\n"
    "p { margin: 0.4em 0; } .note { color: var(--muted); font-size: 0.85em; }\n"
    "svg { display: block; height: auto; max-width: 100%; }\n"
    ".scroll { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: 0.95em; }\n"
    "th { font-weight: normal; text-align: left; color: var(--muted);\n"
    "  padding: 0.15em 2em 0.15em 0; vertical-align: top; }\n"
    "td { font-variant-numeric: tabular-nums; }\n"
    "table.grid { font-size: 0.85em; }\n"
    "table.grid th, table.grid td { padding: 0.2em 0.8em; border-bottom: 1px solid var(--shade);\n"
    "  text-align: right; white-space: nowrap; }\n"
    "table.grid .word { text-align: left; } table.grid td.long { white-space: normal; }\n"
    "table.grid .loud { background: var(--mark); }\n";

/* What stands around the colours, in the dark. */
static const struct {
    const char *selector; /* with the colour's attribute */
    svg_colour light;
    const char *property;
    svg_colour dark;
} dark_rules[] = {
    {"rect[fill=", SVG_PAPER, "fill", 0x181a1c}, {"rect[fill=", SVG_SHADE, "fill", 0x2c2f32},
    {"rect[fill=", SVG_FRAME, "fill", 0x7c8085}, {"text[fill=", SVG_INK, "fill", 0xe6e6e6},
    {"text[fill=", SVG_MUTED, "fill", 0xa6a9ad}, {"text[fill=", SVG_VERMILION, "fill", 0xff8d4a},
    {"[stroke=", SVG_INK, "stroke", 0xe6e6e6},   {"[stroke=", SVG_MUTED, "stroke", 0x8c9095},
    {"[stroke=", SVG_FRAME, "stroke", 0x5a5e63}, {"[stroke=", SVG_SHADE, "stroke", 0x34383c},
    {"[stroke=", SVG_PAPER, "stroke", 0x181a1c}, {"[stroke=", SVG_BLUE, "stroke", 0x4da6e0},
};

static void put_dark_rules(FILE *out)
{
    fputs("@media (prefers-color-scheme: dark) {\n"
          ":root { --paper: #181a1c; --ink: #e6e6e6; --muted: #a6a9ad; --shade: #34383c; --mark: #4a3a12;\n"
          "  --edge: #ffffff70; }\n",
          out);
    for (size_t i = 0; i < sizeof dark_rules / sizeof *dark_rules; i++)
        fprintf(out, "svg %s\"#%06" PRIx32 "\"] { %s: #%06" PRIx32 "; }\n", dark_rules[i].selector, dark_rules[i].light,
                dark_rules[i].property, dark_rules[i].dark);
    fputs("}\n", out);
}

void page_text(FILE *out, const char *tag, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(out, "<%s>", tag);
    svg_escape(out, text);
    fprintf(out, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

void page_open(FILE *out, const page_head *head)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<style>\n",
          out);
    fprintf(out, "%sbody { max-width: %dpx; }\n%s", style, head->width, head->rules ? head->rules : "");
    put_dark_rules(out);
    fputs("</style>\n", out);
    page_text(out, "title", "%s", head->title);
    fputs("</head>\n<body>\n", out);
    page_text(out, "h1", "%s", head->heading);
}

void page_close(FILE *out)
{
    fputs("</body>\n</html>\n", out);
}
