/* SPDX-License-Identifier: Apache-2.0 */
/* What pages have in common: they need nothing else, no other file and no network, are light or dark as their reader's
 * system is, and are well-formed XML, pictures of svg.h included. */
#ifndef WEFT_BENCH_PAGE_H
#define WEFT_BENCH_PAGE_H
#include <stdio.h>

typedef struct page_head {
    const char *title, *heading;
    int width;         /* pixels that text and pictures take at most */
    const char *rules; /* of style, behind those that all pages have; NULL = none */
} page_head;

void page_open(FILE *out, const page_head *head);
void page_close(FILE *out);

/* One element that holds a text: its tag, which may have attributes ("p class=\"note\""), and the text as printf()
 * makes it, escaped, cut at 1023 bytes. */
void page_text(FILE *out, const char *tag, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
