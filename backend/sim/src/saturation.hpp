// Bit 48 of the control register. While it is clear, as it is when a kernel starts, infinite results become
// the largest number of their sign and NaN becomes 0: of the vector unit's arithmetic, reductions and casts
// to float16 and bfloat16, of Mmad and of what Fixpipe rounds to them.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/core.hpp"

namespace sim {

inline bool saturates() { return (registers().control >> 48 & 1U) == 0; }

inline void saturate_float(float& value) {
    constexpr float most = std::numeric_limits<float>::max();
    value = value > most ? most : value < -most ? -most : value != value ? 0.0F : value;
}

// The bits of a float16 or bfloat16; those of infinity are less by one than those of the first NaN.
inline uint16_t saturated(Dtype dtype, uint16_t bits) {
    const uint16_t infinity = dtype == Dtype::F16 ? 0x7c00 : 0x7f80;
    const auto size = static_cast<uint16_t>(bits & 0x7fffU);
    return size < infinity ? bits : size == infinity ? static_cast<uint16_t>(bits - 1) : uint16_t{0};
}

// Results of an instruction; of another dtype they stay as they are.
inline void saturate_results(Dtype dtype, uint8_t* results, int64_t count) {
    if ((dtype != Dtype::F16 && dtype != Dtype::BF16) || !saturates()) return;
    auto* values = reinterpret_cast<uint16_t*>(results);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) values[i] = saturated(dtype, values[i]);
}

}  // namespace sim
