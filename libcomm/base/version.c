/* SPDX-License-Identifier: Apache-2.0 */
/* The version. */
#include <weft/version.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

int weft_version(void)
{
    return WEFT_VERSION_NUMBER;
}

const char *weft_version_string(void)
{
    return TEXT(WEFT_VERSION_MAJOR) "." TEXT(WEFT_VERSION_MINOR) "." TEXT(WEFT_VERSION_PATCH);
}
