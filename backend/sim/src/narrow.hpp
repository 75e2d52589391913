// Arrays of float16 and bfloat16 ↔ float32. Arithmetic on narrow types is done in float32 on pieces that stay
// in the first-level cache, and rounded once when a piece is written back.
#pragma once

#include <cstdint>
#include <cstring>

#include "ascendc/types.hpp"

namespace sim {

void widen_half(float* out, const uint16_t* in, int64_t count);
void narrow_half(uint16_t* out, const float* in, int64_t count);

// A float16 or float32 element as float32.
inline float load_float(Dtype dtype, const uint8_t* from) {
    if (dtype == Dtype::F32) {
        float value;
        std::memcpy(&value, from, 4);
        return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return half_to_float(bits);
}

// Elements of a piece.
constexpr int64_t piece = 512;

}  // namespace sim
