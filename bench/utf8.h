/* SPDX-License-Identifier: Apache-2.0 */
/* Tells characters from bytes that are none: texts from outside go into JSON and pictures. */
#ifndef WEFT_BENCH_UTF8_H
#define WEFT_BENCH_UTF8_H
#include <stddef.h>

/* The bytes of the character that @p at begins with; 0 if it is none: cut off, longer than need be, a surrogate, or
 * above U+10FFFF. */
size_t utf8_bytes(const char *at);

#endif
