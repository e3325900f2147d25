/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says how long a character is; the number it stands for, whether it may be that long. */
#include "utf8.h"

#include <stdbool.h>
#include <stdint.h>

size_t utf8_bytes(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    size_t bytes = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 0;
    if (bytes < 2)
        return bytes;
    uint32_t code = *at & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0u) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    bool is_character = *at < 0xf8 && code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return is_character ? bytes : 0;
}
