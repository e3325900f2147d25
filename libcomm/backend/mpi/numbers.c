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

/* Open MPI 4.1 has sums of bytes end at 255 where the processor has AVX. */
static void sum_byte(void *in, void *inout, int *count, MPI_Datatype *unused)
{
    const unsigned char *a = in;
    unsigned char *b = inout;
    (void)unused;
    for (int i = 0; i < *count; i++)
        b[i] = (unsigned char)(b[i] + a[i]);
}

enum { LEAST_FLOAT, GREATEST_FLOAT, LEAST_DOUBLE, GREATEST_DOUBLE, LEAST_BYTE, GREATEST_BYTE, SUM_BYTE, OWN_OPS };
static MPI_Op own_ops[OWN_OPS];

static void make_own_ops(void)
{
    static MPI_User_function *const functions[OWN_OPS] = {
        [LEAST_FLOAT] = least_float,   [GREATEST_FLOAT] = greatest_float,
        [LEAST_DOUBLE] = least_double, [GREATEST_DOUBLE] = greatest_double,
        [LEAST_BYTE] = least_byte,     [GREATEST_BYTE] = greatest_byte,
        [SUM_BYTE] = sum_byte,
    };
    for (int i = 0; i < OWN_OPS; i++)
        MPI_Op_create(functions[i], 1, &own_ops[i]);
}

static MPI_Op own_op(int which)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_own_ops);
    return own_ops[which];
}

static MPI_Op op_of(weft_dtype dtype, weft_reduction reduction)
{
    bool greatest = reduction == WEFT_MAX;
    if (reduction == WEFT_PRODUCT)
        return MPI_PROD;
    if (reduction != WEFT_MIN && reduction != WEFT_MAX)
        return dtype == WEFT_UINT8 ? own_op(SUM_BYTE) : MPI_SUM;
    if (dtype == WEFT_INT32 || dtype == WEFT_INT64)
        return greatest ? MPI_MAX : MPI_MIN;
    return own_op((dtype == WEFT_UINT8 ? LEAST_BYTE : dtype == WEFT_FP64 ? LEAST_DOUBLE : LEAST_FLOAT) + greatest);
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
