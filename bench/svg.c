/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the shapes of pictures: each is one element of SVG with all that it looks like in its attributes, so that no
 * viewer needs to know of styles. */
#include "svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "utf8.h"

/* ---- colours ---- */

svg_colour svg_mix(svg_colour a, svg_colour b, double share)
{
    svg_colour mixed = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        double from = a >> shift & 0xff, to = b >> shift & 0xff;
        mixed |= (svg_colour)lround(from + (to - from) * share) << shift;
    }
    return mixed;
}

/* Relative luminance, as WCAG has it. */
static double luminance(svg_colour colour)
{
    static const double weights[] = {0.0722, 0.7152, 0.2126}; /* blue, green, red */
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double part = (double)(colour >> (8 * i) & 0xff) / 255;
        sum += weights[i] * (part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(svg_colour a, svg_colour b)
{
    double la = luminance(a) + 0.05, lb = luminance(b) + 0.05;
    return la > lb ? la / lb : lb / la;
}

svg_colour svg_ink_on(svg_colour fill)
{
    return contrast(fill, SVG_PAPER) >= 4.5 ? SVG_PAPER : SVG_INK_ON_COLOUR;
}

/* ---- text ---- */

/* XML has no place for most control characters, nor for U+FFFE and U+FFFF. */
static size_t allowed_bytes(const char *at)
{
    size_t bytes = utf8_bytes(at);
    bool control = (unsigned char)*at < 0x20 && !strchr("\t\n\r", *at);
    bool none = bytes == 3 && (memcmp(at, "\xef\xbf\xbe", 3) == 0 || memcmp(at, "\xef\xbf\xbf", 3) == 0);
    return control || none ? 0 : bytes;
}

static const char *entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

void svg_escape(FILE *out, const char *text)
{
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        bytes = allowed_bytes(text);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", out);
        else if (entity(*text))
            fputs(entity(*text), out);
        else
            fwrite(text, 1, bytes, out);
    }
}

double svg_tick_step(double least)
{
    double power = pow(10, floor(log10(least)));
    return least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
}

double svg_text_width(const char *text, double size)
{
    size_t characters = 0;
    for (; *text; text++)
        characters += ((unsigned char)*text & 0xc0) != 0x80;
    return 0.62 * size * (double)characters;
}

/* ---- elements ---- */

/* No finer than a hundredth of a pixel. */
static void put_length(FILE *out, const char *before, double length, const char *after)
{
    fprintf(out, "%s%.9g%s", before, round(length * 100) / 100 + 0.0, after);
}

static void put_attribute(FILE *out, const char *name, double length)
{
    fprintf(out, " %s", name);
    put_length(out, "=\"", length, "\"");
}

static void put_colour(FILE *out, const char *name, svg_colour colour)
{
    fprintf(out, " %s=\"#%06" PRIx32 "\"", name, colour);
}

static void put_point(FILE *out, char command, double x, double y)
{
    fputc(command, out);
    put_length(out, "", x, " ");
    put_length(out, "", y, "");
}

void svg_open(FILE *out, double width, double height, const char *title)
{
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" font-family=\"sans-serif\" "
          "stroke-linecap=\"round\" stroke-linejoin=\"round\"",
          out);
    put_attribute(out, "width", width);
    put_attribute(out, "height", height);
    put_length(out, " viewBox=\"0 0 ", width, " ");
    put_length(out, "", height, "\">\n<title>");
    svg_escape(out, title);
    fputs("</title>\n", out);
    svg_rect(out, (svg_box){0, 0, width, height}, &(svg_style){.fill = SVG_PAPER}, NULL);
}

void svg_close(FILE *out)
{
    fputs("</svg>\n", out);
}

void svg_group_open(FILE *out, const char *class)
{
    fprintf(out, "<g class=\"%s\">\n", class);
}

void svg_group_close(FILE *out)
{
    fputs("</g>\n", out);
}

static void put_box(FILE *out, svg_box box)
{
    put_attribute(out, "x", box.x);
    put_attribute(out, "y", box.y);
    put_attribute(out, "width", box.width);
    put_attribute(out, "height", box.height);
}

void svg_part_open(FILE *out, svg_box box, const char *class)
{
    fprintf(out, "<svg class=\"%s\"", class);
    put_box(out, box);
    fputs(">\n", out);
}

void svg_rect(FILE *out, svg_box box, const svg_style *style, const char *tip)
{
    fputs("<rect", out);
    put_box(out, box);
    put_colour(out, "fill", style->fill);
    if (style->radius > 0)
        put_attribute(out, "rx", style->radius);
    if (style->line_width > 0) {
        put_colour(out, "stroke", style->line);
        put_attribute(out, "stroke-width", style->line_width);
    }
    fputs(style->dashed ? " stroke-dasharray=\"3 2\"" : "", out);
    if (tip) {
        fputs("><title>", out);
        svg_escape(out, tip);
        fputs("</title></rect>\n", out);
    } else {
        fputs("/>\n", out);
    }
}

static void open_path(FILE *out, svg_colour colour, double width)
{
    fputs("<path fill=\"none\"", out);
    put_colour(out, "stroke", colour);
    put_attribute(out, "stroke-width", width);
    fputs(" d=\"", out);
}

static void close_path(FILE *out)
{
    fputs("\"/>\n", out);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, svg_colour colour, double width)
{
    open_path(out, colour, width);
    put_point(out, 'M', x1, y1);
    put_point(out, 'L', x2, y2);
    close_path(out);
}

void svg_curve(FILE *out, const double *points, size_t count, svg_colour colour, double width)
{
    bool pen_down = false;
    open_path(out, colour, width);
    for (const double *at = points; at < points + 2 * count; at += 2) {
        bool is_point = isfinite(at[0]) && isfinite(at[1]);
        if (is_point)
            put_point(out, pen_down ? 'L' : 'M', at[0], at[1]);
        if (is_point && !pen_down) /* a point by itself is seen, too */
            put_point(out, 'L', at[0], at[1]);
        pen_down = is_point;
    }
    close_path(out);
}

void svg_arrow(FILE *out, double x1, double y1, double x2, double y2, double head, svg_colour colour, double width)
{
    const double spread = 0.42; /* radians between the line and either side of the head */
    double towards = atan2(y1 - y2, x1 - x2);
    open_path(out, colour, width);
    put_point(out, 'M', x1, y1);
    put_point(out, 'L', x2, y2);
    put_point(out, 'M', x2 + head * cos(towards - spread), y2 + head * sin(towards - spread));
    put_point(out, 'L', x2, y2);
    put_point(out, 'L', x2 + head * cos(towards + spread), y2 + head * sin(towards + spread));
    close_path(out);
}

void svg_text(FILE *out, double x, double y, const svg_type *type, const char *format, ...)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs("<text", out);
    put_attribute(out, "x", x);
    put_attribute(out, "y", y + 0.36 * type->size); /* half of a capital letter's height below the middle */
    put_attribute(out, "font-size", type->size);
    put_colour(out, "fill", type->colour);
    if (type->anchor != SVG_START)
        fprintf(out, " text-anchor=\"%s\"", anchors[type->anchor]);
    fputs(type->bold ? " font-weight=\"bold\">" : ">", out);
    svg_escape(out, text);
    fputs("</text>\n", out);
}

void svg_heading(FILE *out, const char *title, const char *about)
{
    svg_text(out, SVG_MARGIN, SVG_MARGIN + SVG_TITLE / 2.0,
             &(svg_type){.size = SVG_TITLE, .colour = SVG_INK, .bold = true}, "%s", title);
    svg_text(out, SVG_MARGIN, SVG_MARGIN + SVG_TITLE + SVG_LINE / 2.0 + 2,
             &(svg_type){.size = SVG_SMALL, .colour = SVG_MUTED}, "%s", about);
}

double svg_heading_width(const char *title, const char *about)
{
    return fmax(1.1 * svg_text_width(title, SVG_TITLE), svg_text_width(about, SVG_SMALL)); /* the title is bold */
}
