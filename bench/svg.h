/* SPDX-License-Identifier: Apache-2.0 */
/* Writes pictures (SVG 1.1), shape by shape, so that texts are escaped and colours are alike everywhere. Lengths are
 * pixels. A picture brings its own background, and nothing in it has an id: it may stand inside a page with others. */
#ifndef WEFT_BENCH_SVG_H
#define WEFT_BENCH_SVG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t svg_colour; /* 0xrrggbb */

/* The colours that Okabe and Ito chose for being told apart by everybody, and what stands around them. A page turns
 * what stands around them over where its reader likes it dark; ink on a colour stays. */
enum {
    SVG_INK = 0x222222,
    SVG_INK_ON_COLOUR = 0x1a1a1a,
    SVG_MUTED = 0x666666,
    SVG_FRAME = 0xb0b0b0,
    SVG_SHADE = 0xe8e8e8,
    SVG_PAPER = 0xffffff,
    SVG_BLUE = 0x0072b2,
    SVG_ORANGE = 0xe69f00,
    SVG_GREEN = 0x009e73,
    SVG_SKY = 0x56b4e9,
    SVG_VERMILION = 0xd55e00,
    SVG_PURPLE = 0xcc79a7,
    SVG_YELLOW = 0xf0e442
};

/* @p share of @p b, the rest of @p a. */
svg_colour svg_mix(svg_colour a, svg_colour b, double share);
/* What can be read on the colour @p fill: ink or paper. */
svg_colour svg_ink_on(svg_colour fill);

typedef struct svg_box {
    double x, y, width, height;
} svg_box;

typedef struct svg_style {
    svg_colour fill, line;
    double line_width; /* 0 = no line */
    double radius;     /* of the corners */
    bool dashed;
} svg_style;

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

typedef struct svg_type {
    double size;
    svg_colour colour;
    svg_anchor anchor; /* what of the text is at x */
    bool bold;
} svg_type;

/* A text between tags or in an attribute: what XML has no place for becomes U+FFFD. */
void svg_escape(FILE *out, const char *text);

void svg_open(FILE *out, double width, double height, const char *title);
void svg_close(FILE *out); /* also of a part */
/* What stands between the two is one thing of this class. */
void svg_group_open(FILE *out, const char *class);
void svg_group_close(FILE *out);

/* A picture in the picture, whose lengths count from its corner, and which cuts off what is outside. */
void svg_part_open(FILE *out, svg_box box, const char *class);

/* @p tip is shown by viewers that have a pointer; NULL = nothing. */
void svg_rect(FILE *out, svg_box box, const svg_style *style, const char *tip);
void svg_line(FILE *out, double x1, double y1, double x2, double y2, svg_colour colour, double width);
/* Lines through the points x, y, x, y, ...; where one is not finite there is a gap. */
void svg_curve(FILE *out, const double *points, size_t count, svg_colour colour, double width);
/* A line with a head at its end, as one element. */
void svg_arrow(FILE *out, double x1, double y1, double x2, double y2, double head, svg_colour colour, double width);
/* One line, its letters centred on @p y. */
void svg_text(FILE *out, double x, double y, const svg_type *type, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* How a picture of its own begins: below a margin its title and a line about it. */
enum { SVG_MARGIN = 24, SVG_TITLE = 16, SVG_SMALL = 11, SVG_LINE = 20 };
enum { SVG_BELOW_HEADING = SVG_MARGIN + SVG_TITLE + SVG_LINE + 14 };
void svg_heading(FILE *out, const char *title, const char *about);
double svg_heading_width(const char *title, const char *about);

/* How far ticks of an axis are apart: 1, 2 or 5 times a power of ten, not below @p least. */
double svg_tick_step(double least);
/* The room that a text takes, in whatever font: rather more. */
double svg_text_width(const char *text, double size);

#endif
