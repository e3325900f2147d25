/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of text, to compare with values too long to keep. */
#ifndef WEFT_TESTS_HARNESS_SHA256_H
#define WEFT_TESTS_HARNESS_SHA256_H
#include <stddef.h>

/* The digest of @p bytes bytes as 64 lower-case hexadecimal digits. */
void sha256_hex(const void *data, size_t bytes, char hex[65]);

#endif
