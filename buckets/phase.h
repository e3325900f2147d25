/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a bucket, and the calls that move it from one to the next. */
#ifndef WEFT_BUCKETS_PHASE_H
#define WEFT_BUCKETS_PHASE_H

typedef enum weft__bucket_phase {
    WEFT__FRESH,        /* params whole; no window open */
    WEFT__ACCUMULATING, /* params whole; gradients are added up */
    WEFT__READY,        /* all gradients final, the reduction not started */
    WEFT__REDUCING,     /* the reduction is in flight */
    WEFT__REDUCED,      /* owned gradients are whole */
    WEFT__STEPPING,     /* the optimizer works on what is owned */
    WEFT__GATHERING,    /* the gather is in flight, or has not been waited for; a window may be open already */
    WEFT__PHASES
} weft__bucket_phase;

typedef enum weft__call {
    WEFT__CALL_BEGIN,
    WEFT__CALL_MARK,     /* and add to a gradient */
    WEFT__CALL_COMPLETE, /* the last gradient is final */
    WEFT__CALL_LAUNCH,
    WEFT__CALL_FINISH, /* wait for the reduction */
    WEFT__CALL_NORM,
    WEFT__CALL_STEP,
    WEFT__CALL_SKIP, /* the step that will not be made */
    WEFT__CALL_GATHER,
    WEFT__CALL_READ,
    WEFT__CALL_WRITE, /* values and state from elsewhere */
    WEFT__CALLS
} weft__call;

#endif
