/* SPDX-License-Identifier: Apache-2.0 */
/* Which call fits which phase of a bucket, and what is said if it does not. */
#include "phase.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "set.h"

/* What a table says of a call in a phase: where it leads, or why it is refused. */
typedef struct rule {
    bool fits;
    weft__bucket_phase next;
    weft_result result;
    const char *why;
} rule;

#define TO(phase)                     \
    {                                 \
        .fits = true, .next = (phase) \
    }
#define STATE(text)                           \
    {                                         \
        .result = WEFT_E_STATE, .why = (text) \
    }
#define TWICE(text)                           \
    {                                         \
        .result = WEFT_E_TWICE, .why = (text) \
    }

/* A place that is left out is a fault of weft's own. */
static const rule rules[WEFT__CALLS][WEFT__PHASES] = {
    [WEFT__CALL_BEGIN][WEFT__FRESH] = TO(WEFT__ACCUMULATING),
    [WEFT__CALL_BEGIN][WEFT__ACCUMULATING] = TO(WEFT__ACCUMULATING),
    [WEFT__CALL_BEGIN][WEFT__GATHERING] = TO(WEFT__GATHERING),
    [WEFT__CALL_BEGIN][WEFT__REDUCED] = STATE("a microbatch begins, but it was reduced and not gathered"),

    [WEFT__CALL_MARK][WEFT__ACCUMULATING] = TO(WEFT__ACCUMULATING),
    [WEFT__CALL_MARK][WEFT__FRESH] = STATE("a gradient, but no microbatch has begun"),
    [WEFT__CALL_MARK][WEFT__READY] = TWICE("its gradient is final already"),
    [WEFT__CALL_MARK][WEFT__REDUCING] = TWICE("its gradient is final and being reduced already"),
    [WEFT__CALL_MARK][WEFT__REDUCED] = TWICE("its gradient is final and reduced already"),
    [WEFT__CALL_MARK][WEFT__GATHERING] = STATE("a gradient, but its values were not acquired"),

    [WEFT__CALL_COMPLETE][WEFT__ACCUMULATING] = TO(WEFT__READY),
    [WEFT__CALL_COMPLETE][WEFT__GATHERING] = STATE("the window ends, but its values were not acquired"),
    [WEFT__CALL_LAUNCH][WEFT__READY] = TO(WEFT__REDUCING),
    [WEFT__CALL_FINISH][WEFT__REDUCING] = TO(WEFT__REDUCED),

    [WEFT__CALL_STEP][WEFT__REDUCED] = TO(WEFT__STEPPING),
    [WEFT__CALL_SKIP][WEFT__REDUCED] = TO(WEFT__FRESH),
    [WEFT__CALL_NORM][WEFT__REDUCED] = TO(WEFT__REDUCED),
    [WEFT__CALL_NORM][WEFT__FRESH] = STATE("a norm, but its gradients are not reduced"),
    [WEFT__CALL_NORM][WEFT__ACCUMULATING] = STATE("a norm, but its gradients are not reduced"),
    [WEFT__CALL_NORM][WEFT__READY] = STATE("a norm, but its gradients are not reduced"),
    [WEFT__CALL_NORM][WEFT__REDUCING] = STATE("a norm, but its gradients are still being reduced"),
    [WEFT__CALL_NORM][WEFT__GATHERING] = STATE("a norm, but its gradients are not reduced"),

    [WEFT__CALL_GATHER][WEFT__FRESH] = TO(WEFT__GATHERING),
    [WEFT__CALL_GATHER][WEFT__REDUCED] = TO(WEFT__GATHERING),
    [WEFT__CALL_GATHER][WEFT__STEPPING] = TO(WEFT__GATHERING),
    [WEFT__CALL_GATHER][WEFT__ACCUMULATING] = STATE("it is to be gathered, but was not reduced in this window"),
    [WEFT__CALL_GATHER][WEFT__READY] = STATE("it is to be gathered, but was not reduced in this window"),
    [WEFT__CALL_GATHER][WEFT__REDUCING] = STATE("it is to be gathered, but is still being reduced"),
    [WEFT__CALL_GATHER][WEFT__GATHERING] = TWICE("it is being gathered already"),

    [WEFT__CALL_READ][WEFT__FRESH] = TO(WEFT__FRESH),
    [WEFT__CALL_READ][WEFT__ACCUMULATING] = TO(WEFT__ACCUMULATING),
    [WEFT__CALL_READ][WEFT__READY] = TO(WEFT__READY),
    [WEFT__CALL_READ][WEFT__REDUCING] = TO(WEFT__REDUCING),
    [WEFT__CALL_READ][WEFT__REDUCED] = STATE("it was reduced and not gathered: its values may be old"),
    [WEFT__CALL_READ][WEFT__GATHERING] = STATE("it is being gathered: acquire it first"),

    [WEFT__CALL_WRITE][WEFT__FRESH] = TO(WEFT__FRESH),
    [WEFT__CALL_WRITE][WEFT__ACCUMULATING] = STATE("it is to be written, but a window is open"),
    [WEFT__CALL_WRITE][WEFT__READY] = STATE("it is to be written, but a window is open"),
    [WEFT__CALL_WRITE][WEFT__REDUCING] = STATE("it is to be written, but a window is open"),
    [WEFT__CALL_WRITE][WEFT__REDUCED] = STATE("it is to be written, but was reduced and not stepped"),
    [WEFT__CALL_WRITE][WEFT__GATHERING] = STATE("it is being gathered: acquire it first"),
};

weft_result weft__refuse(const weft_buckets *set, const weft__bucket *bucket, uint32_t param, weft_result result,
                         const char *format, ...)
{
    char why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const weft_param *p = weft_params_get(set->params, param);
    return weft__fail(result, "rank %d, set '%s', bucket %u%s%s%s: %s", set->rank, set->name,
                      (unsigned)(bucket - set->buckets), p ? ", param '" : "", p ? p->name : "", p ? "'" : "", why);
}

static weft_result refuse_call(const weft_buckets *set, const weft__bucket *bucket, const rule *r, uint32_t param)
{
    if (!r->why)
        return weft__refuse(set, bucket, param, WEFT_E_BUG, "phase %d does not fit", (int)bucket->phase);
    return weft__refuse(set, bucket, param, r->result, "%s", r->why);
}

weft_result weft__phase_check(const weft_buckets *set, const weft__bucket *bucket, weft__call call, uint32_t param)
{
    const rule *r = &rules[call][bucket->phase];
    return r->fits ? WEFT_OK : refuse_call(set, bucket, r, param);
}

weft_result weft__phase_move(const weft_buckets *set, weft__bucket *bucket, weft__call call)
{
    WEFT_TRY(weft__phase_check(set, bucket, call, WEFT_LAYOUT_NONE));
    bucket->phase = rules[call][bucket->phase].next;
    return WEFT_OK;
}
