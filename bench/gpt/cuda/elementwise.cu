/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and conversions, element by element. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/types.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

template <typename T> struct add {
    static const char *name()
    {
        return "add";
    }
    const typename T::type *a, *b;
    typename T::type *y;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        y[i] = T::store(T::load(a[i]) + T::load(b[i]));
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(a, count), r[1] = reads(b, count), r[2] = writes(y, count), 3;
    }
};

template <typename From, typename To> struct convert {
    static const char *name()
    {
        return "convert";
    }
    const typename From::type *from;
    typename To::type *to;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        to[i] = To::store(From::load(from[i]));
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(from, count), r[1] = writes(to, count), 2;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_add(weft_dtype dtype, size_t count, const void *a, const void *b, void *y,
                                    weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(add<T>{AS(T, a), AS(T, b), TO(T, y), count}, stream);
    });
}

extern "C" weft_result gpt_cuda_convert(size_t count, const void *from, weft_dtype from_dtype, void *to,
                                        weft_dtype to_dtype, weft_stream stream)
{
    return with(from_dtype, [=](auto given) {
        return with(to_dtype, [=](auto wanted) {
            using From = decltype(given);
            using To = decltype(wanted);
            return launch(convert<From, To>{AS(From, from), TO(To, to), count}, stream);
        });
    });
}
