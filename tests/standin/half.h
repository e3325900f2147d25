/* SPDX-License-Identifier: Apache-2.0 */
/* The 16-bit types of a GPU, as floats: rounded to nearest even. */
#ifndef STANDIN_HALF_H
#define STANDIN_HALF_H
#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 standin_half;

static inline float standin_from_half(uint16_t bits)
{
    standin_half value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static inline uint16_t standin_to_half(float value)
{
    standin_half half = (standin_half)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static inline float standin_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline uint16_t standin_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value)
        return (uint16_t)(wide >> 16 | 0x40);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

#endif
