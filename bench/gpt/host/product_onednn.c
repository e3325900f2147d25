/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 matrices by oneDNN. */
#include "gpt/host/product.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { A, B, C, SCRATCH, MATRICES };

/* Each has an engine and a stream of its own: on the host they hold nothing, and so products share nothing. Under way
 * oneDNN allocates a few nodes for its table of arguments; its scratch is made here, once. */
struct gpt_product {
    gpt_product_shape shape;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t post_ops;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive; /* NULL: no sums to make */
    dnnl_memory_t matrices[MATRICES];
};

/* ---- which library ---- */

static pthread_once_t looked_for = PTHREAD_ONCE_INIT;
static char library[32];             /* "": none that pays */
static void (*set_threads_omp)(int); /* NULL: oneDNN has no threads */

/* Builds for TBB and thread pools cannot be told by call to stay on one thread: ranks would be in each other's way. */
static bool stays_on_one_thread(const dnnl_version_t *version)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads"); /* comes with oneDNN */
    memcpy(&set_threads_omp, &symbol, sizeof set_threads_omp); /* ISO C has no cast for this */
    return version->cpu_runtime == DNNL_RUNTIME_SEQ || (version->cpu_runtime == DNNL_RUNTIME_OMP && set_threads_omp);
}

/* AMX pays everywhere: 4 to 20 times the rate of a BLAS in fp32. AVX512_BF16 pays where it has twice the rate of fp32,
 * which AMD's has; Intel's has half of it. Without either oneDNN widens bf16 itself, and a BLAS is faster. Nothing is
 * timed here: ranks must choose alike, and alike in the next run. What a processor can do is oneDNN's to say, so that
 * its DNNL_MAX_CPU_ISA holds here too; of others than x86 it says nothing. */
static bool pays(void)
{
#if defined(__x86_64__)
    unsigned has = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned wants = __builtin_cpu_is("amd") ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core_amx;
    return (has & wants) == wants;
#else
    return false;
#endif
}

static void look_for_it(void)
{
    const dnnl_version_t *version = dnnl_version();
    if (stays_on_one_thread(version) && pays())
        snprintf(library, sizeof library, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

const char *gpt_product_library(void)
{
    pthread_once(&looked_for, look_for_it);
    return *library ? library : NULL;
}

/* ---- a product ---- */

/* For what holds nothing: pass a failure up. */
#define DNNL_TRY(call)                  \
    do {                                \
        dnnl_status_t status_ = (call); \
        if (status_ != dnnl_success)    \
            return status_;             \
    } while (0)

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *matrix, size_t rows, size_t columns, size_t stride,
                                     bool transposed, dnnl_data_type_t type)
{
    const dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    const dnnl_dims_t strides = {transposed ? 1 : (dnnl_dim_t)stride, transposed ? (dnnl_dim_t)stride : 1};
    return dnnl_memory_desc_init_by_strides(matrix, 2, sizes, type, strides);
}

static dnnl_status_t make_attributes(gpt_product *p)
{
    DNNL_TRY(dnnl_primitive_attr_create(&p->attributes));
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(p->attributes, dnnl_scratchpad_mode_user));
    if (!p->shape.adds)
        return dnnl_success;
    DNNL_TRY(dnnl_post_ops_create(&p->post_ops));
    DNNL_TRY(dnnl_post_ops_append_sum(p->post_ops, 1));
    return dnnl_primitive_attr_set_post_ops(p->attributes, p->post_ops);
}

static dnnl_status_t make_primitive(gpt_product *p, const dnnl_memory_desc_t matrices[])
{
    dnnl_matmul_desc_t product;
    DNNL_TRY(dnnl_matmul_desc_init(&product, &matrices[A], &matrices[B], NULL, &matrices[C]));
    DNNL_TRY(make_attributes(p));
    DNNL_TRY(dnnl_primitive_desc_create(&p->description, &product, p->attributes, p->engine, NULL));
    DNNL_TRY(dnnl_primitive_create(&p->primitive, p->description));
    for (int i = A; i <= C; i++)
        DNNL_TRY(dnnl_memory_create(&p->matrices[i], &matrices[i], p->engine, DNNL_MEMORY_NONE));
    const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(p->description, dnnl_query_scratchpad_md, 0);
    return dnnl_memory_create(&p->matrices[SCRATCH], scratch, p->engine, DNNL_MEMORY_ALLOCATE);
}

static dnnl_status_t make(gpt_product *p)
{
    const gpt_product_shape *s = &p->shape;
    dnnl_memory_desc_t matrices[SCRATCH];
    if (set_threads_omp)
        set_threads_omp(1); /* of this thread alone */
    DNNL_TRY(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    DNNL_TRY(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    DNNL_TRY(describe_matrix(&matrices[A], s->m, s->k, s->a_stride, s->a_transposed, dnnl_bf16));
    DNNL_TRY(describe_matrix(&matrices[B], s->k, s->n, s->b_stride, s->b_transposed, dnnl_bf16));
    DNNL_TRY(describe_matrix(&matrices[C], s->m, s->n, s->c_stride, false, dnnl_f32));
    return make_primitive(p, matrices);
}

gpt_product *gpt_product_open(const gpt_product_shape *shape)
{
    if (!gpt_product_library())
        return NULL;
    gpt_product *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->shape = *shape;
    bool empty = !shape->m || !shape->n || !shape->k;
    if (empty || make(p) == dnnl_success)
        return p;
    gpt_product_close(p);
    return NULL;
}

/* Without sums to make. */
static void run_empty(const gpt_product_shape *s, float *c)
{
    for (size_t row = 0; row < s->m && !s->adds; row++)
        memset(c + row * s->c_stride, 0, s->n * sizeof *c);
}

void gpt_product_run(const gpt_product *p, const uint16_t *a, const uint16_t *b, float *c)
{
    if (!p->primitive) {
        run_empty(&p->shape, c);
        return;
    }
    const dnnl_exec_arg_t arguments[MATRICES] = {
        {DNNL_ARG_SRC, p->matrices[A]},
        {DNNL_ARG_WEIGHTS, p->matrices[B]},
        {DNNL_ARG_DST, p->matrices[C]},
        {DNNL_ARG_SCRATCHPAD, p->matrices[SCRATCH]},
    };
    /* What is wrong with a product shows when it is made; what is left is want of memory for some nodes. */
    if (dnnl_memory_set_data_handle(p->matrices[A], (void *)a) != dnnl_success ||
        dnnl_memory_set_data_handle(p->matrices[B], (void *)b) != dnnl_success ||
        dnnl_memory_set_data_handle(p->matrices[C], c) != dnnl_success ||
        dnnl_primitive_execute(p->primitive, p->stream, MATRICES, arguments) != dnnl_success ||
        dnnl_stream_wait(p->stream) != dnnl_success) {
        fputs("weft: oneDNN could not multiply\n", stderr);
        abort();
    }
}

void gpt_product_close(gpt_product *p)
{
    if (!p)
        return;
    for (int i = 0; i < MATRICES; i++)
        dnnl_memory_destroy(p->matrices[i]);
    dnnl_primitive_destroy(p->primitive);
    dnnl_primitive_desc_destroy(p->description);
    dnnl_post_ops_destroy(p->post_ops);
    dnnl_primitive_attr_destroy(p->attributes);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
