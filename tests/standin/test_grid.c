/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a block meet where a GPU's do, what a warp does together is what the PTX ISA says, and what goes wrong
 * among them is reported. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grid.h"
#include "half.h"
#include "harness/test.h"

#define OK(call) CHECK_INT(call, cudaSuccess)

enum { THREADS = 64, SHARED_BYTES = 1024, COUNT = 512 };

/* A kernel is a function of its threads here; it may read `in` and write `out`. */
typedef struct argument {
    void (*thread)(const struct argument *a, unsigned char *shared);
    const float *in;
    float *out;
} argument;

static char report[400];

static void note(const char *text)
{
    if (!*report)
        snprintf(report, sizeof report, "%s", text);
}

static size_t touches(const void *memory, standin_range *ranges)
{
    const argument *a = memory;
    ranges[0] = (standin_range){a->in, COUNT * sizeof *a->in, false};
    ranges[1] = (standin_range){a->out, COUNT * sizeof *a->out, true};
    return 2;
}

static void run_thread(const void *memory, unsigned block, void *shared)
{
    const argument *a = memory;
    (void)block;
    a->thread(a, shared);
}

static void body(const void *memory)
{
    standin_grid(1, THREADS, SHARED_BYTES, run_thread, memory);
}

static const char entry;
static const standin_kernel kernel = {&entry, "kernel", sizeof(argument), touches, body};

/* Run it on `in`, 0, 1, 2 ...; what it made is in @p out. */
static void run(void (*thread)(const argument *a, unsigned char *shared), float out[COUNT])
{
    static bool told;
    float host[COUNT];
    argument a = {thread, NULL, NULL};
    if (!told)
        standin_kernels_add(&kernel, 1);
    told = true;
    *report = 0;
    standin_on_race(note);
    OK(cudaMalloc((void **)&a.in, sizeof host));
    OK(cudaMalloc((void **)&a.out, sizeof host));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    OK(cudaMemcpyAsync((void *)(uintptr_t)a.in, host, sizeof host, cudaMemcpyHostToDevice, NULL));
    OK(cudaLaunchKernel(&entry, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, (void *[]){&a}, SHARED_BYTES, NULL));
    OK(cudaMemcpyAsync(out, a.out, sizeof host, cudaMemcpyDeviceToHost, NULL));
    OK(cudaStreamSynchronize(NULL));
    OK(cudaFree((void *)(uintptr_t)a.in));
    OK(cudaFree(a.out));
}

/* ---- meeting ---- */

static void turn_around(const argument *a, unsigned char *shared)
{
    float *x = (float *)shared;
    unsigned i = standin_thread();
    x[i] = a->in[i];
    standin_sync_block();
    a->out[i] = x[THREADS - 1 - i];
}

TEST(behind_a_barrier_every_thread_sees_what_others_wrote_before)
{
    float out[COUNT];
    run(turn_around, out);
    CHECK_STR(report, "");
    for (int i = 0; i < THREADS; i++)
        CHECK_NEAR(out[i], THREADS - 1 - i, 0);
}

static void turn_around_at_once(const argument *a, unsigned char *shared)
{
    float *x = (float *)shared;
    unsigned i = standin_thread();
    x[i] = a->in[i];
    a->out[i] = x[THREADS - 1 - i];
}

TEST(without_it_some_see_that_shared_memory_begins_as_nans)
{
    float out[COUNT];
    int nans = 0;
    run(turn_around_at_once, out);
    for (int i = 0; i < THREADS; i++)
        nans += isnan(out[i]) ? 1 : 0;
    CHECK(nans > 0);
}

static void miss_barrier(const argument *a, unsigned char *shared)
{
    (void)a, (void)shared;
    if (standin_thread() != 7)
        standin_sync_block();
}

TEST(a_barrier_that_a_thread_misses_is_reported)
{
    float out[COUNT];
    run(miss_barrier, out);
    CHECK_HAS(report, "kernel 'kernel', block 0, thread ");
    CHECK_HAS(report, "waits for ever at a barrier of the block");
}

static void part_ways(const argument *a, unsigned char *shared)
{
    (void)a, (void)shared;
    if (standin_thread() % 2)
        standin_sync_warp();
    else
        standin_shuffle_xor(0, 1);
}

TEST(lanes_that_meet_at_different_operations_are_reported)
{
    float out[COUNT];
    run(part_ways, out);
    CHECK_HAS(report, "lanes of its warp meet at different operations");
}

static void exchange(const argument *a, unsigned char *shared)
{
    unsigned i = standin_thread();
    (void)shared;
    a->out[i] = standin_shuffle_xor(a->in[i], 5);
}

TEST(a_shuffle_gives_the_value_of_the_lane_across)
{
    float out[COUNT];
    run(exchange, out);
    for (int i = 0; i < THREADS; i++)
        CHECK_NEAR(out[i], i ^ 5, 0);
}

/* ---- fragments ---- */

/* Where element i of a lane's fragments is, by the formulas of the PTX ISA for mma.m16n8k16. */
static unsigned row_of_a(unsigned lane, unsigned i)
{
    return i < 2 || (i >= 4 && i < 6) ? lane / 4 : lane / 4 + 8;
}
static unsigned column_of_a(unsigned lane, unsigned i)
{
    return lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8);
}
static unsigned row_of_b(unsigned lane, unsigned i)
{
    return lane % 4 * 2 + i % 2 + (i < 2 ? 0 : 8);
}
static unsigned row_of_c(unsigned lane, unsigned i)
{
    return i < 2 ? lane / 4 : lane / 4 + 8;
}
static unsigned column_of_c(unsigned lane, unsigned i)
{
    return lane % 4 * 2 + i % 2;
}

/* Small whole numbers, which bf16 has and whose sums of products are exact. */
static float value_a(unsigned row, unsigned column)
{
    return (float)((row * 7 + column * 3) % 11) - 5;
}
static float value_b(unsigned row, unsigned column)
{
    return (float)((row * 5 + column * 13) % 9) - 4;
}

static uint32_t pair(float first, float second)
{
    return standin_to_bf16(first) | (uint32_t)standin_to_bf16(second) << 16;
}

static void multiply(const argument *a, unsigned char *shared)
{
    unsigned lane = standin_thread() % 32;
    uint32_t left[4], right[2];
    float c[4] = {1, 2, 3, 4};
    (void)shared;
    for (unsigned i = 0; i < 8; i += 2)
        left[i / 2] = pair(value_a(row_of_a(lane, i), column_of_a(lane, i)),
                           value_a(row_of_a(lane, i + 1), column_of_a(lane, i + 1)));
    for (unsigned i = 0; i < 4; i += 2)
        right[i / 2] = pair(value_b(row_of_b(lane, i), lane / 4), value_b(row_of_b(lane, i + 1), lane / 4));
    standin_multiply_add(c, left, right[0], right[1]);
    for (unsigned i = 0; i < 4; i++)
        a->out[standin_thread() * 4 + i] = c[i];
}

TEST(mma_multiplies_what_its_fragments_stand_for)
{
    float out[COUNT];
    run(multiply, out);
    for (unsigned thread = 0; thread < THREADS; thread++)
        for (unsigned i = 0; i < 4; i++) {
            float want = (float)(i + 1);
            for (unsigned k = 0; k < 16; k++)
                want += value_a(row_of_c(thread % 32, i), k) * value_b(k, column_of_c(thread % 32, i));
            CHECK_NEAR(out[thread * 4 + i], want, 0);
        }
}

/* Word w of row r of matrix m is 64 m + 8 r + w: four matrices fill the shared memory that a warp has. */
static void load(const argument *a, unsigned char *shared, bool transposed)
{
    uint16_t *words = (uint16_t *)shared + standin_thread() / 32 * 256;
    unsigned lane = standin_thread() % 32;
    uint32_t fragment[4];
    for (unsigned i = 0; i < 8; i++)
        words[lane * 8 + i] = (uint16_t)(lane * 8 + i);
    standin_sync_warp();
    standin_load_matrices(fragment, words + lane * 8, transposed);
    for (unsigned m = 0; m < 4; m++) {
        a->out[standin_thread() * 8 + m * 2] = (float)(fragment[m] & 0xffff);
        a->out[standin_thread() * 8 + m * 2 + 1] = (float)(fragment[m] >> 16);
    }
}

static void load_rows(const argument *a, unsigned char *shared)
{
    load(a, shared, false);
}
static void load_columns(const argument *a, unsigned char *shared)
{
    load(a, shared, true);
}

TEST(ldmatrix_gives_a_lane_two_words_of_a_row_or_transposed_of_a_column)
{
    float out[COUNT];
    for (int transposed = 0; transposed < 2; transposed++) {
        run(transposed ? load_columns : load_rows, out);
        CHECK_STR(report, "");
        for (int thread = 0; thread < THREADS; thread++)
            for (int m = 0; m < 4; m++)
                for (int i = 0; i < 2; i++) {
                    int row = thread % 32 / 4, column = thread % 4 * 2 + i;
                    int want = m * 64 + (transposed ? column * 8 + row : row * 8 + column);
                    CHECK_NEAR(out[thread * 8 + m * 2 + i], want, 0);
                }
    }
}

static void load_from_elsewhere(const argument *a, unsigned char *shared)
{
    uint32_t fragment[4];
    (void)a;
    standin_load_matrices(fragment, shared + SHARED_BYTES - 8, false);
}

TEST(ldmatrix_of_what_is_no_row_in_shared_memory_is_reported)
{
    float out[COUNT];
    run(load_from_elsewhere, out);
    CHECK_HAS(report, "ldmatrix of what is no row in shared memory");
}

/* ---- copies and accesses ---- */

static void copy_one(const argument *a, unsigned char *shared, bool waits)
{
    float *x = (float *)shared;
    unsigned i = standin_thread();
    x[i] = 1;
    standin_copy(x + i, a->in + i, sizeof *x, i == 3);
    standin_copy_commit();
    if (waits)
        standin_copy_wait(0);
    a->out[i] = x[i];
    if (!waits)
        standin_copy_wait(0);
}

static void copy_and_wait(const argument *a, unsigned char *shared)
{
    copy_one(a, shared, true);
}
static void copy_without_wait(const argument *a, unsigned char *shared)
{
    copy_one(a, shared, false);
}

TEST(a_copy_is_there_behind_the_wait_and_not_before)
{
    float out[COUNT];
    run(copy_and_wait, out);
    for (int i = 0; i < THREADS; i++)
        CHECK_NEAR(out[i], i == 3 ? 0 : i, 0);
    run(copy_without_wait, out);
    for (int i = 0; i < THREADS; i++)
        CHECK(isnan(out[i]));
    CHECK_STR(report, "");
}

static void copy_in_groups(const argument *a, unsigned char *shared)
{
    float *x = (float *)shared;
    unsigned i = standin_thread();
    standin_copy(x + i, a->in + i, sizeof *x, false);
    standin_copy_commit();
    standin_copy(x + THREADS + i, a->in + i, sizeof *x, false);
    standin_copy_commit();
    standin_copy_wait(1);
    a->out[i] = x[i];
    a->out[THREADS + i] = x[THREADS + i];
    standin_copy_wait(0);
}

TEST(a_wait_may_leave_the_last_groups_under_way)
{
    float out[COUNT];
    run(copy_in_groups, out);
    for (int i = 0; i < THREADS; i++)
        CHECK(out[i] == (float)i && isnan(out[THREADS + i]));
}

static void forget_copy(const argument *a, unsigned char *shared)
{
    standin_copy(shared, a->in, 4, false);
}

TEST(an_end_with_copies_under_way_is_reported)
{
    float out[COUNT];
    run(forget_copy, out);
    CHECK_HAS(report, "it ends while copies are under way");
}

static void read_behind(const argument *a, unsigned char *shared)
{
    (void)shared;
    standin_global(a->in + COUNT - 3, 16, false);
}
static void write_input(const argument *a, unsigned char *shared)
{
    (void)shared;
    standin_global(a->in, 4, true);
}
static void write_behind(const argument *a, unsigned char *shared)
{
    (void)a;
    shared[SHARED_BYTES + standin_thread()] = 1;
}

TEST(accesses_that_the_kernel_does_not_name_are_reported)
{
    float out[COUNT];
    run(read_behind, out);
    CHECK_HAS(report, "it reads memory that the kernel does not name");
    run(write_input, out);
    CHECK_HAS(report, "it writes memory that the kernel does not name");
    run(write_behind, out);
    CHECK_HAS(report, "it writes beyond its shared memory");
    run(turn_around, out); /* and then threads begin anew */
    CHECK_STR(report, "");
    CHECK_NEAR(out[0], THREADS - 1, 0);
}

/* A kernel that takes more stack than there is. */
static void overflow(const argument *a, unsigned char *shared)
{
    volatile unsigned char large[128 * 1024];
    large[0] = (unsigned char)standin_thread();
    if (a->in)
        overflow(a, shared);
    a->out[0] = large[0];
}

TEST(a_stack_that_is_too_small_ends_the_process)
{
    float out[COUNT];
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        run(overflow, out);
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(status != 0);
}

static void *run_in_a_thread(void *out)
{
    argument a = {turn_around, out, out};
    standin_grid(1, THREADS, SHARED_BYTES, run_thread, &a);
    return NULL;
}

static size_t kibibytes_of_memory(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * 4;
}

TEST(stacks_go_with_the_thread_of_the_host)
{
    static float out[COUNT];
    size_t before = 0;
    for (int i = 0; i < 8; i++) {
        pthread_t host;
        OK(pthread_create(&host, NULL, run_in_a_thread, out));
        OK(pthread_join(host, NULL));
        before = before ? before : kibibytes_of_memory();
    }
    CHECK(kibibytes_of_memory() < before + THREADS * 256); /* those of one */
}

TEST(more_shared_memory_than_48_KiB_is_to_be_asked_for)
{
    argument a = {turn_around, NULL, NULL};
    void *arguments[] = {&a};
    float out[COUNT];
    run(turn_around, out); /* it is known now */
    CHECK_INT(cudaLaunchKernel(&entry, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, arguments, 48 * 1024 + 16, NULL),
              cudaErrorInvalidValue);
    CHECK_INT(cudaFuncSetAttribute(&entry, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
              cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(&entry, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
    OK(cudaMalloc((void **)&a.in, COUNT * sizeof(float)));
    OK(cudaMalloc((void **)&a.out, COUNT * sizeof(float)));
    OK(cudaLaunchKernel(&entry, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, arguments, 48 * 1024 + 16, NULL));
    OK(cudaStreamSynchronize(NULL));
    OK(cudaSetDevice(1)); /* each device is to be asked */
    CHECK_INT(cudaLaunchKernel(&entry, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, arguments, 48 * 1024 + 16, NULL),
              cudaErrorInvalidValue);
}
