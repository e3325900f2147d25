/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for flat arrays, element by element. Formulas are those of the host; every element's result is the same bits
 * as there. */
#include "device/cuda/vector.h"

#include "device/cuda/types.h"

namespace
{

using namespace weft;

/* ---- one element after the other ---- */

template <typename T> struct fill {
    static const char *name()
    {
        return "fill";
    }
    T *dst;
    T value;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = value;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = writes(dst, count), 1;
    }
};

/* Where a type is computed: in fp64 if it is that, else in fp32. */
WEFT_KERNEL double scaled(fp64, double x, double factor)
{
    return x * factor;
}
template <typename Type> WEFT_KERNEL typename Type::type scaled(Type, typename Type::type x, double factor)
{
    return Type::narrow(Type::widen(x) * (float)factor);
}

template <typename Type> struct scale {
    static const char *name()
    {
        return "scale";
    }
    typename Type::type *dst;
    double factor;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = scaled(Type(), dst[i], factor);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = writes(dst, count), 1;
    }
};

template <typename To, typename From> struct cast {
    static const char *name()
    {
        return "cast";
    }
    typename To::type *dst;
    const typename From::type *src;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = convert<To, From>(src[i]);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(dst, count), 2;
    }
};

template <typename From> struct accumulate {
    static const char *name()
    {
        return "accumulate";
    }
    float *dst;
    const typename From::type *src;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] += convert<fp32, From>(src[i]);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(dst, count), 2;
    }
};

template <typename Type> struct first_nonfinite {
    static const char *name()
    {
        return "first_nonfinite";
    }
    const typename Type::type *src;
    unsigned long long base, *first;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        if (!(Type::nonfinite(src[i]) >> 31))
            return;
#ifdef __CUDA_ARCH__
        atomicMin(first, base + i);
#else
        *first = *first < base + i ? *first : base + i;
#endif
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(first, 1), 2;
    }
};

} // namespace

/* ---- calls ---- */

extern "C" weft_result weft__cuda_fill(void *dst, size_t count, size_t element_bytes, uint64_t bits, weft_stream stream)
{
    switch (element_bytes) {
    case 1:
        return weft::launch(fill<uint8_t>{(uint8_t *)dst, (uint8_t)bits, count}, stream);
    case 2:
        return weft::launch(fill<uint16_t>{(uint16_t *)dst, (uint16_t)bits, count}, stream);
    case 4:
        return weft::launch(fill<uint32_t>{(uint32_t *)dst, (uint32_t)bits, count}, stream);
    default:
        return weft::launch(fill<uint64_t>{(uint64_t *)dst, bits, count}, stream);
    }
}

extern "C" weft_result weft__cuda_scale(void *dst, size_t count, weft_dtype dtype, double factor, weft_stream stream)
{
    return with_floating(dtype, "scale", [=](auto given) {
        using Type = decltype(given);
        return weft::launch(scale<Type>{(typename Type::type *)dst, factor, count}, stream);
    });
}

extern "C" weft_result weft__cuda_cast(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count,
                                       weft_stream stream)
{
    return with_floating(to, "cast", [=](auto wanted) {
        return with_floating(from, "cast", [=](auto given) {
            using To = decltype(wanted);
            using From = decltype(given);
            return weft::launch(cast<To, From>{(typename To::type *)dst, (const typename From::type *)src, count},
                                stream);
        });
    });
}

extern "C" weft_result weft__cuda_accumulate(float *dst, const void *src, weft_dtype from, size_t count,
                                             weft_stream stream)
{
    return with_floating(from, "accumulate", [=](auto given) {
        using From = decltype(given);
        return weft::launch(accumulate<From>{dst, (const typename From::type *)src, count}, stream);
    });
}

extern "C" weft_result weft__cuda_first_nonfinite(const void *src, size_t count, weft_dtype dtype, uint64_t base,
                                                  uint64_t *first, weft_stream stream)
{
    return with_floating(dtype, "first nonfinite", [=](auto given) {
        using Type = decltype(given);
        return weft::launch(
            first_nonfinite<Type>{(const typename Type::type *)src, base, (unsigned long long *)first, count}, stream);
    });
}
