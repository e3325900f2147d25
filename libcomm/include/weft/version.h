/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The version that was compiled against, and the one that runs. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H
#include <weft/api.h>
WEFT_BEGIN_DECLS

#define WEFT_VERSION_MAJOR  0
#define WEFT_VERSION_MINOR  1
#define WEFT_VERSION_PATCH  0
#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)

/** The version of the library in use, as WEFT_VERSION_NUMBER. Threads: any. Blocks: never. */
WEFT_API int weft_version(void);

/** The same as text, such as "0.1.0". Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_version_string(void);

WEFT_END_DECLS
#endif
