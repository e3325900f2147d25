/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of bf16 in shared memory and their products on tensor cores, a warp at a time. A warp holds results as the
 * fragments of mma.m16n8k16: tiles of 16 rows and 8 columns, of which lane i has rows i / 4 and i / 4 + 8, and of each
 * the columns from i % 4 * 2: c[0], c[1] of the first row, c[2], c[3] of the second. */
#ifndef WEFT_BENCH_GPT_CUDA_TILE_H
#define WEFT_BENCH_GPT_CUDA_TILE_H
#include "gpt/cuda/warp.h"

namespace gpt_cuda
{

/* Rows of WIDTH channels, a multiple of 64. The pieces of a row change places by its number, so that the same columns
 * of 8 rows lie in different banks. */
template <unsigned WIDTH> struct tile {
    enum : unsigned { PIECES = WIDTH / 8 };
    static constexpr size_t bytes(unsigned rows)
    {
        return rows * (size_t)WIDTH * sizeof(uint16_t);
    }

    piece *memory;

    WEFT_KERNEL piece *at(unsigned row, unsigned number) const
    {
        return memory + row * PIECES + (number ^ row % 8);
    }

    /* Rows begin @p stride apart; those from @p valid on are zeros. */
    template <unsigned ROWS, unsigned THREADS>
    WEFT_KERNEL void copy_rows(const uint16_t *from, size_t stride, size_t valid) const
    {
#pragma unroll
        for (unsigned first = 0; first < ROWS * PIECES; first += THREADS) {
            unsigned row = (first + thread()) / PIECES, number = (first + thread()) % PIECES;
            bool zero = row >= valid;
            copy(at(row, number), from + (zero ? 0 : row * stride) + number * 8, zero);
        }
    }

    /* 16 rows and 16 columns: as a left operand; */
    WEFT_KERNEL void load_left(uint32_t (&fragment)[4], unsigned row, unsigned columns) const
    {
        load_matrices(fragment, at(row + lane() % 16, columns * 2 + lane() / 16));
    }
    /* as two right ones whose columns are these rows; */
    WEFT_KERNEL void load_right_of_rows(uint32_t (&fragment)[4], unsigned row, unsigned columns) const
    {
        load_matrices(fragment, at(row + lane() % 8 + lane() / 16 * 8, columns * 2 + lane() / 8 % 2));
    }
    /* as two right ones whose columns are these columns. */
    WEFT_KERNEL void load_right(uint32_t (&fragment)[4], unsigned row, unsigned columns) const
    {
        load_matrices_transposed(fragment, at(row + lane() % 16, columns * 2 + lane() / 16));
    }
};

/* c += rows of a, from @p row, times the transpose of rows of b, from @p other. */
template <unsigned TILES, unsigned COLUMNS, unsigned WIDTH>
WEFT_KERNEL void add_rows_by_rows(float (&c)[TILES][COLUMNS][4], const tile<WIDTH> &a, unsigned row,
                                  const tile<WIDTH> &b, unsigned other)
{
#pragma unroll
    for (unsigned k = 0; k < WIDTH / 16; k++) {
        uint32_t left[TILES][4];
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
            a.load_left(left[i], row + i * 16, k);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j += 2) {
            uint32_t right[4];
            b.load_right_of_rows(right, other + j * 8, k);
#pragma unroll
            for (unsigned i = 0; i < TILES; i++) {
                multiply_add(c[i][j], left[i], right[0], right[1]);
                multiply_add(c[i][j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* c += a, which the warp holds and which is rounded, times rows of b, from @p row. */
template <unsigned TILES, unsigned COLUMNS, unsigned ROWS, unsigned WIDTH>
WEFT_KERNEL void add_held_by(float (&c)[TILES][COLUMNS][4], const float (&a)[TILES][ROWS][4], const tile<WIDTH> &b,
                             unsigned row)
{
#pragma unroll
    for (unsigned k = 0; k < ROWS; k += 2) {
        uint32_t left[TILES][4];
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++)
                left[i][part] = pair(a[i][k + part / 2][part % 2 * 2], a[i][k + part / 2][part % 2 * 2 + 1]);
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j += 2) {
            uint32_t right[4];
            b.load_right(right, row + k * 8, j / 2);
#pragma unroll
            for (unsigned i = 0; i < TILES; i++) {
                multiply_add(c[i][j], left[i], right[0], right[1]);
                multiply_add(c[i][j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/* Store what the warp holds, by way of rows of a tile, from @p row, that are its own. */
template <unsigned TILES, unsigned COLUMNS, unsigned WIDTH>
WEFT_KERNEL void store_rows(const float (&c)[TILES][COLUMNS][4], const tile<WIDTH> &own, unsigned row, uint16_t *to,
                            size_t stride, size_t valid)
{
#pragma unroll
    for (unsigned i = 0; i < TILES; i++)
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                uint32_t *words = reinterpret_cast<uint32_t *>(own.at(row + i * 16 + half * 8 + lane() / 4, j));
                words[lane() % 4] = pair(c[i][j][half * 2], c[i][j][half * 2 + 1]);
            }
    sync_warp();
    for (unsigned k = lane(); k < TILES * 16 * WIDTH / 8; k += LANES) {
        unsigned at = row + k / (WIDTH / 8), number = k % (WIDTH / 8);
        if (at < valid)
            store(reinterpret_cast<piece *>(to + at * stride + number * 8), *own.at(at, number));
    }
}

} // namespace gpt_cuda
#endif
