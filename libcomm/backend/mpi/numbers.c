/* SPDX-License-Identifier: Apache-2.0 */
/* Types, sums and sizes, as MPI has them. */
#include <limits.h>
#include <math.h>

#include "backend/mpi/module.h"
#include "device/convert_math.h"

/* ------------------------------------------------------------------------------------------- sums */

/* Least and greatest of what MPI does not do right: it leaves open what becomes of NaN, and MPICH 4.0 takes unsigned
 * bytes for signed ones. */
#define EXTREME(name, type, compare)                                          \
    static void name(void *in, void *inout, int *count, MPI_Datatype *unused) \
    {                                                                         \
        const type *a = in;                                                   \
        type *b = inout;                                                      \
        (void)unused;                                                         \
        for (int i = 0; i < *count; i++)                                      \
            b[i] = b[i] != b[i] || b[i] compare a[i] ? b[i] : a[i];           \
    }
EXTREME(least_float, float, <)
EXTREME(greatest_float, float, >)
EXTREME(least_double, double, <)
EXTREME(greatest_double, double, >)
EXTREME(least_byte, unsigned char, <)
EXTREME(greatest_byte, unsigned char, >)

enum { OF_FLOAT, OF_DOUBLE, OF_BYTE, EXTREMES };
static MPI_Op extremes[EXTREMES][2];

static void make_extremes(void)
{
    static MPI_User_function *const functions[EXTREMES][2] = {
        [OF_FLOAT] = {least_float, greatest_float},
        [OF_DOUBLE] = {least_double, greatest_double},
        [OF_BYTE] = {least_byte, greatest_byte},
    };
    for (int i = 0; i < 2 * EXTREMES; i++)
        MPI_Op_create(functions[i / 2][i % 2], 1, &extremes[i / 2][i % 2]);
}

static MPI_Op extreme(int of, bool greatest)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_extremes);
    return extremes[of][greatest];
}

static MPI_Op op_of(weft_dtype dtype, weft_reduction reduction)
{
    bool greatest = reduction == WEFT_MAX;
    if (reduction != WEFT_MIN && reduction != WEFT_MAX)
        return reduction == WEFT_PRODUCT ? MPI_PROD : MPI_SUM;
    if (dtype == WEFT_INT32 || dtype == WEFT_INT64)
        return greatest ? MPI_MAX : MPI_MIN;
    return extreme(dtype == WEFT_UINT8 ? OF_BYTE : dtype == WEFT_FP64 ? OF_DOUBLE : OF_FLOAT, greatest);
}

weft__mpi_sum weft__mpi_sum_of(weft_dtype dtype, weft_reduction reduction)
{
    bool ordered = reduction == WEFT_MIN || reduction == WEFT_MAX;
    _Static_assert(WEFT_DTYPES == 7, "a new dtype has its case here");
    weft__mpi_sum sum = {.op = op_of(dtype, reduction), .is_wide = dtype == WEFT_BF16 || dtype == WEFT_FP16};
    switch (dtype) {
    case WEFT_INT32: /* sums and products wrap */
        sum.type = ordered ? MPI_INT32_T : MPI_UINT32_T;
        break;
    case WEFT_INT64:
        sum.type = ordered ? MPI_INT64_T : MPI_UINT64_T;
        break;
    case WEFT_UINT8:
        sum.type = MPI_UINT8_T;
        break;
    case WEFT_FP64:
        sum.type = MPI_DOUBLE;
        break;
    case WEFT_FP32:
    case WEFT_BF16:
    case WEFT_FP16:
        sum.type = MPI_FLOAT;
        break;
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------- conversions */

void weft__mpi_widen(const void *from, weft_dtype dtype, float *to, size_t count)
{
    const uint16_t *bits = from;
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == WEFT_BF16 ? weft__math_bf16_to_float(bits[i]) : weft__math_fp16_to_float(bits[i]);
}

void weft__mpi_narrow(const float *from, float divisor, void *to, weft_dtype dtype, size_t count)
{
    uint16_t *bits = to;
    for (size_t i = 0; i < count; i++) {
        float value = from[i] / divisor;
        bits[i] = dtype == WEFT_BF16 ? weft__math_float_to_bf16(value) : weft__math_float_to_fp16(value);
    }
}

void weft__mpi_divide(void *values, weft_dtype dtype, size_t count, int divisor)
{
    for (size_t i = 0; i < count && dtype == WEFT_FP64; i++)
        ((double *)values)[i] /= (double)divisor;
    for (size_t i = 0; i < count && dtype == WEFT_FP32; i++)
        ((float *)values)[i] /= (float)divisor;
}

/* ------------------------------------------------------------------------------------------- sizes */

/* MPI counts in int: what is more is a type of its own, of pages and what is left of one. */
weft__mpi_bytes weft__mpi_bytes_of(size_t bytes)
{
    enum { PAGE_SHIFT = 20 };
    if (bytes <= INT_MAX)
        return (weft__mpi_bytes){MPI_BYTE, (int)bytes};
    size_t pages = bytes >> PAGE_SHIFT;
    MPI_Datatype page, parts[2], whole;
    MPI_Type_contiguous(1 << PAGE_SHIFT, MPI_BYTE, &page);
    parts[0] = page, parts[1] = MPI_BYTE;
    int counts[2] = {(int)pages, (int)(bytes - (pages << PAGE_SHIFT))}; /* 2 PiB are enough */
    MPI_Aint offsets[2] = {0, (MPI_Aint)(pages << PAGE_SHIFT)};
    MPI_Type_create_struct(2, counts, offsets, parts, &whole);
    MPI_Type_commit(&whole);
    MPI_Type_free(&page);
    return (weft__mpi_bytes){whole, 1};
}

void weft__mpi_bytes_free(weft__mpi_bytes *bytes)
{
    if (bytes->type != MPI_BYTE)
        MPI_Type_free(&bytes->type);
}
