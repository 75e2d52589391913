// The physical reference: each workload by hand, outputs preallocated, built with
// -O3 -march=native -fopenmp -fno-math-errno. What a row costs here is what this machine can do.
// The sizes are the benchmark's: where whole vectors or blocks are taken, they divide it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

// glibc has vector versions of these in libmvec; its headers offer them to the compiler under -ffast-math
// only.
#if defined(__x86_64__) && defined(__GLIBC__)
extern "C" {
#pragma omp declare simd notinbranch
float expf(float) noexcept;
#pragma omp declare simd notinbranch
float logf(float) noexcept;
#pragma omp declare simd notinbranch
float tanhf(float) noexcept;
#pragma omp declare simd notinbranch
float erff(float) noexcept;
}
#endif

using Index = std::int64_t;

namespace {

// 64 bytes: one AVX-512 register or two of AVX2; GCC splits it where the machine's are shorter.
constexpr int LANES = 16;
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));
typedef std::int32_t Integers __attribute__((vector_size(4 * LANES), aligned(4)));

Vector broadcast(float x) { return Vector{} + x; }
Vector& at(float* p) { return *reinterpret_cast<Vector*>(p); }
const Vector& at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

float total(Vector x) {
    float sum = 0;
    for (int lane = 0; lane < LANES; ++lane) sum += x[lane];
    return sum;
}

// exp to within an ulp: a power of two times a polynomial on [-ln 2 / 2, ln 2 / 2] (the coefficients are
// Cephes').
Vector exponential(Vector x) {
    x = x < -87.0f ? broadcast(-87.0f) : x;
    x = x > 88.0f ? broadcast(88.0f) : x;
    const Vector rounder = broadcast(12582912.0f), shifted = x * 1.44269504f + rounder, n = shifted - rounder;
    const Vector r = x - n * 0.693359375f - n * -2.12194440e-4f;
    Vector p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return reinterpret_cast<Vector>(reinterpret_cast<Integers>(p) +
                                    (reinterpret_cast<Integers>(shifted) << 23));
}

// Transpose 16 vectors in registers: four rounds of interleaving each with the one half the way on.
void transpose(Vector (&rows)[LANES]) {
    for (int round = 0; round < 4; ++round) {
        Vector next[LANES];
        for (int i = 0; i < LANES / 2; ++i) {
            const Vector p = rows[i], q = rows[i + LANES / 2];
            next[2 * i] =
                __builtin_shufflevector(p, q, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] =
                __builtin_shufflevector(p, q, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        for (int i = 0; i < LANES; ++i) rows[i] = next[i];
    }
}

}  // namespace

extern "C" {

void multiply_add(Index n, const float* __restrict a, const float* __restrict b, const float* __restrict c,
                  float* __restrict out) {
#pragma omp parallel for simd schedule(static)
    for (Index i = 0; i < n; ++i) out[i] = a[i] * b[i] + c[i];
}

void gelu(Index n, const float* __restrict x, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
    for (Index i = 0; i < n; ++i) {
        const float v = x[i];
        out[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

void black_scholes(Index n, const float* __restrict spot, const float* __restrict strike,
                   const float* __restrict years, float rate, float volatility, float* __restrict out) {
    const float drift = rate + volatility * volatility / 2;
#pragma omp parallel for simd schedule(static)
    for (Index i = 0; i < n; ++i) {
        const float deviation = volatility * std::sqrt(years[i]);
        const float d1 = (logf(spot[i] / strike[i]) + drift * years[i]) / deviation;
        const float d2 = d1 - deviation;
        const float n1 = 0.5f + 0.5f * erff(d1 * 0.70710678f);
        const float n2 = 0.5f + 0.5f * erff(d2 * 0.70710678f);
        out[i] = spot[i] * n1 - strike[i] * expf(-rate * years[i]) * n2;
    }
}

void sum_exp(Index n, const float* __restrict a, const float* __restrict b, const float* __restrict c,
             float* __restrict out) {
    constexpr Index BLOCK = 4096;
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (Index start = 0; start < n; start += BLOCK) {
        Vector sums[2] = {};
        for (Index i = start; i < std::min(n, start + BLOCK); i += 2 * LANES)
            for (int k = 0; k < 2; ++k) {
                const Index at_k = i + k * LANES;
                sums[k] += exponential(at(a + at_k) * at(b + at_k) + at(c + at_k));
            }
        sum += total(sums[0] + sums[1]);
    }
    *out = static_cast<float>(sum);
}

void softmax(Index rows, Index n, const float* __restrict x, float* __restrict out) {
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < rows; ++i) {
        const float* in = x + i * n;
        float* to = out + i * n;
        float top = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : top)
        for (Index j = 0; j < n; ++j) top = std::max(top, in[j]);
        Vector sums[2] = {};
        for (Index j = 0; j < n; j += 2 * LANES)
            for (int k = 0; k < 2; ++k) {
                const Vector e = exponential(at(in + j + k * LANES) - top);
                at(to + j + k * LANES) = e;
                sums[k] += e;
            }
        const float scale = 1 / total(sums[0] + sums[1]);
#pragma omp simd
        for (Index j = 0; j < n; ++j) to[j] *= scale;
    }
}

void layer_norm(Index rows, Index n, const float* __restrict x, const float* __restrict w,
                const float* __restrict b, float epsilon, float* __restrict out) {
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < rows; ++i) {
        const float* in = x + i * n;
        float* to = out + i * n;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Index j = 0; j < n; ++j) sum += in[j];
        const float mean = sum / n;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (Index j = 0; j < n; ++j) squares += (in[j] - mean) * (in[j] - mean);
        const float scale = 1 / std::sqrt(squares / n + epsilon);
#pragma omp simd
        for (Index j = 0; j < n; ++j) to[j] = (in[j] - mean) * scale * w[j] + b[j];
    }
}

void sobel(Index h, Index w, const float* __restrict p, float* __restrict out) {
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < h - 2; ++i) {
        const float *a = p + i * w, *b = a + w, *c = b + w;
        float* to = out + i * (w - 2);
#pragma omp simd
        for (Index j = 0; j < w - 2; ++j) {
            const float gx = a[j + 2] - a[j] + 2 * (b[j + 2] - b[j]) + c[j + 2] - c[j];
            const float gy = c[j] - a[j] + 2 * (c[j + 1] - a[j + 1]) + c[j + 2] - a[j + 2];
            to[j] = std::min(std::sqrt(gx * gx + gy * gy), 255.0f);
        }
    }
}

void sobel_photo(Index h, Index w, const std::uint8_t* __restrict rgb, std::uint8_t* __restrict out) {
#pragma omp parallel
    {
        // A ring of three grey rows for each thread: every pixel is made grey once.
        const auto grey = std::make_unique<std::int16_t[]>(3 * w);
        Index filled = -1;
#pragma omp for schedule(static)
        for (Index i = 0; i < h - 2; ++i) {
            for (Index row = std::max(i, filled + 1); row < i + 3; ++row) {
                const std::uint8_t* in = rgb + row * w * 3;
                std::int16_t* to = &grey[(row % 3) * w];
#pragma omp simd
                for (Index j = 0; j < w; ++j)
                    to[j] = static_cast<std::int16_t>(
                        (9798 * in[3 * j] + 19235 * in[3 * j + 1] + 3735 * in[3 * j + 2] + 16384) >> 15);
            }
            filled = i + 2;
            const std::int16_t *a = &grey[(i % 3) * w], *b = &grey[((i + 1) % 3) * w],
                               *c = &grey[((i + 2) % 3) * w];
            std::uint8_t* to = out + i * (w - 2);
#pragma omp simd
            for (Index j = 0; j < w - 2; ++j) {
                const std::int16_t gx = a[j + 2] - a[j] + 2 * (b[j + 2] - b[j]) + c[j + 2] - c[j];
                const std::int16_t gy = c[j] - a[j] + 2 * (c[j + 1] - a[j + 1]) + c[j + 2] - a[j + 2];
                const float squares = static_cast<float>(gx * gx + gy * gy);
                to[j] = static_cast<std::uint8_t>(
                    static_cast<std::int32_t>(std::min(std::sqrt(squares), 255.0f)));
            }
        }
    }
}

void blur(Index h, Index w, const float* __restrict p, const float* taps, float* __restrict out) {
    const float x = taps[0], y = taps[1], z = taps[2];
#pragma omp parallel
    {
        const auto row = std::make_unique<float[]>(w);
        float* __restrict r = row.get();
#pragma omp for schedule(static)
        for (Index i = 0; i < h - 4; ++i) {
            const float *a = p + i * w, *b = a + w, *c = b + w, *d = c + w, *e = d + w;
#pragma omp simd
            for (Index j = 0; j < w; ++j) r[j] = x * (a[j] + e[j]) + y * (b[j] + d[j]) + z * c[j];
            float* to = out + i * (w - 4);
#pragma omp simd
            for (Index j = 0; j < w - 4; ++j)
                to[j] = x * (r[j] + r[j + 4]) + y * (r[j + 1] + r[j + 3]) + z * r[j + 2];
        }
    }
}

void add_transpose(Index n, const float* __restrict a, const float* __restrict b, float* __restrict out) {
    // Blocks of 64 × 64: every line of b's cache is used whole while it is near.
    constexpr Index SIDE = 64;
#pragma omp parallel for schedule(static)
    for (Index top = 0; top < n; top += SIDE)
        for (Index left = 0; left < n; left += SIDE)
            for (Index m = top; m < top + SIDE; m += LANES)
                for (Index k = left; k < left + SIDE; k += LANES) {
                    Vector tile[LANES];
                    for (Index r = 0; r < LANES; ++r) tile[r] = at(b + (k + r) * n + m);
                    transpose(tile);
                    for (Index r = 0; r < LANES; ++r)
                        at(out + (m + r) * n + k) = at(a + (m + r) * n + k) + tile[r];
                }
}

void standardise(Index rows, Index n, const float* __restrict x, float* __restrict out) {
    // Panels of columns that stay in the second-level cache: x is read from memory once.
    constexpr Index WIDTH = 64;
#pragma omp parallel for schedule(static)
    for (Index left = 0; left < n; left += WIDTH) {
        float mean[WIDTH] = {}, scale[WIDTH] = {};
        const Index width = std::min(WIDTH, n - left);
        for (Index i = 0; i < rows; ++i)
#pragma omp simd
            for (Index j = 0; j < width; ++j) mean[j] += x[i * n + left + j];
        for (Index j = 0; j < width; ++j) mean[j] /= rows;
        for (Index i = 0; i < rows; ++i)
#pragma omp simd
            for (Index j = 0; j < width; ++j) {
                const float d = x[i * n + left + j] - mean[j];
                scale[j] += d * d;
            }
        for (Index j = 0; j < width; ++j) scale[j] = 1 / std::sqrt(scale[j] / rows);
        for (Index i = 0; i < rows; ++i)
#pragma omp simd
            for (Index j = 0; j < width; ++j)
                out[i * n + left + j] = (x[i * n + left + j] - mean[j]) * scale[j];
    }
}

void standardise_via_rows(Index rows, Index n, const float* __restrict x, float* __restrict out) {
    // Three passes over the rows, each thread its own columns.
    const auto mean_of = std::make_unique<float[]>(n), scale_of = std::make_unique<float[]>(n);
    float* __restrict mean = mean_of.get(), * __restrict scale = scale_of.get();
    constexpr Index WIDTH = 1024;
#pragma omp parallel for schedule(static)
    for (Index left = 0; left < n; left += WIDTH) {
        const Index right = std::min(n, left + WIDTH);
        for (Index i = 0; i < rows; ++i)
#pragma omp simd
            for (Index j = left; j < right; ++j) mean[j] += x[i * n + j];
        for (Index j = left; j < right; ++j) mean[j] /= rows;
        for (Index i = 0; i < rows; ++i)
#pragma omp simd
            for (Index j = left; j < right; ++j)
                scale[j] += (x[i * n + j] - mean[j]) * (x[i * n + j] - mean[j]);
        for (Index j = left; j < right; ++j) scale[j] = 1 / std::sqrt(scale[j] / rows);
    }
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < rows; ++i)
#pragma omp simd
        for (Index j = 0; j < n; ++j) out[i * n + j] = (x[i * n + j] - mean[j]) * scale[j];
}

void threshold(Index n, const std::uint8_t* __restrict p, int level, std::uint8_t* __restrict out) {
    const std::uint8_t limit = static_cast<std::uint8_t>(level);
#pragma omp parallel for simd schedule(static)
    for (Index i = 0; i < n; ++i) out[i] = p[i] > limit ? 255 : 0;
}

void blend(Index n, const std::uint8_t* __restrict p, const std::uint8_t* __restrict q, int of_p, int of_q,
           std::uint8_t* __restrict out) {
    const std::uint16_t u = static_cast<std::uint16_t>(of_p), v = static_cast<std::uint16_t>(of_q);
#pragma omp parallel for simd schedule(static)
    for (Index i = 0; i < n; ++i)
        out[i] = static_cast<std::uint8_t>(static_cast<std::uint16_t>(p[i] * u + q[i] * v + 128) >> 8);
}

void mandelbrot(Index h, Index w, const float* re, const float* im, int steps, std::int32_t* out) {
    // Four vectors at once hide the latency of the chain; a group stops when every point has escaped.
    constexpr Index GROUP = 4;
#pragma omp parallel for schedule(dynamic, 8)
    for (Index i = 0; i < h; ++i)
        for (Index left = 0; left < w; left += GROUP * LANES) {
            Vector cr[GROUP], x[GROUP] = {}, y[GROUP] = {};
            Integers count[GROUP] = {};
            for (Index k = 0; k < GROUP; ++k) cr[k] = at(re + left + k * LANES);
            const Vector ci = broadcast(im[i]);
            for (int step = 0; step < steps; ++step) {
                Integers alive = {};
                for (Index k = 0; k < GROUP; ++k) {
                    const Vector xx = x[k] * x[k], yy = y[k] * y[k], xy = x[k] * y[k];
                    const Integers inside = xx + yy <= 4.0f;
                    count[k] -= inside;
                    alive |= inside;
                    x[k] = xx - yy + cr[k];
                    y[k] = 2.0f * xy + ci;
                }
                if (step % 8 == 7) {
                    std::int32_t any = 0;
                    for (int lane = 0; lane < LANES; ++lane) any |= alive[lane];
                    if (!any) break;
                }
            }
            std::memcpy(out + i * w + left, count, sizeof count);
        }
}

void distances(Index n, Index m, Index depth, const float* __restrict x, const float* __restrict y,
               float* __restrict out) {
    constexpr Index ROWS = 6, COLUMNS = 2 * LANES;
    const auto transposed = std::make_unique<float[]>(m * depth);
    float* t = transposed.get();  // panels of COLUMNS points, each depth × COLUMNS
#pragma omp parallel for schedule(static)
    for (Index left = 0; left < m; left += COLUMNS)
        for (Index k = 0; k < depth; ++k)
            for (Index j = 0; j < COLUMNS; ++j) t[left * depth + k * COLUMNS + j] = y[(left + j) * depth + k];
#pragma omp parallel for schedule(static)
    for (Index top = 0; top < n; top += ROWS) {
        const Index rows = std::min(ROWS, n - top);
        for (Index left = 0; left < m; left += COLUMNS) {
            Vector acc[ROWS][2] = {};
            const float* panel = t + left * depth;
            const float* in[ROWS];
            for (Index r = 0; r < ROWS; ++r) in[r] = x + (top + std::min(r, rows - 1)) * depth;
            for (Index k = 0; k < depth; ++k) {
                const Vector p = at(panel + k * COLUMNS), q = at(panel + k * COLUMNS + LANES);
                for (Index r = 0; r < ROWS; ++r) {
                    const Vector v = broadcast(in[r][k]), d = v - p, e = v - q;
                    acc[r][0] += d * d;
                    acc[r][1] += e * e;
                }
            }
            for (Index r = 0; r < rows; ++r) {
                at(out + (top + r) * m + left) = acc[r][0];
                at(out + (top + r) * m + left + LANES) = acc[r][1];
            }
        }
    }
}

void dense(Index n, Index m, Index depth, const float* __restrict x, const float* __restrict w,
           const float* __restrict b, float* __restrict out) {
    // Goto's scheme: a packed strip of w (DEPTH × COLUMNS) in the first cache, a packed block of x in the
    // second, ROWS × COLUMNS sums in registers.
    constexpr Index ROWS = 12, COLUMNS = 2 * LANES, DEPTH = 512, BLOCK = 20 * ROWS;
    const auto strips = std::make_unique<float[]>(DEPTH * m);
    for (Index start = 0; start < depth; start += DEPTH) {
        const Index span = std::min(DEPTH, depth - start);
        const bool first = start == 0, last = start + span == depth;
        float* packed = strips.get();
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (Index left = 0; left < m; left += COLUMNS)
                for (Index k = 0; k < span; ++k)
                    std::memcpy(packed + left * span + k * COLUMNS, w + (start + k) * m + left,
                                COLUMNS * sizeof(float));
            const auto block = std::make_unique<float[]>(BLOCK * DEPTH);
#pragma omp for schedule(dynamic, 1)
            for (Index top = 0; top < n; top += BLOCK) {
                const Index tall = std::min(BLOCK, n - top);
                for (Index r = 0; r < BLOCK; ++r)
                    for (Index k = 0; k < span; ++k)
                        block[(r / ROWS * span + k) * ROWS + r % ROWS] =
                            x[(top + std::min(r, tall - 1)) * depth + start + k];
                for (Index left = 0; left < m; left += COLUMNS)
                    for (Index up = 0; up < tall; up += ROWS) {
                        const Index rows = std::min(ROWS, tall - up);
                        Vector acc[ROWS][2] = {};
                        const float *p = &block[up * span], *q = packed + left * span;
                        for (Index k = 0; k < span; ++k, p += ROWS, q += COLUMNS) {
                            const Vector u = at(q), v = at(q + LANES);
#pragma GCC unroll 12
                            for (Index r = 0; r < ROWS; ++r) {
                                acc[r][0] += p[r] * u;
                                acc[r][1] += p[r] * v;
                            }
                        }
#pragma GCC unroll 12
                        for (Index r = 0; r < ROWS; ++r)
                            if (r < rows)
                                for (Index s = 0; s < 2; ++s) {
                                    Vector& to = at(out + (top + up + r) * m + left + s * LANES);
                                    Vector sum = acc[r][s] + (first ? at(b + left + s * LANES) : to);
                                    to = last ? (sum > 0.0f ? sum : Vector{}) : sum;
                                }
                    }
            }
        }
    }
}

void heat(Index h, Index w, const float* __restrict start, int steps, float rate, float* u, float* v) {
    // steps is even, so that the result ends in u.
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (Index i = 0; i < h; ++i) {
            std::memcpy(u + i * w, start + i * w, w * sizeof(float));
            std::memcpy(v + i * w, start + i * w, w * sizeof(float));
        }
        float *from = u, *into = v;
        for (int step = 0; step < steps; ++step) {
#pragma omp for schedule(static)
            for (Index i = 1; i < h - 1; ++i) {
                const float *a = from + (i - 1) * w, *b = a + w, *c = b + w;
                float* __restrict to = into + i * w;
#pragma omp simd
                for (Index j = 1; j < w - 1; ++j)
                    to[j] = b[j] + rate * (a[j] + c[j] + b[j - 1] + b[j + 1] - 4 * b[j]);
            }
            std::swap(from, into);
        }
    }
}

}  // extern "C"
