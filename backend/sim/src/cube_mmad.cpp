// Mmad. float16 and bfloat16 products are exact in float32; sums are float32, in the order of k, rounded
// after each addition. Products of float32 are rounded too, as a separate multiplication would.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ascendc/cube_instructions.hpp"
#include "ascendc/types.hpp"
#include "cube_state.hpp"
#include "saturation.hpp"

// The loop is compiled for wider vectors too; which one runs does not change a bit of the result.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SIM_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SIM_VECTOR_CLONES
#endif

namespace sim {

namespace {

constexpr uint32_t kFractal = 512;

uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));

// c[block][row][16] += a[row][k] · b[block][k][16]; `rows_c` rows in a block of c.
template <typename Vector, typename Scalar>
__attribute__((always_inline)) inline void multiply(Scalar* c, const Scalar* a, const Scalar* b, uint32_t m,
                                                    uint32_t k, uint32_t blocks, uint32_t rows_c) {
    for (uint32_t block = 0; block < blocks; ++block) {
        const Scalar* columns = b + size_t(block) * k * 16;
        Scalar* out = c + size_t(block) * rows_c * 16;
        uint32_t row = 0;
        for (; row + 8 <= m; row += 8) {
            Vector sums[8];
            std::memcpy(sums, out + row * 16, sizeof sums);
            const Scalar* left = a + size_t(row) * k;
            for (uint32_t i = 0; i < k; ++i) {
                Vector right;
                std::memcpy(&right, columns + i * 16, sizeof right);
                for (uint32_t r = 0; r < 8; ++r) sums[r] += left[r * k + i] * right;
            }
            std::memcpy(out + row * 16, sums, sizeof sums);
        }
        for (; row < m; ++row) {
            Vector sum;
            std::memcpy(&sum, out + row * 16, sizeof sum);
            const Scalar* left = a + size_t(row) * k;
            for (uint32_t i = 0; i < k; ++i) {
                Vector right;
                std::memcpy(&right, columns + i * 16, sizeof right);
                sum += left[i] * right;
            }
            std::memcpy(out + row * 16, &sum, sizeof sum);
        }
    }
}

SIM_VECTOR_CLONES void multiply_floats(float* c, const float* a, const float* b, uint32_t m, uint32_t k,
                                       uint32_t blocks, uint32_t rows_c) {
    multiply<Floats, float>(c, a, b, m, k, blocks, rows_c);
}

SIM_VECTOR_CLONES void multiply_ints(int32_t* c, const int32_t* a, const int32_t* b, uint32_t m, uint32_t k,
                                     uint32_t blocks, uint32_t rows_c) {
    multiply<Ints, int32_t>(c, a, b, m, k, blocks, rows_c);
}

// float32 with 11 bits of mantissa.
float to_hf32(float value, bool to_even) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if ((bits & 0x7f800000U) == 0x7f800000U) return value;
    constexpr uint32_t rest = 12, half = 1U << (rest - 1);
    bits += to_even ? half - 1 + ((bits >> rest) & 1U) : half - 1;
    bits &= ~((1U << rest) - 1);
    std::memcpy(&value, &bits, 4);
    return value;
}

// Elements of one 32-byte block, widened.
struct Widen {
    Dtype dtype;
    bool hf32, to_even;

    void operator()(const uint8_t* from, uint32_t count, float* to) const {
        for (uint32_t i = 0; i < count; ++i) {
            if (dtype == Dtype::F32) {
                std::memcpy(to + i, from + i * 4, 4);
                if (hf32) to[i] = to_hf32(to[i], to_even);
            } else {
                uint16_t bits;
                std::memcpy(&bits, from + i * 2, 2);
                to[i] = dtype == Dtype::F16 ? half_to_float(bits) : bfloat16_to_float(bits);
            }
        }
    }
    void operator()(const uint8_t* from, uint32_t count, int32_t* to) const {
        for (uint32_t i = 0; i < count; ++i)
            to[i] =
                dtype == Dtype::I4 ? int8_t(uint8_t(from[i / 2] << (i % 2 ? 0 : 4))) >> 4 : int8_t(from[i]);
    }
};

template <typename Scalar>
void run(const Local& c, const Local& a, const Local& b, const Scalar* bias, const Multiply& how, uint32_t c0,
         uint32_t k_blocks, const Widen& widen,
         void (*loop)(Scalar*, const Scalar*, const Scalar*, uint32_t, uint32_t, uint32_t, uint32_t)) {
    static thread_local std::vector<Scalar> left, right;
    uint32_t n_blocks = ceil_div(how.n, 16), rows_c = ceil_div(how.m, 16) * 16, block_bytes = 32;
    uint32_t used_blocks = ceil_div(how.k, c0);
    left.resize(size_t(how.m) * how.k);
    right.resize(size_t(n_blocks) * how.k * 16);
    for (uint32_t row = 0; row < how.m; ++row)
        for (uint32_t j = 0; j < used_blocks; ++j) {
            const uint8_t* from =
                how.m == 1 ? data(a) + j * block_bytes
                           : data(a) + (size_t(row / 16) * k_blocks + j) * kFractal + row % 16 * 32;
            widen(from, std::min(c0, how.k - j * c0), left.data() + size_t(row) * how.k + j * c0);
        }
    Scalar line[64];
    for (uint32_t j = 0; j < used_blocks; ++j) {
        uint32_t count = std::min(c0, how.k - j * c0);
        for (uint32_t column = 0; column < n_blocks * 16; ++column) {
            widen(data(b) + (size_t(j) * n_blocks + column / 16) * kFractal + column % 16 * 32, count, line);
            Scalar* to = right.data() + (size_t(column / 16) * how.k + j * c0) * 16 + column % 16;
            for (uint32_t e = 0; e < count; ++e) to[e * 16] = line[e];
        }
    }
    auto* out = reinterpret_cast<Scalar*>(data(c));
    if (bias || how.zeroed) {
        for (uint32_t block = 0; block < n_blocks; ++block)
            for (uint32_t row = 0; row < how.m; ++row)
                for (uint32_t e = 0; e < 16; ++e)
                    out[(size_t(block) * rows_c + row) * 16 + e] =
                        bias && block * 16 + e < how.n ? bias[block * 16 + e] : Scalar(0);
    }
    loop(out, left.data(), right.data(), how.m, how.k, n_blocks, rows_c);
}

}  // namespace

void set_hf32(bool on) { cube_state().hf32 = on; }
void set_hf32_rounding(bool to_even) { cube_state().hf32_to_even = to_even; }

void mmad(const Local& result, const Local& left, const Local& right, const Local* bias, const Multiply& how,
          Where where) {
    const Local c = overhanging(result), a = overhanging(left), b = overhanging(right);
    CubeState& state = cube_state();
    Instruction mmad(Pipe::M, "Mmad", where);
    mmad.lives_in(c, Space::L0C, "dst");
    mmad.lives_in(a, Space::L0A, "fm");
    mmad.lives_in(b, Space::L0B, "filter");
    mmad.aligned(c, 1024, "dst");
    mmad.aligned(a, kFractal, "fm");
    mmad.aligned(b, kFractal, "filter");
    bool integers = a.dtype == Dtype::I8 || a.dtype == Dtype::I4;
    mmad.takes(integers || a.dtype == Dtype::F16 || a.dtype == Dtype::BF16 || a.dtype == Dtype::F32, a.dtype,
               "fm");
    mmad.takes(b.dtype == a.dtype, b.dtype, "filter");
    mmad.takes(c.dtype == (integers ? Dtype::I32 : Dtype::F32), c.dtype, "dst");
    mmad.require(how.m <= 4095 && how.n <= 4095 && how.k <= 4095,
                 "m, n and k must be at most 4095, not %u, %u and %u", how.m, how.n, how.k);
    mmad.require(how.unit_flag == 0 || how.unit_flag == 2 || how.unit_flag == 3,
                 "unitFlag must be 0, 2 or 3, not %u", how.unit_flag);
    mmad.require(!how.k_aligned || a.dtype == Dtype::F32, "kDirectionAlign is for float");
    if (!how.m || !how.n || !how.k) return;
    uint32_t size = size_of(a.dtype), c0 = a.dtype == Dtype::I4 ? 64 : 32 / size;
    uint32_t m_blocks = ceil_div(how.m, 16), n_blocks = ceil_div(how.n, 16), used = ceil_div(how.k, c0);
    uint32_t k_blocks = how.k_aligned ? ceil_div(how.k, 16) * 2 : used;
    uint32_t tail =
        how.k % c0 ? (how.k % c0) * 32 / c0 + (how.k % c0 * 32 % c0 ? 1 : 0) : 0;  // bytes in the last block
    uint32_t whole = tail ? used - 1 : used;
    // What is read are the elements that count; what lies between them in the fractals need not be written.
    if (how.m == 1) {
        mmad.reads(a, 0, uint64_t(whole) * 32 + tail, 1, 0, "fm");
    } else {
        for (uint32_t i = 0; i < m_blocks; ++i) {
            uint32_t rows = std::min(16U, how.m - i * 16);
            int64_t at = int64_t(i) * k_blocks * kFractal;
            if (whole) mmad.reads(a, at, rows * 32, whole, kFractal, "fm");
            if (tail) mmad.reads(a, at + int64_t(whole) * kFractal, tail, rows, 32, "fm");
        }
    }
    // Columns of B follow each other at 32 bytes, across fractals too.
    if (whole) mmad.reads(b, 0, uint64_t(how.n) * 32, whole, int64_t(n_blocks) * kFractal, "filter");
    if (tail) mmad.reads(b, int64_t(whole) * n_blocks * kFractal, tail, how.n, 32, "filter");
    Local table{Space::BT, 0, c.dtype, 0, uint32_t(how.n) * 4, -1};
    Local given{};
    if (bias) given = overhanging(*bias);
    const Local* initial = bias ? &given : nullptr;
    if (!bias && how.from_bias_table && !how.zeroed) initial = &table;
    if (initial) {
        mmad.lives_in(*initial, Space::BT, "bias");
        mmad.takes(initial->dtype == c.dtype, initial->dtype, "bias");
        mmad.aligned(*initial, 64, "bias");
        // Columns that only fill up the tile may have none.
        mmad.reads_any(*initial, 0, uint64_t(how.n) * 4, 1, 0, "bias");
    }
    bool accumulates = !initial && !how.zeroed;
    uint64_t column = uint64_t(how.m) * 64;
    int64_t step = int64_t(m_blocks) * 1024;
    if (accumulates && (how.m / 16) * (how.n / 16) < 10 && !mmad.settled(c, 0, column, n_blocks, step))
        fail(
            Kind::Race, where,
            "[Mmad] dst: Expected PipeBarrier<PIPE_M>() before a Mmad that adds to the result of an earlier "
            "one where (m / 16) * (n / 16) < 10, given m %u and n %u and none: the earlier result may not be "
            "complete.",
            how.m, how.n);
    // Of the last block of columns only those that count are results.
    auto results = [&](int64_t offset, uint64_t bytes, uint32_t count, int64_t stride) {
        if (accumulates)
            mmad.updates(c, offset, bytes, count, stride);
        else
            mmad.writes(c, offset, bytes, count, stride);
    };
    if (how.n >= 16) results(0, column, how.n / 16, step);
    if (how.n % 16) results(how.n / 16 * step, uint64_t(how.n % 16) * 4, how.m, 64);
    Work work = Work::cube(how.m, how.n, how.k, uint8_t(a.dtype));
    work.unit_flag = how.unit_flag;
    mmad.work(work);
    uint64_t area = uint64_t(n_blocks) * uint64_t(step);
    if (how.unit_flag && !mmad.skipped())
        state.flags(c.offset, area, [&](CubeState::UnitFlag& flag, uint32_t at) {
            if (flag.set)
                fail(Kind::Deadlock, where,
                     "[Mmad] dst: Expected the unit flag of L0C byte %u to be clear, given one that is set: "
                     "Mmad waits for ever. "
                     "No Fixpipe with unitFlag 3 has read what an earlier Mmad left there.",
                     at);
            mmad.after(Pipe::FIX, flag.fixpipe);
        });
    bool move = mmad.issue();
    if (how.unit_flag && !mmad.skipped())
        state.flags(c.offset, area, [&](CubeState::UnitFlag& flag, uint32_t) {
            flag.set = how.unit_flag == 3;
            flag.mmad = mmad.clock();
        });
    if (!move) return;
    Widen widen{a.dtype, state.hf32, state.hf32_to_even};
    if (integers) {
        run<int32_t>(c, a, b, initial ? reinterpret_cast<const int32_t*>(data(*initial)) : nullptr, how, c0,
                     k_blocks, widen, multiply_ints);
    } else {
        run<float>(c, a, b, initial ? reinterpret_cast<const float*>(data(*initial)) : nullptr, how, c0,
                   k_blocks, widen, multiply_floats);
        if (!saturates()) return;
        auto* results = reinterpret_cast<float*>(data(c));
        for (uint32_t block = 0; block < n_blocks; ++block)
            for (uint32_t e = 0; e < uint32_t(how.m) * 16; ++e)
                saturate_float(results[size_t(block) * m_blocks * 256 + e]);
    }
}

}  // namespace sim
