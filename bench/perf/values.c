/* SPDX-License-Identifier: Apache-2.0 */
/* Fills inputs and counts wrong elements of outputs, by the size of an element. */
#include "perf/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    return x * 0xd6e8feb86659fd93u;
}

static unsigned class_of(uint64_t salt, size_t index)
{
    return (unsigned)(mix(index + salt) >> 60);
}

bool perf_values_open(perf_values *v, int ranks)
{
    *v = (perf_values){.ranks = ranks};
    v->inputs = malloc((size_t)ranks * PERF_CLASSES * sizeof *v->inputs);
    v->scratch = malloc((size_t)ranks * sizeof *v->scratch);
    return v->inputs && v->scratch;
}

void perf_values_close(perf_values *v)
{
    free(v->inputs);
    free(v->scratch);
}

/* The number that rank @p rank has in a class. */
static double number_for(const perf_subject *s, unsigned class, int rank, uint64_t salt)
{
    uint64_t random = mix(salt * 1000003 + class * 4099 + (uint64_t)rank + 1) >> 40;
    if (!s->operation->reduces || s->reduction == WEFT_MIN || s->reduction == WEFT_MAX)
        return (double)(random % 100);
    if (s->reduction != WEFT_PRODUCT)
        return (double)(random % 4);
    if (perf_element_is_whole(s->dtype))
        return (double)(random % 3 + 1);
    return rank < 8 ? ldexp(1, (int)(random % 3) - 1) : 1; /* so that no partial product leaves fp16 */
}

void perf_values_choose(perf_values *v, const perf_subject *s, uint64_t salt)
{
    v->salt = salt * 0x51ed2701u;
    for (unsigned c = 0; c < PERF_CLASSES; c++)
        for (int r = 0; r < v->ranks; r++)
            v->inputs[c * (unsigned)v->ranks + (unsigned)r] = perf_element_of(s->dtype, number_for(s, c, r, salt));
}

/* The same for every size of an element: `of[class]` at each index. */
#define FILL(type)                     \
    for (size_t i = 0; i < count; i++) \
    ((type *)to)[i] = (type)of[class_of(salt, i)]

void perf_values_fill(const perf_values *v, const perf_subject *s, void *to)
{
    size_t count = perf_send_elements(s);
    uint64_t salt = v->salt;
    perf_element of[PERF_CLASSES];
    for (unsigned c = 0; c < PERF_CLASSES; c++)
        of[c] = v->inputs[c * (unsigned)v->ranks + (unsigned)s->rank];
    switch (weft_dtype_bytes(s->dtype)) {
    case 1:
        FILL(uint8_t);
        return;
    case 2:
        FILL(uint16_t);
        return;
    case 4:
        FILL(uint32_t);
        return;
    default:
        FILL(uint64_t);
    }
}

void perf_values_spoil(const perf_subject *s, void *recv)
{
    memset(recv, 0xa5, perf_recv_elements(s) * weft_dtype_bytes(s->dtype));
}

/* ------------------------------------------------------------------------------------------- what ought to come */

/* Carried out in place again, the operation meets its own result: in an all-reduce on every rank, else on this one. */
static perf_element again(perf_values *v, const perf_subject *s, unsigned class, perf_element last)
{
    bool everywhere = s->operation->collective == WEFT_ALL_REDUCE;
    for (int r = 0; r < v->ranks; r++)
        v->scratch[r] = everywhere || r == s->rank ? last : v->inputs[class * (unsigned)v->ranks + (unsigned)r];
    return perf_element_reduce(s->dtype, s->reduction, v->scratch, v->ranks, v->ranks);
}

static void expect_reduced(perf_values *v, const perf_subject *s, size_t uses)
{
    for (unsigned c = 0; c < PERF_CLASSES; c++) {
        perf_element now =
            perf_element_reduce(s->dtype, s->reduction, v->inputs + c * (unsigned)v->ranks, v->ranks, v->ranks);
        perf_element before = ~now;
        for (size_t use = 1; use < uses && now != before; use++) {
            before = now;
            now = again(v, s, c, now);
        }
        v->expected[c] = now;
    }
}

/* By how much of itself a number may be off: not at all where the sum of whole numbers in any order is exact. */
static double tolerance(const perf_subject *s, double number, size_t uses)
{
    double epsilon = perf_element_epsilon(s->dtype);
    bool sums = s->reduction == WEFT_SUM || s->reduction == WEFT_AVERAGE;
    if (!s->operation->reduces || perf_element_is_whole(s->dtype) || !sums)
        return 0;
    if (s->reduction == WEFT_SUM && fabs(number) <= 1 / epsilon)
        return 0;
    return fmin(0.5, (s->ranks + 1) * epsilon * (double)uses);
}

static bool is_near(const perf_subject *s, perf_element got, perf_element want, size_t uses)
{
    double number = perf_element_number(s->dtype, want), other = perf_element_number(s->dtype, got);
    return isfinite(number) && fabs(other - number) <= tolerance(s, number, uses) * fabs(number);
}

/* ------------------------------------------------------------------------------------------- comparing */

#define COUNT_OTHERS(type)               \
    for (size_t i = 0; i < p.count; i++) \
    others += ((const type *)at)[i] != (type)of[class_of(salt, p.from + i)]

/* Elements whose bits are not those expected. */
static size_t others_in(const void *at, perf_piece p, const perf_element *of, uint64_t salt, size_t bytes)
{
    size_t others = 0;
    switch (bytes) {
    case 1:
        COUNT_OTHERS(uint8_t);
        return others;
    case 2:
        COUNT_OTHERS(uint16_t);
        return others;
    case 4:
        COUNT_OTHERS(uint32_t);
        return others;
    default:
        COUNT_OTHERS(uint64_t);
        return others;
    }
}

static size_t wrong_in(perf_values *v, const perf_subject *s, const char *recv, perf_piece p, size_t uses)
{
    size_t bytes = weft_dtype_bytes(s->dtype), wrong = 0;
    const char *at = recv + p.begin * bytes;
    perf_element of[PERF_CLASSES];
    for (unsigned c = 0; c < PERF_CLASSES; c++)
        of[c] = p.source == PERF_REDUCED ? v->expected[c] : v->inputs[c * (unsigned)v->ranks + (unsigned)p.source];
    if (others_in(at, p, of, v->salt, bytes) == 0)
        return 0;
    for (size_t i = 0; i < p.count; i++) {
        perf_element got = perf_element_load(at + i * bytes, s->dtype), want = of[class_of(v->salt, p.from + i)];
        wrong += got != want && !is_near(s, got, want, uses);
    }
    return wrong;
}

size_t perf_values_wrong(perf_values *v, const perf_subject *s, const void *recv, bool in_place, size_t uses)
{
    if (!perf_receives(s))
        return 0;
    if (!in_place)
        uses = 1;
    if (s->operation->reduces)
        expect_reduced(v, s, uses);
    if (s->operation->swaps && uses % 2 == 0) /* the input again */
        return wrong_in(v, s, recv, (perf_piece){0, perf_recv_elements(s), s->rank, 0}, uses);
    size_t wrong = 0;
    for (int i = 0; i < perf_pieces(s); i++)
        wrong += wrong_in(v, s, recv, s->operation->piece(s, i), uses);
    return wrong;
}
