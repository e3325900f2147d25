/* SPDX-License-Identifier: Apache-2.0 */
/* Products by CBLAS: any will do; what the common ones need to be told is found at run time. */
#include "gpt/host/gemm.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static const char *library = "CBLAS";
static bool shares_buffers; /* between threads that call it: they must take turns */

/* A function that this BLAS may have beyond CBLAS, or NULL. */
typedef void (*extra)(void);
static extra find(const char *name)
{
    extra function;
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(&function, &symbol, sizeof function); /* ISO C has no cast for this */
    return function;
}

static void open_once(void)
{
    static const struct {
        const char *name, *set_threads;
    } known[] = {{"OpenBLAS", "openblas_set_num_threads"},
                 {"BLIS", "bli_thread_set_num_threads"},
                 {"MKL", "MKL_Set_Num_Threads"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        void (*set_threads)(int) = (void (*)(int))find(known[i].set_threads);
        if (!set_threads)
            continue;
        set_threads(1);
        library = known[i].name;
    }
    /* OpenBLAS built without threads hands out its packing buffers without a lock. */
    int (*parallel)(void) = (int (*)(void))find("openblas_get_parallel");
    shares_buffers = parallel && parallel() == 0;
}

const char *gpt_gemm_library(void)
{
    return library;
}

void gpt_gemm_open(void)
{
    pthread_once(&opened, open_once);
}

void gpt_gemm(size_t m, size_t n, size_t k, float alpha, gpt_matrix a, gpt_matrix b, float beta, float *c,
              size_t stride)
{
    if (shares_buffers)
        pthread_mutex_lock(&one_at_a_time);
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a.values, (int)a.stride, b.values, (int)b.stride, beta, c, (int)stride);
    if (shares_buffers)
        pthread_mutex_unlock(&one_at_a_time);
}

/* The best of OpenBLAS's kernels that this processor can run. */
static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

void gpt_gemm_restart(char **argv)
{
    char *(*core_name)(void) = (char *(*)(void))find("openblas_get_corename");
    const char *better = core_type();
    if (!core_name || strcmp(core_name(), "Prescott") != 0 || !better || getenv("OPENBLAS_CORETYPE"))
        return;
    setenv("OPENBLAS_CORETYPE", better, 1);
    execv("/proc/self/exe", argv);
    unsetenv("OPENBLAS_CORETYPE"); /* it cannot be: on with what there is */
}
