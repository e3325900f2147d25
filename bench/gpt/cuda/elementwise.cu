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

/* Element i is a pack. */
template <typename P> struct add {
    static const char *name()
    {
        return "add";
    }
    const typename P::type *a, *b;
    typename P::type *y;
    size_t count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        constexpr unsigned N = P::SIZE;
        float left[N], right[N];
        P::load(left, a + i * N);
        P::load(right, b + i * N);
        for (unsigned k = 0; k < N; k++)
            left[k] += right[k];
        P::store(y + i * N, left);
    }
    size_t touches(standin_range *r) const
    {
        size_t all = count * P::SIZE;
        return r[0] = reads(a, all), r[1] = reads(b, all), r[2] = writes(y, all), 3;
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
        float x[From::SIZE];
        From::load(x, from + i * From::SIZE);
        To::store(to + i * To::SIZE, x);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(from, count * From::SIZE), r[1] = writes(to, count * To::SIZE), 2;
    }
};

template <typename From, typename To, unsigned N>
weft_result launch_convert(size_t count, const void *from, void *to, weft_stream stream)
{
    using given = packs<From, N>;
    using wanted = packs<To, N>;
    return launch(convert<given, wanted>{AS(given, from), TO(wanted, to), count / N}, stream);
}

} // namespace

extern "C" weft_result gpt_cuda_add(weft_dtype dtype, size_t count, const void *a, const void *b, void *y,
                                    weft_stream stream)
{
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch(add<P>{AS(P, a), AS(P, b), TO(P, y), count / P::SIZE}, stream);
    };
    return with_packs(dtype, count, launch_packs, a, b, y);
}

extern "C" weft_result gpt_cuda_convert(size_t count, const void *from, weft_dtype from_dtype, void *to,
                                        weft_dtype to_dtype, weft_stream stream)
{
    return with(from_dtype, [=](auto given) {
        return with(to_dtype, [=](auto wanted) {
            using From = decltype(given);
            using To = decltype(wanted);
            return count % 4 == 0 && are_packed(16, from, to) ? launch_convert<From, To, 4>(count, from, to, stream)
                                                              : launch_convert<From, To, 1>(count, from, to, stream);
        });
    });
}
