/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of the public enumerations, and the version. */
#include <weft/collective.h>
#include <weft/dtype.h>
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

static const char *name(const char *const *names, int count, int value)
{
    return value >= 0 && value < count ? names[value] : "?";
}

size_t weft_dtype_bytes(weft_dtype dtype)
{
    static const unsigned char bytes[WEFT_DTYPES] = {4, 2, 2, 8, 4, 8, 1};
    return (int)dtype >= 0 && (int)dtype < WEFT_DTYPES ? bytes[dtype] : 0;
}

const char *weft_dtype_string(weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPES] = {"fp32", "bf16", "fp16", "fp64", "int32", "int64", "uint8"};
    return name(names, WEFT_DTYPES, (int)dtype);
}

const char *weft_reduction_string(weft_reduction reduction)
{
    static const char *const names[WEFT_REDUCTIONS] = {"sum", "average", "min", "max", "product"};
    return name(names, WEFT_REDUCTIONS, (int)reduction);
}

const char *weft_collective_string(weft_collective_kind kind)
{
    static const char *const names[WEFT_COLLECTIVE_KINDS] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                             "reduce",     "all_to_all",     "barrier"};
    return name(names, WEFT_COLLECTIVE_KINDS, (int)kind);
}
