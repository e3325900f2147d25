/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the device's table, as kernels in the order of a stream: see device/device.h. Types have been
 * checked: they are floating, where there is one. */
#ifndef WEFT_DEVICE_CUDA_VECTOR_H
#define WEFT_DEVICE_CUDA_VECTOR_H
#include "device/device.h"
#ifdef __cplusplus
extern "C" {
#endif

weft_result weft__cuda_fill(void *dst, size_t count, size_t element_bytes, uint64_t bits, weft_stream stream);
weft_result weft__cuda_scale(void *dst, size_t count, weft_dtype dtype, double factor, weft_stream stream);
weft_result weft__cuda_cast(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count,
                            weft_stream stream);
weft_result weft__cuda_accumulate(float *dst, const void *src, weft_dtype from, size_t count, weft_stream stream);
weft_result weft__cuda_sum_of_squares(const void *src, size_t count, weft_dtype dtype, weft__device_sum *sum,
                                      weft_stream stream);
weft_result weft__cuda_fold(const weft__device_sum *sum, weft__double2 *total, weft_stream stream);
weft_result weft__cuda_first_nonfinite(const void *src, size_t count, weft_dtype dtype, uint64_t base, uint64_t *first,
                                       weft_stream stream);
weft_result weft__cuda_judge(const weft__double2 *sums, int ranks, const weft__step_rule *rule,
                             weft__step_verdict *verdict, weft_stream stream);
weft_result weft__cuda_adamw(const weft__adamw *step, const weft__step_verdict *verdict, size_t count, float *master,
                             float *m, float *v, const void *grad, weft_dtype grad_dtype, void *param_out,
                             weft_dtype param_dtype, weft_stream stream);

#ifdef __cplusplus
}
#endif
#endif
