/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a GPT. What needs a row as a whole takes it by teams; sums over rows go column by column, in one
 * order. */
#include "gpt/cuda/kernels.h"

#include <math.h>

#include "gpt/cuda/rows.h"
#include "gpt/math/bf16.h"
#include "gpt/math/swiglu.h"

namespace
{

using weft::reads;
using weft::writes;

using gpt_cuda::launch_rows;
using weft::launch;

/* ---- types ---- */

struct fp32 {
    using type = float;
    static WEFT_KERNEL float load(type x)
    {
        return x;
    }
    static WEFT_KERNEL type store(float x)
    {
        return x;
    }
};

struct bf16 {
    using type = uint16_t;
    static WEFT_KERNEL float load(type x)
    {
        return math_bf16_to_float(x);
    }
    static WEFT_KERNEL type store(float x)
    {
        return math_float_to_bf16(x);
    }
};

/* Call @p function with a value of the type that stands for @p dtype: the device is opened for no others. */
template <typename Function> weft_result with(weft_dtype dtype, Function function)
{
    return dtype == WEFT_FP32 ? function(fp32()) : function(bf16());
}

#define AS(T, x) (const typename T::type *)(x)
#define TO(T, x) (typename T::type *)(x)

/* ---- norm ---- */

template <typename T> struct norm_rows {
    static const char *name()
    {
        return "norm";
    }
    const typename T::type *x, *w;
    typename T::type *y;
    float *scale, epsilon;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const typename T::type *in = x + row * width;
        float squares = 0;
        for (size_t i = team.first(); i < width; i += team.size())
            squares += T::load(in[i]) * T::load(in[i]);
        float s = 1.0f / sqrtf(team.sum(squares) / (float)width + epsilon);
        for (size_t i = team.first(); i < width; i += team.size())
            y[row * width + i] = T::store(T::load(in[i]) * s * T::load(w[i]));
        if (team.first() == 0)
            scale[row] = s;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(x, count * width), r[1] = reads(w, width);
        r[2] = writes(y, count * width), r[3] = writes(scale, count);
        return 4;
    }
};

template <typename T> struct norm_dx {
    static const char *name()
    {
        return "norm_dx";
    }
    const typename T::type *dy, *x, *w;
    const float *scale;
    typename T::type *dx;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const typename T::type *in = x + row * width, *grad = dy + row * width;
        float dot = 0, s = scale[row];
        for (size_t i = team.first(); i < width; i += team.size())
            dot += T::load(grad[i]) * T::load(w[i]) * T::load(in[i]);
        float along = team.sum(dot) * s * s / (float)width;
        for (size_t i = team.first(); i < width; i += team.size()) {
            typename T::type *out = dx + row * width + i;
            *out = T::store(T::load(*out) + s * (T::load(grad[i]) * T::load(w[i]) - T::load(in[i]) * along));
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(x, count * width), r[1] = reads(w, width), r[2] = reads(dy, count * width);
        r[3] = reads(scale, count), r[4] = writes(dx, count * width);
        return 5;
    }
};

/* Part p has rows p, p + PARTS, ...: element i stands for a column of a part. */
template <typename T> struct norm_dw_parts {
    static const char *name()
    {
        return "norm_dw_parts";
    }
    const typename T::type *dy, *x;
    const float *scale;
    float *parts;
    size_t rows, width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t part = i / width, column = i % width;
        float sum = 0;
        for (size_t row = part; row < rows; row += GPT_CUDA_NORM_PARTS)
            sum += T::load(dy[row * width + column]) * T::load(x[row * width + column]) * scale[row];
        parts[i] = sum;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(dy, rows * width), r[1] = reads(x, rows * width), r[2] = reads(scale, rows);
        r[3] = writes(parts, count);
        return 4;
    }
};

struct add_parts {
    static const char *name()
    {
        return "add_parts";
    }
    const float *parts;
    float *sums;
    size_t count;

    WEFT_KERNEL void operator()(size_t column) const
    {
        float sum = 0;
        for (size_t part = 0; part < GPT_CUDA_NORM_PARTS; part++)
            sum += parts[part * count + column];
        sums[column] += sum;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(parts, GPT_CUDA_NORM_PARTS * count), r[1] = writes(sums, count), 2;
    }
};

/* ---- rotation ---- */

/* One pair of channels of one head of one token. */
template <typename T> struct rotate {
    static const char *name()
    {
        return "rotate";
    }
    typename T::type *qkv;
    const float *cosines, *sines;
    float sign;
    size_t samples, groups, turned, half, sequence, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t pair = i % half, head = i / half % turned, group = i / half / turned % groups;
        size_t token = i / half / turned / groups, position = token / samples;
        typename T::type *x = qkv + ((token * groups + group) * (turned + 1) + head) * 2 * half + pair;
        float c = cosines[position * half + pair], s = sign * sines[position * half + pair];
        float a = T::load(x[0]), b = T::load(x[half]);
        x[0] = T::store(a * c - b * s);
        x[half] = T::store(b * c + a * s);
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(cosines, sequence * half), r[1] = reads(sines, sequence * half);
        r[2] = writes(qkv, sequence * samples * groups * (turned + 1) * 2 * half);
        return 3;
    }
};

/* ---- SwiGLU ---- */

template <typename T> struct swiglu {
    static const char *name()
    {
        return "swiglu";
    }
    const typename T::type *gate_up;
    typename T::type *y;
    size_t width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        const typename T::type *row = gate_up + i / width * 2 * width;
        y[i] = T::store(math_swiglu(T::load(row[i % width]), T::load(row[width + i % width])));
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(gate_up, 2 * count), r[1] = writes(y, count), 2;
    }
};

template <typename T> struct swiglu_grad {
    static const char *name()
    {
        return "swiglu_grad";
    }
    const typename T::type *gate_up, *dy;
    typename T::type *dgate_up;
    size_t width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t at = i / width * 2 * width + i % width;
        float dgate, dup;
        math_swiglu_grad(T::load(gate_up[at]), T::load(gate_up[at + width]), T::load(dy[i]), &dgate, &dup);
        dgate_up[at] = T::store(dgate);
        dgate_up[at + width] = T::store(dup);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(gate_up, 2 * count), r[1] = reads(dy, count), r[2] = writes(dgate_up, 2 * count), 3;
    }
};

/* ---- embedding ---- */

/* The row of a token among this rank's; `valid` if it is another's. */
WEFT_KERNEL size_t local_row(int32_t token, size_t first, size_t valid)
{
    size_t row = (size_t)token - first; /* wraps to something large below */
    return row < valid ? row : valid;
}

template <typename T> struct embed {
    static const char *name()
    {
        return "embed";
    }
    const int32_t *tokens;
    const typename T::type *table;
    typename T::type *y;
    size_t first, valid, width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t row = local_row(tokens[i / width], first, valid);
        y[i] = row < valid ? table[row * width + i % width] : T::store(0);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(tokens, count / width), r[1] = reads(table, valid * width), r[2] = writes(y, count), 3;
    }
};

/* A column each: tokens are added in their order. */
template <typename T> struct embed_grad {
    static const char *name()
    {
        return "embed_grad";
    }
    const int32_t *tokens;
    const typename T::type *dy;
    float *dtable;
    size_t first, valid, rows, count;

    WEFT_KERNEL void operator()(size_t column) const
    {
        for (size_t i = 0; i < rows; i++) {
            size_t row = local_row(tokens[i], first, valid);
            if (row < valid)
                dtable[row * count + column] += T::load(dy[i * count + column]);
        }
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(tokens, rows), r[1] = reads(dy, rows * count), r[2] = writes(dtable, valid * count), 3;
    }
};

/* ---- cross entropy ---- */

template <typename T> struct entropy_largest {
    static const char *name()
    {
        return "entropy_largest";
    }
    const typename T::type *logits;
    float *largest;
    size_t columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        float most = -INFINITY;
        for (size_t i = team.first(); i < valid; i += team.size()) {
            float x = T::load(logits[row * columns + i]);
            most = x > most ? x : most;
        }
        most = team.max(most);
        if (team.first() == 0)
            largest[row] = most;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(logits, count * columns), r[1] = writes(largest, count), 2;
    }
};

template <typename T> struct entropy_exponentials {
    static const char *name()
    {
        return "entropy_exponentials";
    }
    typename T::type *logits;
    const int32_t *targets;
    const float *largest;
    float *sums;
    size_t first, columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        typename T::type *x = logits + row * columns;
        size_t target = local_row(targets[row], first, valid);
        float sum = 0;
        for (size_t i = team.first(); i < columns; i += team.size()) {
            float above = T::load(x[i]) - largest[row], e = i < valid ? math_exp(above) : 0;
            if (i == target && i < valid)
                sums[count + row] = above;
            x[i] = T::store(e);
            sum += e;
        }
        sum = team.sum(sum);
        if (team.first() == 0)
            sums[row] = sum;
        if (team.first() == 0 && target == valid)
            sums[count + row] = 0;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(targets, count), r[1] = reads(largest, count), r[2] = writes(logits, count * columns);
        r[3] = writes(sums, 2 * count);
        return 4;
    }
};

struct entropy_loss {
    static const char *name()
    {
        return "entropy_loss";
    }
    const float *sums;
    double *total;
    size_t rows, count; /* count: 1 */

    template <typename Team> WEFT_KERNEL void operator()(size_t, const Team &team) const
    {
        double loss = 0;
        for (size_t i = team.first(); i < rows; i += team.size())
            loss += log((double)sums[i]) - (double)sums[rows + i];
        loss = team.sum(loss);
        if (team.first() == 0)
            *total += loss;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(sums, 2 * rows), r[1] = writes(total, 1), 2;
    }
};

template <typename T> struct entropy_grad {
    static const char *name()
    {
        return "entropy_grad";
    }
    typename T::type *values;
    const int32_t *targets;
    const float *sums;
    float factor;
    size_t rows, first, columns, valid, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t row = i / columns, column = i % columns;
        float grad = T::load(values[i]) * (factor / sums[row]);
        if (column == local_row(targets[row], first, valid) && column < valid)
            grad -= factor;
        values[i] = T::store(grad);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(targets, rows), r[1] = reads(sums, rows), r[2] = writes(values, count), 3;
    }
};

/* ---- element by element ---- */

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

template <typename T> struct store_rows {
    static const char *name()
    {
        return "store_rows";
    }
    const float *from;
    typename T::type *to;
    size_t width, stride, count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        to[i / width * stride + i % width] = T::store(from[i]);
    }
    size_t touches(standin_range *r) const
    {
        size_t rows = count / width;
        r[0] = reads(from, count);
        r[1] = writes(to, rows ? (rows - 1) * stride + width : 0);
        return 2;
    }
};

/* ---- attention ---- */

/* A row of scores each. @p known: the logarithms of the sums are. */
template <typename T, bool known> struct softmax {
    static const char *name()
    {
        return known ? "softmax_again" : "softmax";
    }
    const float *scores;
    typename T::type *probabilities;
    float *logsum;
    gpt_cuda_scores s;
    size_t count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const float *x = scores + row * s.keys;
        size_t query = row % s.count, seen = s.first + query + 1;
        float *log_of_sum = logsum + row / s.count * s.logsum_stride + query;
        float most = -INFINITY, sum = 0, away = *log_of_sum;
        if (!known) {
            for (size_t i = team.first(); i < seen; i += team.size())
                most = x[i] > most ? x[i] : most;
            most = team.max(most);
            for (size_t i = team.first(); i < seen; i += team.size())
                sum += math_exp(x[i] - most);
            sum = team.sum(sum);
            away = most + logf(sum);
        }
        for (size_t i = team.first(); i < s.keys; i += team.size())
            probabilities[row * s.keys + i] = T::store(i < seen ? math_exp(x[i] - away) : 0);
        if (!known && team.first() == 0)
            *log_of_sum = away;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(scores, count * s.keys);
        r[1] = writes(probabilities, count * s.keys);
        r[2] = {logsum, ((s.heads - 1) * s.logsum_stride + s.count) * sizeof *logsum, !known};
        return 3;
    }
};

template <typename T> struct row_dots {
    static const char *name()
    {
        return "row_dots";
    }
    const typename T::type *context, *dcontext;
    float *dots;
    size_t queries, channels, stride, count; /* count: heads * queries */

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        size_t at = row % queries * stride + row / queries * channels;
        float dot = 0;
        for (size_t i = team.first(); i < channels; i += team.size())
            dot += T::load(context[at + i]) * T::load(dcontext[at + i]);
        dot = team.sum(dot);
        if (team.first() == 0)
            dots[row] = dot;
    }
    size_t touches(standin_range *r) const
    {
        size_t all = (queries - 1) * stride + count / queries * channels;
        return r[0] = reads(context, all), r[1] = reads(dcontext, all), r[2] = writes(dots, count), 3;
    }
};

template <typename T> struct softmax_grad {
    static const char *name()
    {
        return "softmax_grad";
    }
    const typename T::type *probabilities;
    const float *dprobabilities, *dots;
    float scale;
    typename T::type *dscores;
    size_t keys, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        dscores[i] = T::store(T::load(probabilities[i]) * (dprobabilities[i] - dots[i / keys]) * scale);
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(probabilities, count), r[1] = reads(dprobabilities, count), r[2] = reads(dots, count / keys);
        r[3] = writes(dscores, count);
        return 4;
    }
};

} // namespace

/* ---- calls ---- */

extern "C" weft_result gpt_cuda_norm(weft_dtype dtype, size_t rows, size_t width, float epsilon, const void *x,
                                     const void *w, void *y, float *scale, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(norm_rows<T>{AS(T, x), AS(T, w), TO(T, y), scale, epsilon, width, rows}, stream);
    });
}

extern "C" weft_result gpt_cuda_norm_grad(weft_dtype dtype, size_t rows, size_t width, const void *dy, const void *x,
                                          const void *w, const float *scale, void *dx, float *dw, float *parts,
                                          weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        weft_result result =
            launch_rows(norm_dx<T>{AS(T, dy), AS(T, x), AS(T, w), scale, TO(T, dx), width, rows}, stream);
        if (result == WEFT_OK)
            result = launch(
                norm_dw_parts<T>{AS(T, dy), AS(T, x), scale, parts, rows, width, (size_t)GPT_CUDA_NORM_PARTS * width},
                stream);
        return result == WEFT_OK ? launch(add_parts{parts, dw, width}, stream) : result;
    });
}

extern "C" weft_result gpt_cuda_rotate(weft_dtype dtype, const gpt_attention *a, const float *cosines,
                                       const float *sines, int back, void *qkv, weft_stream stream)
{
    size_t turned = a->heads_per_group + 1, half = a->channels / 2, tokens = a->sequence * a->samples;
    const gpt_attention own = *a;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(rotate<T>{TO(T, qkv), cosines, sines, back ? -1.0f : 1.0f, own.samples, own.groups, turned, half,
                                own.sequence, tokens * own.groups * turned * half},
                      stream);
    });
}

extern "C" weft_result gpt_cuda_swiglu(weft_dtype dtype, size_t rows, size_t width, const void *gate_up, void *y,
                                       weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(swiglu<T>{AS(T, gate_up), TO(T, y), width, rows * width}, stream);
    });
}

extern "C" weft_result gpt_cuda_swiglu_grad(weft_dtype dtype, size_t rows, size_t width, const void *gate_up,
                                            const void *dy, void *dgate_up, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(swiglu_grad<T>{AS(T, gate_up), AS(T, dy), TO(T, dgate_up), width, rows * width}, stream);
    });
}

extern "C" weft_result gpt_cuda_embed(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                      const int32_t *tokens, const void *table, void *y, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(embed<T>{tokens, AS(T, table), TO(T, y), own.first, own.valid, width, count * width}, stream);
    });
}

extern "C" weft_result gpt_cuda_embed_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                           const int32_t *tokens, const void *dy, float *dtable, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(embed_grad<T>{tokens, AS(T, dy), dtable, own.first, own.valid, count, width}, stream);
    });
}

extern "C" weft_result gpt_cuda_entropy_largest(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                const void *logits, float *largest, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(entropy_largest<T>{AS(T, logits), largest, own.columns, own.valid, rows}, stream);
    });
}

extern "C" weft_result gpt_cuda_entropy_exponentials(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                     void *logits, const int32_t *targets, const float *largest,
                                                     float *sums, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(
            entropy_exponentials<T>{TO(T, logits), targets, largest, sums, own.first, own.columns, own.valid, rows},
            stream);
    });
}

extern "C" weft_result gpt_cuda_entropy_loss(size_t rows, const float *sums, double *total, weft_stream stream)
{
    return launch_rows(entropy_loss{sums, total, rows, 1}, stream);
}

extern "C" weft_result gpt_cuda_entropy_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t rows, void *exponentials,
                                             const int32_t *targets, const float *sums, float factor,
                                             weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(entropy_grad<T>{TO(T, exponentials), targets, sums, factor, rows, own.first, own.columns,
                                      own.valid, rows * own.columns},
                      stream);
    });
}

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

extern "C" weft_result gpt_cuda_softmax(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                        void *probabilities, float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(softmax<T, false>{scores, TO(T, probabilities), logsum, own, own.heads * own.count}, stream);
    });
}

extern "C" weft_result gpt_cuda_softmax_again(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                              void *probabilities, const float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(softmax<T, true>{scores, TO(T, probabilities), (float *)logsum, own, own.heads * own.count},
                           stream);
    });
}

extern "C" weft_result gpt_cuda_row_dots(weft_dtype dtype, size_t heads, size_t count, size_t channels, size_t stride,
                                         const void *context, const void *dcontext, float *dots, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(row_dots<T>{AS(T, context), AS(T, dcontext), dots, count, channels, stride, heads * count},
                           stream);
    });
}

extern "C" weft_result gpt_cuda_softmax_grad(weft_dtype dtype, const gpt_cuda_scores *s, const void *probabilities,
                                             const float *dprobabilities, const float *dots, float scale, void *dscores,
                                             weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(softmax_grad<T>{AS(T, probabilities), dprobabilities, dots, scale, TO(T, dscores), own.keys,
                                      own.heads * own.count * own.keys},
                      stream);
    });
}

extern "C" weft_result gpt_cuda_store_rows(weft_dtype dtype, size_t rows, size_t width, const float *from,
                                           size_t stride, void *to, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(store_rows<T>{from, TO(T, to), width, stride, rows * width}, stream);
    });
}
