/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device computes what the host does, bit by bit, in the order of its streams. The kernels' own bodies run
 * here; what is not tested is how a GPU shares their elements out. */
#include <dlfcn.h>
#include <stdlib.h>
#include <weft/cuda.h>

#include "device/device.h"
#include "harness/test.h"

#define OK(call) CHECK_INT(call, WEFT_OK)

static const weft__device_calls *calls;
static weft__device *device;
static weft_stream stream;
static const weft_dtype floating[] = {WEFT_FP64, WEFT_FP32, WEFT_BF16, WEFT_FP16};
static const size_t counts[] = {0, 1, 7, 4097, 100003};

#define EACH(item, list) for (size_t item = 0; item < sizeof list / sizeof *list; item++)

/* `bench/gpu/check` runs this file with CUDA's own library, which has one GPU and counts no races. */
static uint64_t races(void)
{
    uint64_t (*count)(void) = NULL;
    *(void **)&count = dlsym(RTLD_DEFAULT, "standin_races");
    return count ? count() : 0;
}

static int chosen_gpu(void)
{
    return dlsym(RTLD_DEFAULT, "standin_races") ? 1 : 0;
}

static void open_device(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/libweft-cuda.so", getenv("WEFT_MODULE_PATH"));
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(module, "%s", dlerror());
    weft__device_module_function *entry = NULL;
    *(void **)&entry = dlsym(module, "weft__device_module");
    CHECK(entry);
    calls = entry();
    CHECK_INT(calls->abi, WEFT__DEVICE_ABI);
    CHECK_INT(calls->size, sizeof *calls);
    OK(calls->open(chosen_gpu(), &device));
    CHECK_INT(calls->index(device), chosen_gpu());
    OK(calls->stream_open(device, 1, &stream));
}

static void close_device(void)
{
    CHECK_INT(races(), 0);
    calls->stream_close(device, stream);
    calls->close(device);
}

/* Wait for all that it holds. */
static weft_result finish_stream(weft_stream which)
{
    weft__event *event;
    OK(calls->event_open(device, &event));
    OK(calls->record(device, event, which));
    weft_result result = calls->await(device, event);
    calls->event_close(device, event);
    return result;
}

static void *on_device(const void *host, size_t bytes)
{
    void *memory;
    OK(calls->alloc(device, bytes, &memory));
    OK(calls->copy(device, memory, host, bytes, stream));
    return memory;
}

static void check_bytes(const void *memory, const void *want, size_t bytes, const char *what, size_t count, int type)
{
    unsigned char *got = malloc(bytes + 1);
    CHECK(got);
    OK(calls->copy(device, got, memory, bytes, stream));
    OK(finish_stream(stream));
    for (size_t i = 0; i < bytes; i++)
        CHECK_MSG(got[i] == ((const unsigned char *)want)[i], "%s of %zu of type %d: byte %zu differs", what, count,
                  type, i);
    free(got);
}

/* Of every kind: random bits are subnormals, infinities and NaN, too. */
static void *random_values(size_t count, weft_dtype dtype, bool any)
{
    static uint64_t state = 88172645463325252u;
    unsigned char *values = calloc(count + 1, weft_dtype_bytes(dtype));
    double *doubles = calloc(count + 1, sizeof *doubles);
    CHECK(values && doubles);
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        doubles[i] = ((double)(state % 2000001) - 1000000) * 1e-5 * (state % 3 ? 1 : 1e-6);
        if (any)
            memcpy(values + i * weft_dtype_bytes(dtype), &state, weft_dtype_bytes(dtype));
    }
    if (!any)
        weft__vector_host()->cast(values, dtype, doubles, WEFT_FP64, count);
    free(doubles);
    return values;
}

/* Of a NaN only that it is one: make all of them the same. */
static void one_nan(void *values, size_t count, weft_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)values + i * weft_dtype_bytes(dtype);
        double x;
        weft__vector_host()->cast(&x, WEFT_FP64, at, dtype, 1);
        x = (double)NAN;
        if (weft__vector_host()->first_nonfinite(at, 1, dtype) == 0) {
            weft__vector_host()->cast(&x, WEFT_FP64, at, dtype, 1);
            if (x != x)
                memset(at, 0xff, weft_dtype_bytes(dtype));
        }
    }
}

static void check_values(void *memory, void *want, size_t count, weft_dtype dtype, const char *what)
{
    size_t bytes = count * weft_dtype_bytes(dtype);
    void *got = malloc(bytes + 1);
    CHECK(got);
    OK(calls->copy(device, got, memory, bytes, stream));
    OK(finish_stream(stream));
    one_nan(got, count, dtype);
    one_nan(want, count, dtype);
    CHECK_MSG(memcmp(got, want, bytes) == 0, "%s of %zu %s differs", what, count, weft_dtype_string(dtype));
    free(got);
}

TEST(memory_is_zero_and_known)
{
    static const char zeros[1000];
    void *memory, *host;
    open_device();
    OK(calls->alloc(device, sizeof zeros, &memory));
    OK(calls->alloc_host(device, 10, &host));
    check_bytes(memory, zeros, sizeof zeros, "memory", 0, 0);
    CHECK(calls->owns(device, (char *)memory + 999));
    CHECK(!calls->owns(device, host));
    CHECK(!calls->owns(device, zeros));
    calls->release(device, memory);
    calls->release_host(device, host);
    close_device();
}

TEST(events_tell_when_a_stream_has_come_so_far)
{
    weft__event *event;
    weft_stream other;
    float *memory, value = 0;
    open_device();
    OK(calls->stream_open(device, 0, &other));
    OK(calls->event_open(device, &event));
    memory = on_device(&value, sizeof value);
    OK(calls->fill(device, memory, 1, 4, 0x3f800000, stream));
    OK(calls->record(device, event, stream));
    OK(calls->order(device, other, event));
    OK(calls->scale(device, memory, 1, WEFT_FP32, 3, other));
    OK(calls->record(device, event, other));
    OK(calls->await(device, event));
    OK(calls->reached(device, event));
    OK(calls->copy(device, &value, memory, sizeof value, other));
    OK(finish_stream(other));
    CHECK_INT(value, 3);
    calls->event_close(device, event);
    calls->stream_close(device, other);
    close_device();
}

TEST(element_wise_arithmetic_is_the_hosts)
{
    const weft__vector *host = weft__vector_host();
    open_device();
    EACH(c, counts) EACH(t, floating)
    {
        size_t count = counts[c], bytes = count * weft_dtype_bytes(floating[t]);
        void *values = random_values(count, floating[t], true), *memory = on_device(values, bytes);
        OK(calls->scale(device, memory, count, floating[t], 0.3, stream));
        host->scale(values, count, floating[t], 0.3);
        check_values(memory, values, count, floating[t], "scale");
        EACH(to, floating)
        {
            void *want = calloc(count + 1, weft_dtype_bytes(floating[to]));
            void *dst = on_device(want, count * weft_dtype_bytes(floating[to]));
            OK(calls->copy(device, memory, values, bytes, stream));
            OK(calls->cast(device, dst, floating[to], memory, floating[t], count, stream));
            host->cast(want, floating[to], values, floating[t], count);
            check_values(dst, want, count, floating[to], "cast");
            calls->release(device, dst);
            free(want);
        }
        float *sum = random_values(count, WEFT_FP32, false), *sum_there = on_device(sum, count * sizeof *sum);
        OK(calls->accumulate(device, sum_there, memory, floating[t], count, stream));
        host->accumulate(sum, values, floating[t], count);
        check_values(sum_there, sum, count, WEFT_FP32, "accumulate");
        calls->release(device, sum_there);
        calls->release(device, memory);
        free(sum);
        free(values);
    }
    close_device();
}

TEST(fill_takes_every_width)
{
    open_device();
    for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
        unsigned char want[24];
        uint64_t bits = 0x1122334455667788u;
        for (size_t i = 0; i < 3; i++)
            memcpy(want + i * bytes, &bits, bytes);
        void *memory = on_device(want + 0, 3 * bytes);
        OK(calls->fill(device, memory, 3, bytes, 0, stream));
        OK(calls->fill(device, memory, 3, bytes, bits, stream));
        check_bytes(memory, want, 3 * bytes, "fill", 3, (int)bytes);
        calls->release(device, memory);
    }
    close_device();
}

static weft__double2 squares_of(const void *memory, size_t count, weft_dtype dtype, int times)
{
    weft__device_sum *sum;
    weft__double2 *total, result;
    OK(calls->alloc(device, sizeof *sum, (void **)&sum));
    OK(calls->alloc(device, sizeof *total, (void **)&total));
    for (int i = 0; i < times; i++)
        OK(calls->sum_of_squares(device, memory, count, dtype, sum, stream));
    OK(calls->fold(device, sum, total, stream));
    OK(calls->copy(device, &result, total, sizeof result, stream));
    OK(finish_stream(stream));
    calls->release(device, sum);
    calls->release(device, total);
    return result;
}

TEST(sums_of_squares_are_exact_to_the_last_bits)
{
    open_device();
    EACH(c, counts) EACH(t, floating)
    {
        size_t count = counts[c];
        void *values = random_values(count, floating[t], false);
        void *memory = on_device(values, count * weft_dtype_bytes(floating[t]));
        weft__double2 want = weft__vector_host()->sum_of_squares(values, count, floating[t]);
        weft__double2 got = squares_of(memory, count, floating[t], 1),
                      again = squares_of(memory, count, floating[t], 1);
        CHECK(memcmp(&got, &again, sizeof got) == 0);
        double difference = (got.high - want.high) + (got.low - want.low);
        CHECK_MSG(fabs(difference) <= ldexp(want.high, -85), "%zu of %s: %a + %a, not %a + %a", count,
                  weft_dtype_string(floating[t]), got.high, got.low, want.high, want.low);
        got = squares_of(memory, count, floating[t], 2);
        CHECK_NEAR(got.high, 2 * want.high, ldexp(want.high, -50));
        calls->release(device, memory);
        free(values);
    }
    float odd[3] = {1, INFINITY, 2};
    void *memory = on_device(odd, sizeof odd);
    CHECK(isinf(squares_of(memory, 3, WEFT_FP32, 1).high));
    calls->release(device, memory);
    close_device();
}

TEST(the_first_nonfinite_is_the_lowest)
{
    open_device();
    float *values = random_values(5000, WEFT_FP32, false);
    uint64_t first = UINT64_MAX, *there = on_device(&first, sizeof first);
    values[4321] = NAN, values[4000] = -INFINITY;
    void *memory = on_device(values, 5000 * sizeof *values);
    OK(calls->first_nonfinite(device, memory, 4000, WEFT_FP32, 1000, there, stream));
    check_bytes(there, &first, sizeof first, "first", 4000, 0);
    OK(calls->first_nonfinite(device, memory, 5000, WEFT_FP32, 1000, there, stream));
    first = 5000;
    check_bytes(there, &first, sizeof first, "first", 5000, 0);
    calls->release(device, memory);
    calls->release(device, there);
    free(values);
    close_device();
}

static weft__step_verdict judge(const weft__double2 *sums, int ranks, float clip, weft__step_verdict *there)
{
    const weft__step_rule rule = {.clip = clip, .clip_epsilon = 1e-6f, .beta1 = 0.9f, .beta2 = 0.999f};
    weft__step_verdict verdict;
    void *memory = on_device(sums, (size_t)ranks * sizeof *sums);
    OK(calls->judge(device, memory, ranks, &rule, there, stream));
    OK(calls->copy(device, &verdict, there, sizeof verdict, stream));
    OK(finish_stream(stream));
    calls->release(device, memory);
    return verdict;
}

TEST(a_step_is_judged_where_it_is_computed)
{
    const weft__double2 sums[3] = {{9, 0}, {16, 0}, {INFINITY, 0}};
    void *there;
    open_device();
    OK(calls->alloc(device, sizeof(weft__step_verdict), &there));
    weft__step_verdict v = judge(sums, 2, 1, there);
    CHECK_INT(v.norm, 5);
    CHECK(v.grad_scale == (float)(1 / (5 + (double)1e-6f)));
    CHECK_INT(v.updates, 1);
    CHECK(v.correction1 == (float)(1 - (double)0.9f) && v.correction2 == (float)(1 - (double)0.999f));
    v = judge(sums, 3, 1, there);
    CHECK_INT(v.skipped, 1);
    CHECK_INT(v.updates, 1);
    v = judge(sums, 1, 10, there);
    CHECK_INT(v.skipped, 0);
    CHECK(v.grad_scale == 1);
    CHECK_INT(v.updates, 2);
    CHECK_NEAR(v.correction1, 1 - 0.9 * 0.9, 1e-7);
    v = judge(sums, 2, 0, there);
    CHECK(v.grad_scale == 1);
    close_device();
}

TEST(adamw_is_the_hosts_bit_by_bit)
{
    enum { COUNT = 1003 };
    const size_t bytes = COUNT * sizeof(float);
    open_device();
    EACH(g, floating) EACH(p, floating) for (int skipped = 0; skipped < 2; skipped++)
    {
        weft__step_verdict verdict = {.updates = 3,
                                      .norm = 1,
                                      .grad_scale = 0.5f,
                                      .correction1 = 0.271f,
                                      .correction2 = 0.002997f,
                                      .skipped = (uint32_t)skipped};
        weft__adamw step = {.lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f};
        float *master = random_values(COUNT, WEFT_FP32, false), *m = random_values(COUNT, WEFT_FP32, false);
        float *v = random_values(COUNT, WEFT_FP32, false), grads[COUNT];
        void *grad = random_values(COUNT, floating[g], false), *param = random_values(COUNT, floating[p], false);
        for (size_t i = 0; i < COUNT; i++)
            v[i] = fabsf(v[i]);
        void *verdict_there = on_device(&verdict, sizeof verdict), *master_there = on_device(master, bytes);
        void *m_there = on_device(m, bytes), *v_there = on_device(v, bytes);
        void *grad_there = on_device(grad, COUNT * weft_dtype_bytes(floating[g]));
        void *param_there = on_device(param, COUNT * weft_dtype_bytes(floating[p]));
        OK(calls->adamw(device, &step, verdict_there, COUNT, master_there, m_there, v_there, grad_there, floating[g],
                        param_there, floating[p], stream));
        step.grad_scale = verdict.grad_scale;
        step.correction1 = verdict.correction1, step.correction2 = verdict.correction2;
        weft__vector_host()->cast(grads, WEFT_FP32, grad, floating[g], COUNT);
        if (!skipped)
            weft__vector_host()->adamw(&step, COUNT, master, m, v, grads, param, floating[p]);
        check_bytes(master_there, master, bytes, "master", COUNT, (int)floating[g]);
        check_bytes(m_there, m, bytes, "m", COUNT, (int)floating[g]);
        check_bytes(v_there, v, bytes, "v", COUNT, (int)floating[g]);
        check_bytes(param_there, param, COUNT * weft_dtype_bytes(floating[p]), "param", COUNT, (int)floating[p]);
        void *const all[] = {verdict_there, master_there, m_there, v_there, grad_there, param_there};
        EACH(i, all)
        calls->release(device, all[i]);
        free(master), free(m), free(v), free(grad), free(param);
    }
    close_device();
}

TEST(without_a_gpu_the_reason_is_told)
{
    int count;
    setenv("STANDIN_DEVICES", "0", 1);
    char path[4200];
    snprintf(path, sizeof path, "%s/libweft-cuda.so", getenv("WEFT_MODULE_PATH"));
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(module);
    weft__device_module_function *entry = NULL;
    *(void **)&entry = dlsym(module, "weft__device_module");
    CHECK_INT(entry()->count(&count), WEFT_E_NO_DEVICE);
}
