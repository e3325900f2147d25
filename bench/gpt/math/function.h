/* SPDX-License-Identifier: Apache-2.0 */
/* How a formula is declared, so that the host's compiler and a GPU's both take it. */
#ifndef WEFT_BENCH_GPT_MATH_FUNCTION_H
#define WEFT_BENCH_GPT_MATH_FUNCTION_H

#ifdef __CUDACC__
#define MATH_FUNCTION static inline __host__ __device__
#else
#define MATH_FUNCTION static inline
#endif

#endif
