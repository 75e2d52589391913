// Arrays of float16 and bfloat16 ↔ float32. Arithmetic on narrow types is done in float32 on pieces that stay
// in the first-level cache, and rounded once when a piece is written back.
#pragma once

#include <cstdint>

namespace sim {

void widen_half(float* out, const uint16_t* in, int64_t count);
void narrow_half(uint16_t* out, const float* in, int64_t count);

// Elements of a piece.
constexpr int64_t piece = 512;

}  // namespace sim
